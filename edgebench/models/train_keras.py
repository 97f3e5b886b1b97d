"""Training of a Keras model on the GPUs that TensorFlow sees, or the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.atomic import replacing
from edgebench.errors import ConfigError, ModelError, one_line
from edgebench.models.keras_models import input_names
from edgebench.models.training import TrainOptions, epoch_seed, gives_probabilities, is_regression

if TYPE_CHECKING:
    from edgebench.data.training import TrainingData

_VALIDATION_BATCH = 256


class KerasTrainer:
    """A `train_loop.Trainer`. The model's first output is what is trained."""

    def __init__(self, model: Any, data: TrainingData, options: TrainOptions) -> None:
        import keras
        import tensorflow as tf

        if options.deterministic:
            tf.config.experimental.enable_op_determinism()
        keras.utils.set_random_seed(options.seed)
        self.device = _device(options.device)
        self.precision = _mixed_precision(self.device, options.mixed_precision)
        self._options = options
        self._model = model
        self._inputs = _in_order(model, data.inputs)
        self._validation_inputs = _in_order(model, data.validation_inputs)
        self._is_regression = is_regression(data.labels)
        self._labels = np.asarray(data.labels, np.float32 if self._is_regression else np.int64)
        self._validation_labels = np.asarray(data.validation_labels, self._labels.dtype)
        gives_probabilities = self._probe(data)
        self._loss: Any = (
            keras.losses.MeanSquaredError()
            if self._is_regression
            else keras.losses.SparseCategoricalCrossentropy(from_logits=not gives_probabilities)
        )
        optimizer = keras.optimizers.AdamW(options.learning_rate)
        self._optimizer: Any = (
            keras.optimizers.LossScaleOptimizer(optimizer) if self.precision == "float16" else optimizer
        )
        self._optimizer.build(model.trainable_variables)
        self._learn: Any = tf.function(self._step, reduce_retracing=True)

    def begin_epoch(self, epoch: int) -> None:
        import keras

        # Dropout's own generators are variables of the model and travel in the checkpoint; this seeds all others.
        keras.utils.set_random_seed(epoch_seed(self._options.seed, epoch))

    def step(self, rows: np.ndarray[Any, Any]) -> Any:
        return self._learn([array[rows] for array in self._inputs.values()], self._labels[rows])

    def validate(self) -> tuple[float, float]:
        total, right, n = 0.0, 0, len(self._validation_labels)
        for start in range(0, n, _VALIDATION_BATCH):
            rows = slice(start, start + _VALIDATION_BATCH)
            labels = self._validation_labels[rows]
            output = self._forward([array[rows] for array in self._validation_inputs.values()], training=False)
            total += float(self._loss(self._targets(labels, output), output)) * len(labels)
            if not self._is_regression:
                right += int((np.argmax(output, axis=1) == labels).sum())
        loss = total / n
        return loss, loss if self._is_regression else right / n

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        return {
            f"{owner}/{index}": np.asarray(variable.numpy())
            for owner, variables in self._variables().items()
            for index, variable in enumerate(variables)
        }

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        for owner, variables in self._variables().items():
            for index, variable in enumerate(variables):
                variable.assign(state[f"{owner}/{index}"])

    def save_best(self, out: Path) -> None:
        with replacing(out / "best.keras") as temporary:
            self._model.save(temporary)

    def finish(self, out: Path) -> tuple[Path, Path | None]:
        return out / "best.keras", None

    def _step(self, inputs: Any, labels: Any) -> Any:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            output = self._forward(inputs, training=True)
            loss = self._loss(self._targets(labels, output), output)
            total = tf.add_n([loss, *self._model.losses]) if self._model.losses else loss
            scaled = self._optimizer.scale_loss(total)
        gradients = tape.gradient(scaled, self._model.trainable_variables)
        self._optimizer.apply_gradients(zip(gradients, self._model.trainable_variables, strict=True))
        return loss

    def _forward(self, inputs: list[Any], *, training: bool) -> Any:
        import tensorflow as tf

        if isinstance(getattr(self._model, "input", None), dict):
            given: Any = dict(zip(self._inputs, inputs, strict=True))
        else:
            given = inputs if len(inputs) > 1 else inputs[0]
        result = self._model(given, training=training)
        return next(iter(result.values())) if isinstance(result, dict) else tf.nest.flatten(result)[0]

    def _targets(self, labels: Any, output: Any) -> Any:
        import tensorflow as tf

        return tf.reshape(labels, tf.shape(output)) if self._is_regression else labels

    def _variables(self) -> dict[str, Any]:
        return {"model": self._model.variables, "optimizer": self._optimizer.variables}

    def _probe(self, data: TrainingData) -> bool:
        """Run two samples: does the model fit the data, and does it give probabilities?"""
        try:
            output = np.asarray(self._forward([array[:2] for array in self._inputs.values()], training=False))
        except Exception as error:  # Keras raises whatever a layer does
            shapes = ", ".join(f"{name} {array.shape[1:]}" for name, array in self._inputs.items())
            raise ModelError(f"the model does not run on a sample of the data ({shapes}): {one_line(error)}") from error
        return gives_probabilities(output, data)


def _device(asked: str) -> str:
    """`cuda (NVIDIA ...)` or `cpu`; hides the GPUs where the CPU is asked for."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if asked == "mps" or (asked == "cuda" and not gpus):
        raise ConfigError(
            f"device '{asked}' is not available to TensorFlow here; available: {'cuda, ' * bool(gpus)}cpu"
        )
    if asked == "cpu" or not gpus:
        tf.config.set_visible_devices([], "GPU")
        return "cpu"
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", gpus[0].name)
    return f"cuda ({name})"


def _mixed_precision(device: str, asked: bool | None) -> str:
    """Let the graph compute in a short type where asked; the model's own types, and its file, stay float32."""
    import tensorflow as tf

    if not asked:
        return "float32"
    if device == "cpu":
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
        return "bfloat16"
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
    return "float16"


def _in_order(model: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The data's arrays by the model's inputs, in their order; "" is the only input."""
    names = input_names(model) or list(inputs)
    if list(inputs) == [""]:
        return {names[0]: inputs[""]}
    absent = [name for name in names if name not in inputs]
    if absent:
        raise ModelError(f"the model needs {', '.join(absent)}, which the data lacks (it has {', '.join(inputs)})")
    return {name: inputs[name] for name in names}
