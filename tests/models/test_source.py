from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.errors import EdgebenchError, MissingError, ModelError
from edgebench.models import describe
from edgebench.types import Framework, Task


def test_a_zoo_model_is_described_with_its_preprocessing() -> None:
    info = describe("zoo:digits-cnn-torch")
    assert (info.framework, info.task, info.layout, info.needs_example) == (
        Framework.TORCH,
        Task.CLASSIFICATION,
        "NCHW",
        False,
    )
    assert info.preprocess is not None
    assert (info.preprocess.height, info.preprocess.channels) == (8, "gray")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("zoo:digits-cnn-tensor", "no zoo model is called 'digits-cnn-tensor'; did you mean 'digits-cnn-torch'?"),
        ("keras:mobilenetv2", "no keras.applications model is called 'mobilenetv2'; did you mean 'MobileNetV2'?"),
        ("gone.keras", "MODEL 'gone.keras' is not there: no such file or folder"),
        ("gone.py:make", "MODEL 'gone.py:make': 'gone.py' is not there"),
    ],
)
def test_an_unknown_model_is_refused_with_what_to_type(source: str, expected: str) -> None:
    with pytest.raises(ModelError) as caught:
        describe(source)
    assert str(caught.value) == expected


def test_a_misspelt_function_names_the_nearest(nets: Path) -> None:
    with pytest.raises(ModelError, match=r"is called 'two_input'; did you mean 'two_inputs'\?"):
        describe(f"{nets}/torch_nets.py:two_input")


def test_the_imports_of_a_file_tell_its_framework(nets: Path) -> None:
    torch_info = describe(f"{nets}/torch_nets.py:small")
    keras_info = describe(f"{nets}/keras_nets.py:sequential")
    assert (torch_info.framework, torch_info.needs_example, torch_info.layout) == (Framework.TORCH, True, "NCHW")
    assert (keras_info.framework, keras_info.needs_example, keras_info.layout) == (Framework.TENSORFLOW, False, "NHWC")


def test_a_file_that_imports_neither_framework_is_unknown_until_it_runs(tmp_path: Path) -> None:
    (tmp_path / "neither.py").write_text("from mine import *\n")
    info = describe(f"{tmp_path}/neither.py:anything")
    assert (info.framework, info.needs_example) == (None, True)


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def make(:\n")
    with pytest.raises(ModelError, match=r"broken.py is not Python: .*line 1"):
        describe(f"{tmp_path}/broken.py:make")


def test_weights_for_a_model_that_has_its_own_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"has its own weights; only keras:NAME, timm:NAME and file.py:function take"):
        describe(f"{tmp_path}/model.onnx", weights=tmp_path / "model.onnx")


def test_a_checkpoint_as_model_asks_for_its_architecture(tmp_path: Path) -> None:
    import torch

    torch.save({"w": torch.zeros(2)}, tmp_path / "net.pt")
    with pytest.raises(ModelError, match=r"for a checkpoint name its architecture, file.py:function --weights net.pt"):
        describe(f"{tmp_path}/net.pt")


def test_a_folder_that_is_no_saved_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is no SavedModel: it has no saved_model.pb"):
        describe(str(tmp_path))


def test_timm_that_is_not_installed_says_how_to_get_it() -> None:
    from importlib.util import find_spec

    if find_spec("timm"):
        pytest.skip("timm is installed here")
    with pytest.raises(MissingError, match="pip install timm"):
        describe("timm:resnet18")


def test_describing_imports_no_framework(nets: Path) -> None:
    code = (
        "import sys; from edgebench.models import describe\n"
        f"for source in ('zoo:digits-cnn-keras', 'keras:MobileNetV2', {str(nets / 'torch_nets.py')!r} + ':small'):\n"
        "    describe(source)\n"
        "print(sorted({'torch', 'tensorflow', 'keras', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_every_refusal_is_one_line() -> None:
    for source in ("", "zoo:", "keras:Nothing", "a.txt", "x.py", "http://model"):
        with pytest.raises(EdgebenchError) as caught:
            describe(source)
        assert "\n" not in str(caught.value)
