from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgebench.errors import ModelError
from edgebench.models import describe, snapshot
from edgebench.models.predict import open_predictor, predict_all
from edgebench.types import Framework


def _codes(baseline):
    return [caution.code for caution in baseline.cautions]


def test_two_inputs_with_integer_ids_and_an_lstm_keep_their_names_and_an_open_batch(nets: Path) -> None:
    baseline = snapshot(f"{nets}/torch_nets.py:two_inputs", nets / "run")
    assert [(spec.name, spec.shape, spec.dtype) for spec in baseline.inputs] == [
        ("ids", (None, 7), "int64"),
        ("extra", (None, 3), "float32"),
    ]
    assert [(spec.name, spec.shape) for spec in baseline.outputs] == [("scores", (None, 3)), ("states", (None, 7, 16))]
    assert baseline.framework is Framework.TORCH
    assert baseline.parameters == 50 * 8 + 4 * 16 * (8 + 16 + 2) + 16 * 3 + 3
    assert _codes(baseline) == []


def test_a_second_snapshot_has_the_same_hash_and_other_weights_another(nets: Path) -> None:
    first = snapshot(f"{nets}/torch_nets.py:two_inputs", nets / "run")
    again = snapshot(f"{nets}/torch_nets.py:two_inputs", nets / "run2")
    other = snapshot(f"{nets}/torch_nets.py:mixes_the_batch", nets / "run3")
    assert first.sha256 == again.sha256 != other.sha256


def test_images_of_the_data_are_turned_to_channels_first_and_batch_norm_is_frozen(nets: Path) -> None:
    import torch

    example = {"": np.zeros((1, 16, 16, 3), np.float32)}
    baseline = snapshot(f"{nets}/torch_nets.py:conv", nets / "run", example=example)
    (image,) = baseline.inputs
    assert (image.name, image.shape, image.layout) == ("input", (None, 3, 16, 16), "NCHW")
    assert [spec.name for spec in baseline.outputs] == ["output_0", "output_1"]
    images = np.random.default_rng(0).standard_normal((5, 3, 16, 16), dtype=np.float32)
    predictor = open_predictor(baseline, nets / "run")
    found = predict_all(predictor, baseline, {"input": images})
    program = torch.export.load(nets / "run" / baseline.path)
    weights = program.state_dict
    expected = torch.nn.functional.conv2d(torch.from_numpy(images), weights["conv.weight"], weights["conv.bias"])
    expected = expected / np.sqrt(1 + 1e-5)  # untouched running statistics: mean 0, variance 1
    np.testing.assert_allclose(found["output_1"], expected.detach().numpy(), atol=1e-5)


def test_a_model_that_mixes_its_batch_gets_a_fixed_batch_and_says_so(nets: Path) -> None:
    baseline = snapshot(f"{nets}/torch_nets.py:mixes_the_batch", nets / "run")
    assert baseline.inputs[0].shape == (1, 3)
    assert _codes(baseline) == ["fixed-batch"]
    assert "depends on the other samples of its batch" in baseline.cautions[0].message
    outputs = predict_all(open_predictor(baseline, nets / "run"), baseline, {"x": np.ones((5, 3), np.float32)})
    assert outputs["output"].shape == (5, 3)


def test_a_module_without_example_inputs_asks_for_them(nets: Path) -> None:
    with pytest.raises(ModelError, match=r"return \(model, example_inputs\) from the function, or pass --data"):
        snapshot(f"{nets}/torch_nets.py:conv", nets / "run")


def test_data_without_an_input_names_it(nets: Path) -> None:
    (nets / "only.py").write_text("from torch_nets import TwoInputs\n\n\ndef make():\n    return TwoInputs()\n")
    with pytest.raises(ModelError, match=r"forward\(\) needs extra, which the data lacks \(it has ids\)"):
        snapshot(f"{nets}/only.py:make", nets / "run", example={"ids": np.zeros((1, 7), np.int64)})


def test_code_that_raises_is_told_in_one_line_with_its_place(nets: Path) -> None:
    with pytest.raises(ModelError, match=r"raised RuntimeError: no such model at line \d+ of torch_nets.py$"):
        snapshot(f"{nets}/torch_nets.py:raises", nets / "run")
    with pytest.raises(ModelError, match=r"returned a str; return a torch.nn.Module, a Keras model"):
        snapshot(f"{nets}/torch_nets.py:returns_text", nets / "run")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "net.inner."])
def test_a_common_prefix_of_a_checkpoint_is_taken_off_and_told(nets: Path, prefix: str) -> None:
    import torch

    state = {prefix + key: value + 1 for key, value in _small_state(nets).items()}
    torch.save(state, nets / "w.pt")
    baseline = snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.pt")
    assert _codes(baseline) == ["checkpoint-prefix"]
    assert f"'{prefix}'" in baseline.cautions[0].message
    program = torch.export.load(nets / "run" / baseline.path)
    assert torch.equal(program.state_dict["0.bias"], state[prefix + "0.bias"])


def test_safetensors_and_a_wrapped_checkpoint_load(nets: Path) -> None:
    import torch
    from safetensors.torch import save_file

    state = _small_state(nets)
    save_file(state, nets / "w.safetensors")
    torch.save({"model_state_dict": state, "epoch": 3}, nets / "w.pth")
    plain = snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.safetensors")
    wrapped = snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.pth")
    assert plain.sha256 == wrapped.sha256
    assert _codes(wrapped) == ["checkpoint-entry"]


def test_missing_and_unexpected_keys_are_listed(nets: Path) -> None:
    import torch

    state = _small_state(nets)
    del state["0.weight"]
    state |= {f"extra.{index}": torch.zeros(1) for index in range(7)}
    torch.save(state, nets / "w.pt")
    with pytest.raises(ModelError) as caught:
        snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.pt")
    text = str(caught.value)
    assert "1 of 4 keys are missing (0.weight)" in text
    assert "7 keys are unexpected (extra.0, extra.1, extra.2, extra.3, extra.4, ...)" in text


def test_a_wrong_shape_is_told(nets: Path) -> None:
    import torch

    torch.save({**_small_state(nets), "2.bias": torch.zeros(9)}, nets / "w.pt")
    with pytest.raises(ModelError, match=r"2.bias is \(9,\), the model needs \(3,\)"):
        snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.pt")


class _Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def test_a_pickle_in_a_checkpoint_is_never_run(nets: Path) -> None:
    import torch

    torch.save({"0.weight": _Evil(nets / "ran")}, nets / "w.pt")
    with pytest.raises(ModelError, match="hold a pickled object"):
        snapshot(f"{nets}/torch_nets.py:small", nets / "run", weights=nets / "w.pt")
    assert not (nets / "ran").exists()


def test_a_pickled_module_loads_only_when_trusted(nets: Path) -> None:
    import torch

    torch.save(torch.nn.Linear(4, 2), nets / "whole.pt")
    example = {"": np.zeros((1, 4), np.float32)}
    with pytest.raises(ModelError, match="--trust"):
        describe(f"{nets}/whole.pt")
    with pytest.raises(ModelError, match="--trust"):
        snapshot(f"{nets}/whole.pt", nets / "run", example=example)
    assert snapshot(f"{nets}/whole.pt", nets / "run", example=example, trust=True).inputs[0].shape == (None, 4)


@pytest.mark.parametrize("how", ["trace", "script"])
def test_torchscript_becomes_an_exported_program_with_an_open_batch(nets: Path, how: str) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten()).eval()
    image = torch.randn(2, 1, 8, 8)
    script = torch.jit.trace(net, image) if how == "trace" else torch.jit.script(net)
    script.save(str(nets / "net.ts"))
    baseline = snapshot(f"{nets}/net.ts", nets / "run", example={"": image[:1].numpy()})
    assert baseline.inputs[0].shape == (None, 1, 8, 8)
    name = baseline.inputs[0].name
    found = predict_all(open_predictor(baseline, nets / "run"), baseline, {name: image.numpy()})
    np.testing.assert_allclose(found["output"], net(image).detach().numpy(), atol=1e-5)


def test_a_pt2_is_taken_as_it_is(nets: Path) -> None:
    import torch

    batch = torch.export.Dim("batch", min=1)
    net = torch.nn.Linear(4, 2).eval()
    program = torch.export.export(net, (torch.zeros(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, nets / "net.pt2")
    baseline = snapshot(f"{nets}/net.pt2", nets / "run")
    assert (baseline.inputs[0].name, baseline.inputs[0].shape) == ("input", (None, 4))
    assert (baseline.outputs[0].name, baseline.parameters) == ("output", 10)


def test_a_pt2_in_training_mode_is_refused(nets: Path) -> None:
    import torch

    program = torch.export.export(torch.nn.Dropout(0.5).train(), (torch.zeros(2, 4),))
    torch.export.save(program, nets / "net.pt2")
    with pytest.raises(ModelError, match=r"exported in training mode .*: call model.eval\(\)"):
        snapshot(f"{nets}/net.pt2", nets / "run")


def test_a_pickle_or_an_expression_in_a_pt2_is_never_run(nets: Path) -> None:
    import io
    import zipfile

    import torch

    program = torch.export.export(
        torch.nn.Linear(4, 2), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},)
    )
    torch.export.save(program, nets / "net.pt2")
    with zipfile.ZipFile(nets / "net.pt2") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    pickled = io.BytesIO()
    torch.save((_Evil(nets / "ran"),), pickled)
    call = f"[].append(__import__('pathlib').Path('{nets}/ran').touch())"
    changes = {
        "net/data/sample_inputs/model.pt": pickled.getvalue(),
        "net/models/model.json": entries["net/models/model.json"].replace(
            b'"expr_str": "Symbol(', f'"expr_str": "{call} or Symbol('.encode()
        ),
    }
    for entry, content in changes.items():
        assert entries[entry] != content
        with zipfile.ZipFile(nets / "evil.pt2", "w", zipfile.ZIP_STORED) as archive:
            for name, original in entries.items():
                archive.writestr(name, content if name == entry else original)
        with pytest.raises(ModelError):
            snapshot(f"{nets}/evil.pt2", nets / "run")
        assert not (nets / "ran").exists()


def test_damaged_torch_files_are_refused_in_one_line(nets: Path) -> None:
    import torch

    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(2, 4),)), nets / "net.pt2")
    whole = (nets / "net.pt2").read_bytes()
    for name, content in {
        "cut.pt2": whole[: len(whole) // 2],
        "random.pt2": np.random.default_rng(0).bytes(5000),
        "empty.pt2": b"",
        "random.pt": np.random.default_rng(0).bytes(5000),
    }.items():
        (nets / name).write_bytes(content)
        with pytest.raises(ModelError) as caught:
            snapshot(f"{nets}/{name}", nets / "run", example={"": np.zeros((1, 4), np.float32)})
        assert "\n" not in str(caught.value)
        assert name in str(caught.value)


def _small_state(nets: Path):
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).state_dict()


def test_dropout_that_eval_does_not_reach_is_refused_with_what_to_write(nets: Path) -> None:
    with pytest.raises(ModelError, match=r"stays in training mode after eval\(\).*training=self\.training"):
        snapshot(f"{nets}/torch_nets.py:drops_always", nets / "run")


def test_an_output_without_a_batch_axis_is_told_with_what_to_do(nets: Path) -> None:
    baseline = snapshot(f"{nets}/torch_nets.py:no_batch", nets / "run")
    with pytest.raises(ModelError, match=r"has shape \(\) for a batch of 1.*let the model give one row a sample"):
        predict_all(open_predictor(baseline, nets / "run"), baseline, {"input": np.ones((5, 3), np.float32)})
