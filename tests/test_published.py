"""The published results are what their records give."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from edgebench import reports
from edgebench.store import Store

ROOT = Path(__file__).parent.parent
RUNS = sorted(path.parent for path in (ROOT / "reports").glob("*/records.sqlite"))


def rendered(run: Path, format: str) -> str:
    with Store.open(run / "records.sqlite", read_only=True) as store:
        return reports.render(store.run(), store.records(), format)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_markdown_is_that_of_the_records(run: Path) -> None:
    assert (run / "report.md").read_text() == rendered(run, "markdown")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_page_is_that_of_the_records(run: Path) -> None:
    if f"matplotlib=={version('matplotlib')}\n" not in (ROOT / "constraints.txt").read_text():
        pytest.skip("drawn with the matplotlib of constraints.txt; another version may place ticks differently")
    assert (run / "report.html").read_text() == rendered(run, "html")


def test_there_is_a_published_result() -> None:
    assert RUNS
