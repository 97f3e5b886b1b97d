"""Which operators the Edge TPU runs, at which versions and under which conditions.

Names and conditions are those of the table "Supported operations" of https://coral.ai/docs/edgetpu/models-intro/ in its
last state (compiler 16, runtime 14). Highest versions are those that the interpreter of TensorFlow 2.5 registers
(tensorflow/lite/kernels/register.cc), whose era edgetpu_compiler 16.0 is of: it ends with "Didn't find op for builtin
opcode 'CONV_2D' version '6'", and the whole file is refused (google-coral/edgetpu issues 631 and 845). The compiler
itself takes less of some: "Operation version not supported" for resizing with half-pixel centers (issues 396 and 420).
One scale for the weights of FULLY_CONNECTED: tensorflow.org/lite/performance/quantization_spec as it was until 2023;
tflite-runtime 2.8 takes an int8 file that has one a channel, and gives the same value for every output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgebench.converters.tflite_details import TfliteDetails
from edgebench.converters.tflite_file import Operator, Subgraph, Tensor

COMPILED_OP = "edgetpu-custom-op"
# TensorFlow 2.5's last builtin is HASHTABLE_SIZE; a file with a later one is refused as a whole.
LAST_BUILTIN = 139

# The highest version that the compiler can read, by operator.
NEWEST = {
    "ADD": 3, "AVERAGE_POOL_2D": 3, "CONCATENATION": 3, "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6, "EXPAND_DIMS": 1,
    "FULLY_CONNECTED": 8, "L2_NORMALIZATION": 2, "LOGISTIC": 3, "LSTM": 4, "MAXIMUM": 4, "MAX_POOL_2D": 3, "MEAN": 3,
    "MINIMUM": 4, "MUL": 4, "PACK": 3, "PAD": 3, "PRELU": 1, "QUANTIZE": 2, "REDUCE_MAX": 3, "REDUCE_MIN": 3,
    "RELU": 3, "RELU6": 3, "RELU_N1_TO_1": 1, "RESHAPE": 1, "RESIZE_BILINEAR": 4, "RESIZE_NEAREST_NEIGHBOR": 4,
    "RSQRT": 2, "SLICE": 5, "SOFTMAX": 3, "SPACE_TO_DEPTH": 2, "SPLIT": 4, "SQUARED_DIFFERENCE": 2, "SQUEEZE": 2,
    "STRIDED_SLICE": 5, "SUB": 5, "SUM": 2, "TANH": 3, "TRANSPOSE": 5, "TRANSPOSE_CONV": 3,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 3,
}  # fmt: skip

OLDER = "convert with the recipe tflite-int8-edgetpu, or with TensorFlow 2.5 to 2.8"
_REPLACEMENTS = {
    "ARG_MAX": "end the model before it, and take the largest on the host",
    "DEQUANTIZE": "take int8 inputs and outputs (io_dtype: int8)",
    "DIV": "multiply by the inverse, where it is a constant",
    "ELU": "use ReLU or ReLU6",
    "GELU": "use ReLU or ReLU6",
    "HARD_SWISH": "use ReLU6, as EfficientNet-Lite does",
    "LEAKY_RELU": "use ReLU or PReLU",
    "MIRROR_PAD": "pad with zeros",
    "PADV2": "pad with zeros",
    "SPLIT_V": "split into equal parts",
    "TFLite_Detection_PostProcess": "none is needed at the end of a model: it is meant to run on the CPU",
}
_REPLACE = "use a supported operator, or move it to the end of the model, where only what follows is lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """Why an operator is not for the Edge TPU, and what to do. `is_refused`: the compiler does not read such a file."""

    reason: str
    remedy: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class OperatorView:
    """An operator with its tensors and options, for the rules. Absent inputs are left out of `inputs`."""

    operator: Operator
    graph: Subgraph
    options: dict[str, int]
    details: TfliteDetails

    @property
    def inputs(self) -> list[Tensor]:
        return [self.graph.tensors[index] for index in self.operator.inputs if index >= 0]

    @property
    def outputs(self) -> list[Tensor]:
        return [self.graph.tensors[index] for index in self.operator.outputs if index >= 0]

    def integers(self, place: int) -> tuple[int, ...]:
        """The values of the constant that is input number `place`; none where there is no such constant."""
        return self.details.integers(self.inputs[place]) if place < len(self.inputs) else ()


def finding(view: OperatorView) -> Finding | None:
    """What keeps an operator from the Edge TPU; None where nothing does."""
    name, version = view.operator.name, view.operator.version
    if name == COMPILED_OP:
        return None
    if name not in NEWEST:
        is_refused = _builtin_number(name) > LAST_BUILTIN
        reason = "the Edge TPU has no such operator"
        if is_refused:
            reason += ", and edgetpu_compiler, which is older than it, refuses the whole file"
        return Finding(reason, _REPLACEMENTS.get(name, _REPLACE), is_refused)
    if version > NEWEST[name]:
        return Finding(
            f"version {version} is newer than {NEWEST[name]}, the last that edgetpu_compiler reads: "
            "it refuses the whole file",
            OLDER,
            is_refused=True,
        )
    for check in (_types, _shapes, _constants, _RULES.get(name)):
        found = check(view) if check else None
        if found:
            return found
    return None


def _builtin_number(name: str) -> int:
    from ai_edge_litert import schema_py_generated as schema

    return int(getattr(schema.BuiltinOperator, name, 0))


def _types(view: OperatorView) -> Finding | None:
    """Activations and weights are int8 or uint8, biases int32."""
    for tensor in (*view.inputs, *view.outputs):
        is_parameter = bool(tensor.constant_bytes) and tensor.dtype in ("int32", "int64")
        if tensor.dtype not in ("int8", "uint8") and not is_parameter:
            if view.operator.name == "QUANTIZE":
                return Finding(f"it reads {tensor.dtype}", "take int8 inputs and outputs (io_dtype: int8)")
            return Finding(
                f"'{tensor.name}' is {tensor.dtype}, not int8 or uint8",
                "quantize it: full integer, nothing in keep_float",
            )
    return None


def _shapes(view: OperatorView) -> Finding | None:
    """Sizes are fixed, and only the three innermost dimensions of what is computed are above 1."""
    for tensor in (*view.inputs, *view.outputs):
        if None in tensor.shape:
            return Finding(f"the shape of '{tensor.name}' is open", "fix it: --batch 1")
        outer = [size for size in tensor.shape[:-3] if size is not None]
        if not tensor.constant_bytes and any(size > 1 for size in outer):
            shape = "x".join(map(str, tensor.shape))
            return Finding(f"'{tensor.name}' is {shape}: more than its 3 innermost dimensions are above 1", "--batch 1")
    return None


def _constants(view: OperatorView) -> Finding | None:
    """Weights, shapes, axes and paddings are known when the file is compiled."""
    places = {"CONV_2D": (1, 2), "DEPTHWISE_CONV_2D": (1, 2), "FULLY_CONNECTED": (1, 2), "TRANSPOSE_CONV": (0, 1)}
    for place in places.get(view.operator.name, ()):
        if place < len(view.inputs) and not view.inputs[place].constant_bytes:
            return Finding(f"its parameter '{view.inputs[place].name}' is computed, not a constant", _REPLACE)
    return None


def _same_dilation(view: OperatorView) -> Finding | None:
    across, down = view.options.get("DilationWFactor", 1), view.options.get("DilationHFactor", 1)
    if across == down:
        return None
    return Finding(f"its dilation differs in x ({across}) and y ({down})", "use the same dilation in both")


def _no_activation(view: OperatorView) -> Finding | None:
    if not view.options.get("FusedActivationFunction"):
        return None
    return Finding("it has a fused activation", "put the activation into a layer of its own")


def _concatenation(view: OperatorView) -> Finding | None:
    constants = [tensor for tensor in view.inputs if tensor.constant_bytes]
    is_padding = len(view.inputs) == 2 and all(
        set(view.details.integers(tensor)) <= {tensor.zero_points[0] if tensor.zero_points else 0}
        for tensor in constants
    )
    if constants and not is_padding:
        return Finding("it joins a constant that is no zero padding", "add the constant in another way, or on the host")
    return _no_activation(view)


def _fully_connected(view: OperatorView) -> Finding | None:
    if view.options.get("WeightsFormat"):
        return Finding("its weights are shuffled", "convert without shuffled weights")
    if view.outputs and any((size or 0) > 1 for size in view.outputs[0].shape[:-1]):
        return Finding("its output has more than one dimension", "flatten its input to one vector, or use a 1x1 Conv2D")
    if len(view.inputs) > 1 and view.inputs[1].axis is not None:
        return Finding(
            "its weights have one scale a channel; those of edgetpu_compiler's era have one scale for this operator",
            "take the recipe tflite-int8-edgetpu, which gives them one scale",
        )
    return None


def _no_batch_axis(view: OperatorView) -> Finding | None:
    rank = len(view.inputs[0].shape) if view.inputs else 0
    axes = {axis % rank for axis in view.integers(1)} if rank else set()
    return Finding("it reduces the batch", "reduce other dimensions") if 0 in axes else None


def _mean(view: OperatorView) -> Finding | None:
    shape = view.inputs[0].shape if view.inputs else ()
    axes = {axis % len(shape) for axis in view.integers(1)} if shape else set()
    if len(shape) == 4 and 3 in axes and (shape[3] or 0) % 4:
        return Finding(f"it takes the mean of {shape[3]} channels, no multiple of 4", "use a multiple of 4 channels")
    return _no_batch_axis(view)


def _pack(view: OperatorView) -> Finding | None:
    rank = len(view.outputs[0].shape) if view.outputs else 0
    is_batch = bool(rank) and view.options.get("Axis", 0) % rank == 0
    return Finding("it packs along the batch", "pack along another dimension") if is_batch else None


def _pad(view: OperatorView) -> Finding | None:
    return Finding("it pads the batch", "pad other dimensions") if any(view.integers(1)[:2]) else None


def _prelu(view: OperatorView) -> Finding | None:
    alpha = view.inputs[1].shape if len(view.inputs) > 1 else ()
    if any((size or 0) > 1 for size in alpha[:-1]):
        return Finding("its alpha is not one value a channel", "Keras: PReLU(shared_axes=[1, 2])")
    return None


def _resize(view: OperatorView) -> Finding | None:
    if view.operator.version > 2 or view.options.get("HalfPixelCenters"):
        return Finding(
            "it has half-pixel centers (version 3): edgetpu_compiler says 'Operation version not supported'",
            "use a transposed convolution, or tf.compat.v1.image.resize without half-pixel centers",
        )
    return None


def _softmax(view: OperatorView) -> Finding | None:
    shape = [size or 0 for size in view.inputs[0].shape] if view.inputs else []
    if any(size > 1 for size in shape[:-1]) or (shape and shape[-1] > 16_000):
        return Finding(
            f"its input is {'x'.join(map(str, shape))}; it takes one dimension of up to 16000",
            "end the model before it, and take the softmax on the host",
        )
    return None


def _split(view: OperatorView) -> Finding | None:
    return Finding("it splits the batch", "split another dimension") if view.integers(0) == (0,) else None


def _strided_slice(view: OperatorView) -> Finding | None:
    if set(view.integers(3)) - {1} or view.options.get("EllipsisMask") or view.options.get("NewAxisMask"):
        return Finding("it has strides, an ellipsis or a new axis", "slice with strides of 1 and explicit ranges")
    return None


_RULES: dict[str, Callable[[OperatorView], Finding | None]] = {
    "AVERAGE_POOL_2D": _no_activation,
    "CONCATENATION": _concatenation,
    "CONV_2D": _same_dilation,
    "DEPTHWISE_CONV_2D": _same_dilation,
    "FULLY_CONNECTED": _fully_connected,
    "MAX_POOL_2D": _no_activation,
    "MEAN": _mean,
    "PACK": _pack,
    "PAD": _pad,
    "PRELU": _prelu,
    "REDUCE_MAX": _no_batch_axis,
    "REDUCE_MIN": _no_batch_axis,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SOFTMAX": _softmax,
    "SPLIT": _split,
    "STRIDED_SLICE": _strided_slice,
    "SUM": _no_batch_axis,
}
