"""Training of a torch module on CUDA, MPS or the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.atomic import replacing
from edgebench.errors import ConfigError, ModelError, one_line
from edgebench.models.pt2 import name_outputs
from edgebench.models.torch_export import write_pt2
from edgebench.models.torch_models import parameter_names
from edgebench.models.training import TrainOptions, epoch_seed, gives_probabilities, is_regression

if TYPE_CHECKING:
    from edgebench.data.training import TrainingData

_VALIDATION_BATCH = 256


class TorchTrainer:
    """A `train_loop.Trainer`. The module's first output is what is trained."""

    def __init__(self, module: Any, data: TrainingData, options: TrainOptions) -> None:
        import torch

        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError("TorchScript can't be trained: pass file.py:function --weights FILE")
        if options.deterministic:
            # cuBLAS reads this when its first handle is made; without it deterministic mode refuses to run.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False
        torch.manual_seed(options.seed)
        self.device = _device(options.device)
        self._kind = self.device.partition(" ")[0]
        dtype = _autocast_dtype(self._kind, options.mixed_precision)
        self.precision = str(dtype).removeprefix("torch.") if dtype else "float32"
        self._options = options
        self._autocast = {"device_type": self._kind, "dtype": dtype, "enabled": dtype is not None}
        self._module = module.to(self._kind)
        self._inputs = _by_parameter(module, data.inputs)
        self._validation_inputs = _by_parameter(module, data.validation_inputs)
        self._is_regression = is_regression(data.labels)
        label_type = torch.float32 if self._is_regression else torch.int64
        self._labels = torch.from_numpy(np.asarray(data.labels)).to(label_type)
        self._validation_labels = torch.from_numpy(np.asarray(data.validation_labels)).to(label_type)
        self._optimizer: Any = torch.optim.AdamW(
            [weight for weight in module.parameters() if weight.requires_grad], lr=options.learning_rate
        )
        self._scaler: Any = torch.amp.GradScaler(self._kind, enabled=dtype is torch.float16)
        self._gives_probabilities = self._probe(data)

    def begin_epoch(self, epoch: int) -> None:
        import torch

        torch.manual_seed(epoch_seed(self._options.seed, epoch))
        self._module.train()

    def step(self, rows: np.ndarray[Any, Any]) -> Any:
        import torch

        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(**self._autocast):
            output = self._forward(self._inputs, rows)
        loss = self._loss(output.float(), self._labels[rows].to(self._kind))
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss.detach()

    def validate(self) -> tuple[float, float]:
        import torch

        self._module.eval()
        total, right, n = 0.0, 0, len(self._validation_labels)
        with torch.no_grad():
            for start in range(0, n, _VALIDATION_BATCH):
                rows = np.arange(start, min(start + _VALIDATION_BATCH, n))
                output = self._forward(self._validation_inputs, rows).float()
                labels = self._validation_labels[rows].to(self._kind)
                total += float(self._loss(output, labels)) * len(rows)
                if not self._is_regression:
                    right += int((output.argmax(1) == labels).sum())
        loss = total / n
        return loss, loss if self._is_regression else right / n

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        tensors = {f"model/{name}": tensor for name, tensor in self._module.state_dict().items()}
        optimizer = self._optimizer.state_dict()["state"]
        tensors |= {f"optimizer/{index}/{name}": t for index, slots in optimizer.items() for name, t in slots.items()}
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        import torch

        tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
        self._module.load_state_dict(
            {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
        )
        slots: dict[int, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer/"):
                _, index, slot = name.split("/")
                slots.setdefault(int(index), {})[slot] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": slots})

    def save_best(self, out: Path) -> None:
        import torch

        weights = {name: tensor.detach().cpu() for name, tensor in self._module.state_dict().items()}
        with replacing(out / "best.pt") as temporary:
            torch.save(weights, temporary)

    def finish(self, out: Path) -> tuple[Path, Path | None]:
        import torch

        self._module.cpu().load_state_dict(torch.load(out / "best.pt", weights_only=True))
        example = {name: array[:1] for name, array in self._inputs.items()}
        with replacing(out / "best.pt2") as temporary:
            write_pt2(self._module, example, temporary, "best.pt2")
        return out / "best.pt2", out / "best.pt"

    def _forward(self, inputs: Mapping[str, np.ndarray[Any, Any]], rows: np.ndarray[Any, Any]) -> Any:
        import torch

        tensors = {name: torch.from_numpy(np.ascontiguousarray(array[rows])) for name, array in inputs.items()}
        outputs = name_outputs(self._module(**{name: tensor.to(self._kind) for name, tensor in tensors.items()}))
        return next(iter(outputs.values()))

    def _loss(self, output: Any, labels: Any) -> Any:
        from torch.nn import functional

        if self._is_regression:
            return functional.mse_loss(output.reshape(labels.shape), labels)
        if self._gives_probabilities:
            return functional.nll_loss(output.clamp_min(1e-7).log(), labels)
        return functional.cross_entropy(output, labels)

    def _probe(self, data: TrainingData) -> bool:
        """Run two samples: does the model fit the data, and does it give probabilities?"""
        import torch

        self._module.eval()
        try:
            with torch.no_grad():
                output = self._forward(self._inputs, np.arange(min(2, len(data.labels)))).float().cpu().numpy()
        except Exception as error:  # the model's own code raises
            shapes = ", ".join(f"{name} {array.shape[1:]}" for name, array in self._inputs.items())
            raise ModelError(f"the model does not run on a sample of the data ({shapes}): {one_line(error)}") from error
        return gives_probabilities(output, data)


def _device(asked: str) -> str:
    """`cuda (NVIDIA ...)`, `mps` or `cpu`."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if asked == "auto":
        asked = next(name for name, is_there in available.items() if is_there)
    if not available[asked]:
        found = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(f"device '{asked}' is not available to torch here; available: {found}")
    return f"cuda ({torch.cuda.get_device_name(0)})" if asked == "cuda" else asked


def _autocast_dtype(kind: str, asked: bool | None) -> Any:
    """What autocast computes in; None is float32 throughout."""
    import torch

    if asked is False or (asked is None and kind != "cuda"):
        return None
    if kind == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16


def _by_parameter(module: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The data's arrays by forward()'s parameters; "" is the only input."""
    required, optional = parameter_names(module)
    if list(inputs) == [""]:
        return {[*required, *optional][0]: inputs[""]}
    absent = [name for name in required if name not in inputs]
    if absent:
        raise ModelError(f"forward() needs {', '.join(absent)}, which the data lacks (it has {', '.join(inputs)})")
    return {name: inputs[name] for name in [*required, *optional] if name in inputs}
