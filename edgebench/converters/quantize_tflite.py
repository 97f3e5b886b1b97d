"""A float .tflite file to a quantized one with ai-edge-quantizer, which needs no training framework."""

from __future__ import annotations

import fnmatch
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgebench.converters import calibrate_tflite, correct_tflite, tflite_file
from edgebench.converters.bias_correction import NOTHING_CORRECTED, spread
from edgebench.converters.exported import Exported
from edgebench.converters.quantized import Quantized
from edgebench.converters.tflite_inline import with_constants_inside
from edgebench.errors import DataError, RefusedError
from edgebench.types import Caution, Recipe, Scheme

_TOOL = "ai-edge-quantizer"


def quantize(float_file: Exported, recipe: Recipe, calibration: dict[str, NDArray[Any]] | None, out: Path) -> Quantized:
    """Write `out`, the file quantized as the recipe says.

    `calibration`: file tensor name -> float array (n, ...) in the file's axis order. Integer inputs stay as they are.
    Costs one float run of the file for each sample (two with percentile); memory does not grow with the samples.

    Raises:
        RefusedError: the recipe asks for what the quantizer can't do, or keeps operators that the file does not have.
        DataError: calibration is needed and the samples are missing, of the wrong shape, or lead to NaN.
        ModelError: the float file is damaged.
    """
    from ai_edge_quantizer.quantizer import Quantizer

    file = tflite_file.load(float_file.path)
    if recipe.scheme.needs_calibration:
        refuse_loops(recipe, file, _TOOL)
    model = float_file.path.read_bytes()
    if not file.signatures:
        model = _with_signature(model, file)
        file = tflite_file.parse(model, float_file.path)
    quantizer = Quantizer(model)
    _configure(quantizer, recipe)
    _keep_float(quantizer, recipe, file)
    _skip_unread_outputs(quantizer, file)
    cautions: tuple[Caution, ...] = ()
    ranges: calibrate_tflite.Ranges | None = None
    if recipe.scheme.needs_calibration:
        ranges, cautions = _ranges(model, file, recipe, calibration)
    try:
        result = quantizer.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    except (ValueError, KeyError) as error:  # how the quantizer tells of what it does not support
        cause = " ".join(str(error).split())[:300]
        raise RefusedError(f"recipe '{recipe.name}': {_TOOL} can't quantize this file: {cause}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    made = bytes(result.quantized_model)
    if recipe.bias_correction and calibration:
        few = {name: spread(array) for name, array in calibration.items()}
        made, layers = correct_tflite.correct(model, made, list(_batches(few, file)))
        cautions += () if layers else (NOTHING_CORRECTED,)
    out.write_bytes(with_constants_inside(made) if recipe.compiler == "edgetpu" else made)
    return Quantized(route=_TOOL, tool_versions={_TOOL: version(_TOOL)}, cautions=cautions)


def refuse_loops(recipe: Recipe, file: tflite_file.TfliteFile, tool: str) -> None:
    """Raise RefusedError where the float file has a loop or a branch: its tensors are not seen from outside.

    ai-edge-quantizer has no ranges for them, and TensorFlow's quantizer ends its process (SIGSEGV).
    """
    loops = sorted({operator.name for operator in file.main.operators} & {"WHILE", "IF", "CALL", "CALL_ONCE"})
    if loops:
        raise RefusedError(
            f"recipe '{recipe.name}': the model has {' and '.join(loops)} (a recurrent layer, for example), whose "
            f"inside {tool} can't calibrate; take tflite-dynamic-int8, or build the Keras layer with unroll=True"
        )


def _with_signature(model: bytes, file: tflite_file.TfliteFile) -> bytes:
    """The file with a signature of its tensors' own names: old files have none, and the quantizer needs one."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    packed = schema.ModelT.InitFromPackedBuf(model, 0)
    if any(buffer.offset > 1 for buffer in packed.buffers):
        raise RefusedError("the float file has no signature and keeps its weights behind the model; convert it again")
    signature = schema.SignatureDefT()
    signature.signatureKey = "serving_default"
    signature.subgraphIndex = 0
    ends = []
    for indices in (file.main.inputs, file.main.outputs):
        maps = []
        for index in indices:
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = file.main.tensors[index].name, index
            maps.append(entry)
        ends.append(maps)
    signature.inputs, signature.outputs = ends
    packed.signatureDefs = [signature]
    builder = flatbuffers.Builder(len(model))
    builder.Finish(packed.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _configure(quantizer: Any, recipe: Recipe) -> None:
    """Tell the quantizer what the recipe wants of every operator; later rules win over earlier ones."""
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

    every = TFLOperationName.ALL_SUPPORTED
    granularity = {
        "per-channel": QuantGranularity.CHANNELWISE,
        "per-tensor": QuantGranularity.TENSORWISE,
    }[recipe.granularity]
    match recipe.scheme:
        case Scheme.FP16:
            quantizer.add_weight_only_config(
                ".*",
                every,
                num_bits=16,
                granularity=QuantGranularity.TENSORWISE,
                algorithm_key=AlgorithmName.FLOAT_CASTING,
            )
        case Scheme.DYNAMIC_INT8:
            quantizer.add_dynamic_config(".*", every, num_bits=8, granularity=granularity)
        case Scheme.WEIGHT_ONLY_INT8:
            quantizer.add_weight_only_config(".*", every, num_bits=8, granularity=granularity)
        case Scheme.INT8 | Scheme.INT16X8:
            bits = 8 if recipe.scheme is Scheme.INT8 else 16
            quantizer.add_static_config(
                ".*", every, activation_num_bits=bits, weight_num_bits=8, weight_granularity=granularity
            )
            if recipe.compiler == "edgetpu":  # its operator has one scale; see edgetpu_ops
                quantizer.add_static_config(
                    ".*",
                    TFLOperationName.FULLY_CONNECTED,
                    activation_num_bits=bits,
                    weight_num_bits=8,
                    weight_granularity=QuantGranularity.TENSORWISE,
                )
            _configure_io(quantizer, recipe, bits)
        case _:
            raise RefusedError(f"recipe '{recipe.name}': {_TOOL} has no {recipe.scheme} for .tflite")


def _configure_io(quantizer: Any, recipe: Recipe, bits: int) -> None:
    """The quantizer gives inputs and outputs the activations' type unless told otherwise."""
    from ai_edge_quantizer import qtyping
    from ai_edge_quantizer.algorithm_manager import AlgorithmName

    ends = (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT)
    if recipe.io_dtype == "float32":
        for end in ends:
            quantizer.update_quantization_recipe(".*", end, algorithm_key=AlgorithmName.NO_QUANTIZE)
    elif recipe.io_dtype == "uint8":
        unsigned = qtyping.OpQuantizationConfig(
            activation_tensor_config=qtyping.TensorQuantizationConfig(
                num_bits=bits, symmetric=False, dtype=qtyping.TensorDataType.UINT
            ),
            weight_tensor_config=qtyping.TensorQuantizationConfig(num_bits=8),
            compute_precision=qtyping.ComputePrecision.INTEGER,
            explicit_dequantize=False,
        )
        for end in ends:
            quantizer.update_quantization_recipe(".*", end, op_config=unsigned)


def _keep_float(quantizer: Any, recipe: Recipe, file: tflite_file.TfliteFile) -> None:
    """Take the operators that the recipe's globs name, by type or by output tensor, out of quantization."""
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import TFLOperationName

    operators = [(operator, graph) for graph in file.subgraphs for operator in graph.operators]
    types = {operator.name for operator, _ in operators}
    tensors = {graph.tensors[index].name for operator, graph in operators for index in operator.outputs if index >= 0}
    for glob in recipe.keep_float:
        kinds = [name for name in types if fnmatch.fnmatchcase(name, glob)]
        if not kinds and not any(fnmatch.fnmatchcase(name, glob) for name in tensors):
            raise RefusedError(
                f"recipe '{recipe.name}': keep_float '{glob}' names no operator of this file, which has "
                f"{', '.join(sorted(types))}; edgebench inspect shows them"
            )
        for kind in kinds:
            own_name = "CONV_2D_TRANSPOSE" if kind == "TRANSPOSE_CONV" else kind
            if own_name in TFLOperationName.__members__:  # others are never quantized
                quantizer.update_quantization_recipe(
                    ".*", TFLOperationName[own_name], algorithm_key=AlgorithmName.NO_QUANTIZE
                )
        if not kinds:
            # The quantizer searches an operator's output names, each ended by a semicolon.
            pattern = fnmatch.translate(glob).removesuffix(r"\Z").replace(".*", "[^;]*")
            quantizer.update_quantization_recipe(
                f"(?:^|;){pattern};", TFLOperationName.ALL_SUPPORTED, algorithm_key=AlgorithmName.NO_QUANTIZE
            )


def _skip_unread_outputs(quantizer: Any, file: tflite_file.TfliteFile) -> None:
    """Keep in float what has several outputs of which nothing reads one: the quantizer would leave that one in float.

    LiteRT refuses to load an operator, such as SPLIT, whose outputs have two types.
    """
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import TFLOperationName

    for graph in file.subgraphs:
        read = {index for operator in graph.operators for index in operator.inputs} | set(graph.outputs)
        for operator in graph.operators:
            if len(operator.outputs) > 1 and not read.issuperset(operator.outputs):
                scope = "".join(f"{re.escape(graph.tensors[index].name)};" for index in operator.outputs if index >= 0)
                quantizer.update_quantization_recipe(
                    f"^{scope}$", TFLOperationName.ALL_SUPPORTED, algorithm_key=AlgorithmName.NO_QUANTIZE
                )


def _ranges(
    model: bytes,
    file: tflite_file.TfliteFile,
    recipe: Recipe,
    calibration: dict[str, NDArray[Any]] | None,
) -> tuple[calibrate_tflite.Ranges, tuple[Caution, ...]]:
    if recipe.calibration is None or not calibration:
        raise DataError(f"recipe '{recipe.name}' needs calibration samples; name data with --calibration or --data")
    if len(file.signatures) > 1:
        raise RefusedError(
            f"the float file has {len(file.signatures)} signatures; calibration runs a file with one; convert it again"
        )
    batches = _batches(calibration, file)
    ranges = calibrate_tflite.min_max(model, file, batches)
    if recipe.calibration.method == "percentile":
        ranges = calibrate_tflite.percentile(model, file, ranges, batches, recipe.calibration.percentile)
    ranges, widened = calibrate_tflite.with_room_for_biases(
        model,
        ranges,
        bits=8 if recipe.scheme is Scheme.INT8 else 16,
        per_channel=recipe.granularity == "per-channel",
    )
    if not widened:
        return ranges, ()
    message = (
        f"{widened} channels have weights so near 0 that their bias would not fit int32; their weights' scale was "
        "widened to hold it: such channels are dead"
    )
    return ranges, (Caution(code="dead-channels", message=message, advice="prune dead channels for a smaller model"),)


def _batches(calibration: dict[str, NDArray[Any]], file: tflite_file.TfliteFile) -> calibrate_tflite.Batches:
    return calibrate_tflite.Batches(
        calibration, {name: (tensor.shape, tensor.dtype) for name, tensor in file.inputs().items()}
    )
