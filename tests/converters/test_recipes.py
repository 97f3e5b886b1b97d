from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.converters.recipes import catalogue, load_recipes
from edgebench.errors import ConfigError
from edgebench.types import Scheme


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_shipped_recipes_are_found_from_an_empty_folder() -> None:
    recipes = catalogue()
    assert {"tflite-fp32", "tflite-int8", "onnx-fp32", "onnx-int8"} <= set(recipes)
    kept_back = {"onnx-int8-percentile", "onnx-int4-weight-only", "tflite-int8-edgetpu", "tflite-int8-tensorflow"}
    kept_back |= {"tflite-int8-plain", "onnx-int8-plain"}
    assert {name for name, recipe in recipes.items() if not recipe.default} == kept_back
    assert all(recipe.description for recipe in recipes.values())


def test_recipes_come_in_the_order_asked_for() -> None:
    assert [recipe.name for recipe in load_recipes(["onnx-int8", "onnx-fp32"])] == ["onnx-int8", "onnx-fp32"]


def test_a_recipe_of_the_users_replaces_the_shipped_one_of_its_name() -> None:
    Path("converters").mkdir()
    Path("converters/onnx-int8.yaml").write_text("format: onnx\nscheme: fp16\n")
    assert load_recipes(["onnx-int8"])[0].scheme is Scheme.FP16
    assert catalogue()["onnx-int8"].scheme is Scheme.FP16


def test_a_broken_recipe_beside_it_does_not_stop_another_one() -> None:
    Path("converters").mkdir()
    Path("converters/broken.yaml").write_text("format: [")
    assert load_recipes(["onnx-int8"])[0].name == "onnx-int8"


def test_a_recipe_can_be_given_as_a_path() -> None:
    Path("mine.yaml").write_text(
        "format: onnx\nscheme: int8\ncalibration: {samples: 7}\nkeep_float: ['*/head*']\ngranularity: per-tensor\n"
    )
    (recipe,) = load_recipes(["mine.yaml"])
    assert (recipe.name, recipe.keep_float, recipe.granularity) == ("mine", ("*/head*",), "per-tensor")
    assert recipe.calibration is not None
    assert recipe.calibration.samples == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnx-int9", "no recipe 'onnx-int9', did you mean 'onnx-int8'?; list them with: edgebench recipes"),
        ("int8", "no recipe 'int8', did you mean 'tflite-int8' or 'onnx-int8'?; list them with: edgebench recipes"),
        ("zzz", "no recipe 'zzz'; list them with: edgebench recipes"),
        ("gone.yaml", "recipe file 'gone.yaml' does not exist"),
    ],
)
def test_an_unknown_recipe_names_the_nearest_one(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipes([name])
    assert str(caught.value) == message


def test_a_recipe_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'onnx-int8' is asked for twice"):
        load_recipes(["onnx-int8", "onnx-int8"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format: onnx\nschema: int8\n", "bad.yaml line 2: unknown key 'schema'; did you mean 'scheme'?"),
        ("format: onnx\nscheme: int8\n", "bad.yaml: recipe 'bad': int8 needs a `calibration` section"),
        ("format: onnx\nscheme: int16x8\ncalibration: {}\n", "onnx has no int16x8; possible: fp32"),
        ("format: onnx\n", "bad.yaml: scheme: is missing"),
        (
            "format: onnx\nscheme: int8\ncalibration: {sampels: 3}\n",
            "unknown key 'calibration.sampels'; did you mean 'samples'?",
        ),
        ("format: onnx\nscheme: int8\ncalibration: {samples: 0}\n", "calibration samples: 0; at least 1 is needed"),
        (
            "format: onnx\nscheme: int8\ncalibration: {samples: many}\n",
            "bad.yaml line 3: calibration.samples: Input should be a valid integer",
        ),
        ("format: onnx\nscheme: int7\n", "'int8' or 'int16x8' (found 'int7')"),
        ("- a list\n", "expected keys and values"),
        ("format: [\n", "not YAML"),
        ("a: !!python/object/apply:os.system ['touch pwned']\n", "not YAML"),
        ("1: 2\n", "unknown key '1'"),
        ("format: onnx\nscheme: int8\nformat: tflite\n", "line 3: key 'format' is there twice, first in line 1"),
        (
            "format: onnx\nscheme: int8\ncalibration:\n  samples: 3\n  samples: 4\n",
            "bad.yaml line 5: key 'calibration.samples' is there twice, first in line 4; keep one",
        ),
        ("format: onnx\nscheme: int8\ncalibration: {samples: true}\n", "line 3: calibration.samples: yes and no"),
        ("format: onnx\nscheme: fp32\nkeep_float: [a, no]\n", "line 3: keep_float: yes and no (true, false) are no"),
        ("format: onnx\nscheme: int8\ncalibration: &c {samples: *c}\n", "calibration.samples"),
    ],
)
def test_a_wrong_recipe_file_is_one_line_that_names_the_file(text: str, message: str) -> None:
    Path("bad.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_recipes(["bad.yaml"])
    assert message in str(caught.value)
    assert "bad.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("pwned").exists()
