"""Quantize a float .onnx file with onnxruntime's tools, as a recipe asks. Inputs and outputs keep their types."""

from __future__ import annotations

import fnmatch
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.converters import calibrate_onnx, correct_onnx, onnx_file, onnx_pooling, onnx_sort
from edgebench.converters.bias_correction import NOTHING_CORRECTED, spread
from edgebench.converters.exported import Exported
from edgebench.converters.quantized import Quantized
from edgebench.errors import ConfigError, RefusedError
from edgebench.naming import printable
from edgebench.types import Caution, Recipe, Scheme

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

# Quantizing keeps the float weights, their copies and the result in one protobuf message, whose limit is 2 GiB.
_LARGEST_MODEL = 2 * 10**9
# Per-channel scales came with opset 13.
_LOWEST_OPSET = 13
_LARGEST_FLOAT16 = 65504.0
# One scale for 32 weights: the usual block of 4-bit formats, 0.6 extra bits a weight.
_INT4_BLOCK = 32


def quantize(float_file: Exported, recipe: Recipe, calibration: dict[str, NDArray[Any]] | None, out: Path) -> Quantized:
    """Write `out` as `recipe` asks. `calibration`: by the file's tensor name, shape (n, ...), n samples on axis 0.

    int8 is QDQ with uint8 activations and int8 weights: on x86 with VNNI 1.7 times as fast as int8 activations, at the
    same accuracy. BatchNorm is folded first. The file stays portable: weights use all 8 bits.

    Raises:
        RefusedError: this model can't be made into what the recipe asks for.
        ConfigError: a `keep_float` pattern matches no operator.
        DataError: calibration samples are missing for an input.
    """
    model = onnx_file.load(float_file.path)
    size_bytes = sum(
        file.stat().st_size for file in (float_file.path, *onnx_file.external_files(float_file.path, model))
    )
    if size_bytes > _LARGEST_MODEL:
        raise RefusedError(f"{float_file.path.name} has {size_bytes} bytes; quantizing ONNX files ends at 2 GB")
    _check_opset(model, recipe)
    with tempfile.TemporaryDirectory(prefix="edgebench-onnx-") as folder:
        workshop = Path(folder)
        cautions: tuple[Caution, ...] = ()
        if recipe.scheme is Scheme.FP16:
            cautions = _float16(float_file.path, recipe, out)
        elif recipe.scheme is Scheme.DYNAMIC_INT8:
            _dynamic_int8(float_file.path, recipe, out, workshop)
        elif recipe.scheme is Scheme.INT8:
            cautions = _static_int8(float_file.path, recipe, calibration, out, workshop)
        elif recipe.scheme is Scheme.WEIGHT_ONLY_INT4:
            _int4_weights(float_file.path, recipe, out)
        else:
            raise RefusedError(f"recipe '{recipe.name}': ONNX files can't be quantized to {recipe.scheme}")
        _sort(out)
    return Quantized(
        route="onnxruntime.quantization",
        tool_versions={tool: version(tool) for tool in ("onnx", "onnxruntime")},
        cautions=cautions + _cautions(recipe, out),
    )


def _float16(path: Path, recipe: Recipe, out: Path) -> tuple[Caution, ...]:
    import onnx
    from onnxruntime.quantization.onnx_model import ONNXModel
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(path)
    kept = _kept_float(model, recipe)
    cut = _beyond_float16(model, kept)
    # The conversion appends its casts at the end; saving through ONNXModel puts the nodes in order.
    ONNXModel(convert_float_to_float16(model, keep_io_types=True, node_block_list=kept)).save_model_to_file(str(out))
    if not cut:
        return ()
    named = ", ".join(printable(name) for name in cut[:3]) + (" ..." if len(cut) > 3 else "")
    message = f"the weights {named} have values beyond float16's largest, {_LARGEST_FLOAT16:g}, which were cut to it"
    advice = "name the operators of these weights in the recipe's `keep_float`"
    return (Caution(code="float16-range", message=message, advice=advice),)


def _beyond_float16(model: ModelProto, kept: list[str]) -> list[str]:
    """The names of float32 weights that some operator outside of `kept` reads and that float16 can't hold."""
    from onnx import TensorProto, numpy_helper

    read = {name for node in model.graph.node if node.name not in kept for name in node.input}
    return [
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
        and tensor.name in read
        and np.abs(numpy_helper.to_array(tensor)).max(initial=0) > _LARGEST_FLOAT16
    ]


def _dynamic_int8(path: Path, recipe: Recipe, out: Path, workshop: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ready = _preprocessed(path, workshop, pools_means=False)
    model = onnx.load(ready)
    kept = _kept_float(model, recipe)
    onnx.save(model, ready)  # with a name for every operator
    quantize_dynamic(
        ready,
        out,
        per_channel=recipe.granularity == "per-channel",
        weight_type=QuantType.QInt8,
        nodes_to_exclude=kept,
    )


def _static_int8(
    path: Path, recipe: Recipe, samples: dict[str, NDArray[Any]] | None, out: Path, workshop: Path
) -> tuple[Caution, ...]:
    import onnx
    from onnxruntime.quantization import QDQQuantizer, QuantType
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    if recipe.calibration is None or samples is None:
        raise RefusedError(f"recipe '{recipe.name}' needs calibration samples: give --data or --calibration")
    ready = _preprocessed(path, workshop, pools_means=True)
    model = onnx.load(ready)
    kept = _kept_float(model, recipe)
    onnx.save(model, ready)  # with a name for every operator
    op_types = sorted({*QDQRegistry, *QLinearOpsRegistry})
    quantizer = QDQQuantizer(
        model,
        per_channel=recipe.granularity == "per-channel",
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QUInt8,
        tensors_range=calibrate_onnx.ranges(ready, recipe.calibration, samples, op_types, workshop),
        nodes_to_quantize=[],
        nodes_to_exclude=kept,
        op_types_to_quantize=op_types,
        extra_options={},
    )
    quantizer.quantize_model()
    cautions: tuple[Caution, ...] = ()
    if recipe.bias_correction:
        few = {name: spread(array) for name, array in samples.items()}
        batches = list(calibrate_onnx.feeds(ready, few))
        if not correct_onnx.correct(onnx.load(ready), quantizer.model.model, batches):
            cautions = (NOTHING_CORRECTED,)
    quantizer.model.save_model_to_file(str(out))
    return cautions


def _int4_weights(path: Path, recipe: Recipe, out: Path) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel

    wrapped = ONNXModel(onnx.load(path))
    kept = _kept_float(wrapped.model, recipe)
    wrapped.replace_gemm_with_matmul()
    quantizer = MatMulNBitsQuantizer(wrapped.model, bits=4, block_size=_INT4_BLOCK, nodes_to_exclude=kept)
    quantizer.process()
    if not any(node.op_type == "MatMulNBits" for node in quantizer.model.model.graph.node):
        raise RefusedError(
            f"recipe '{recipe.name}': the model has no MatMul with constant weights that it may quantize; "
            "take onnx-int8 or onnx-dynamic-int8"
        )
    quantizer.model.save_model_to_file(str(out))


def _preprocessed(path: Path, workshop: Path, *, pools_means: bool) -> Path:
    """The model with BatchNorm and constants folded and every shape inferred, which calibration and quantizers need."""
    import onnx
    from onnxruntime.quantization import quant_pre_process

    model = onnx.load(path)
    if pools_means:
        onnx_pooling.pool_spatial_means(model)
    ready = workshop / "ready.onnx"
    rewritten = workshop / "rewritten.onnx"
    onnx.save(model, rewritten)
    # Symbolic shape inference would need sympy; ONNX's own is enough once constants are folded.
    quant_pre_process(rewritten, ready, skip_symbolic_shape=True)
    _sort(ready)
    return ready


def _sort(path: Path) -> None:
    """Put the file's operators in order, where onnxruntime's tools left them out of it: they miss what a body reads."""
    import onnx

    model = onnx.load(path)
    if onnx_sort.sort_nodes(model):
        onnx.save(model, path)


def _kept_float(model: ModelProto, recipe: Recipe) -> list[str]:
    """The names of the operators whose type or name `keep_float` matches; each pattern must match one.

    Operators without a name get one, in place, since onnxruntime's tools leave out operators by name.
    """
    taken = {node.name for node in model.graph.node}
    for index, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{index}" if f"{node.op_type}_{index}" not in taken else f"unnamed/{index}"
    kept: set[str] = set()
    for pattern in recipe.keep_float:
        matched = {
            node.name
            for node in model.graph.node
            if fnmatch.fnmatchcase(node.name, pattern) or fnmatch.fnmatchcase(node.op_type, pattern)
        }
        if not matched:
            types = ", ".join(sorted({node.op_type for node in model.graph.node}))
            names = ", ".join(node.name for node in model.graph.node[:5])
            raise ConfigError(
                f"recipe '{recipe.name}': keep_float pattern '{pattern}' matches no operator of this file; "
                f"it has the types {types}, and names like {names}"
            )
        kept |= matched
    # onnxruntime first makes a MatMul of this name from each Gemm.
    return sorted(kept | {f"{node.name}_MatMul" for node in model.graph.node if node.name in kept})


def _check_opset(model: ModelProto, recipe: Recipe) -> None:
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if recipe.scheme is Scheme.INT8 and opset < _LOWEST_OPSET:
        raise RefusedError(
            f"recipe '{recipe.name}': the model has opset {opset}, int8 needs {_LOWEST_OPSET} or above; "
            "export it again with a newer one"
        )


def _cautions(recipe: Recipe, out: Path) -> tuple[Caution, ...]:
    found = []
    # x86 without VNNI adds pairs of uint8 x int8 products in 16 bits, which they can overflow.
    is_int8 = recipe.scheme in (Scheme.INT8, Scheme.DYNAMIC_INT8)
    if is_int8 and platform.machine() in ("x86_64", "AMD64") and not _has_vnni():
        found.append(
            Caution(
                code="saturates-without-vnni",
                message="this CPU has no VNNI: its int8 kernels may saturate, so accuracy measured here can be lower "
                "than on a CPU with VNNI or on ARM",
                advice="judge the file on the device that it is for",
            )
        )
    convolutions = sum(node.op_type == "ConvInteger" for node in onnx_file.load(out).graph.node)
    if convolutions:
        found.append(
            Caution(
                code="dynamic-convolutions",
                message=f"onnxruntime gives each of the {convolutions} convolutions one weight scale for all channels "
                "and runs them without its fast kernels",
                advice="take onnx-int8",
            )
        )
    return tuple(found)


def _has_vnni() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return True
    return "vnni" in text
