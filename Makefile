# Two commands are enough: `make demo` and `make test`. Each installs what it needs into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-slow check lint format types wheel bench reports measure-reports clean

demo: $(INSTALLED)  ## Convert and measure a real model on real data, and show the table
	$(BIN)/edgebench convert+measure zoo:digits-cnn-keras --data digits --out runs/demo
	@echo "To use edgebench in this shell: . $(BIN)/activate"

test: $(INSTALLED)  ## Every quick test
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(INSTALLED)  ## The tests that take minutes
	$(BIN)/python -m pytest -m slow

check: lint types test wheel  ## What CI checks, less the slow tests

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED)
	$(BIN)/mypy

wheel: $(INSTALLED)  ## Build the wheel from the sdist and use it, core only, in an empty folder
	bash .ci/wheel $(BIN)/python

bench: $(INSTALLED)  ## The claims of speed and quality, measured here; wants a quiet machine
	$(BIN)/python benchmarks/runner_fidelity.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/int8_quality.py reports/efficientnet-lite0

reports: $(INSTALLED)  ## Make the published views again from their records
	for run in reports/*/; do \
	    $(BIN)/edgebench report $$run --format html --out $$run/report.html && \
	    $(BIN)/edgebench report $$run --format markdown --out $$run/report.md || exit 1; \
	done

measure-reports: $(INSTALLED)  ## Take the published measurements again; wants a quiet machine
	$(BIN)/edgebench run reports/efficientnet-lite0/matrix.yaml --out runs/efficientnet-lite0
	cp runs/efficientnet-lite0/records.sqlite reports/efficientnet-lite0/
	$(MAKE) reports

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("edgebench needs Python 3.11 or newer; name one: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@echo "Installing into $(VENV): about 4 GB, some minutes ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
