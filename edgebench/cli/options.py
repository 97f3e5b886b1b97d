"""Options that several commands share, so that they are spelled, explained and given a default once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Those of `Plan` and `DataSource`, which --help must not wait for; a test holds them together.
DEFAULT_CALIBRATION_SAMPLES = 100
DEFAULT_ROUNDS = 5
DEFAULT_MIN_RUNS = 50
DEFAULT_MIN_SECONDS = 1.0
DEFAULT_MAX_SECONDS = 10.0
DEFAULT_TIMEOUT_S = 3600.0

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="zoo:NAME, keras:NAME, timm:NAME, a .keras, .h5, SavedModel folder, .pt2, TorchScript, .onnx, .tflite, "
        "or file.py:function returning a torch or Keras model.",
    ),
]
Weights = Annotated[Path | None, typer.Option(help="A checkpoint to load into the model.", show_default=False)]
Trust = Annotated[
    bool, typer.Option("--trust", help="Let a file that carries code (pickle, Keras Lambda) run it when it is loaded.")
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="digits, sample-photos, a folder with one sub-folder a class, an .npz, a CSV manifest (path, label), "
        "or file.py:function yielding dicts.",
        show_default=False,
    ),
]
CalibrationData = Annotated[
    str | None,
    typer.Option("--calibration", help="A separate calibration set; else a part of --data.", show_default=False),
]
CalibrationSamples = Annotated[int, typer.Option(help="How many samples calibrate.", min=1)]
EvaluationSamples = Annotated[
    int | None,
    typer.Option(help="How many samples evaluate; all, up to 1000, when not given.", min=1, show_default=False),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="classification, regression, embedding, detection or segmentation; else told from the labels.",
        show_default=False,
    ),
]
PreprocessFile = Annotated[
    Path | None,
    typer.Option("--preprocess", help="A YAML file that says how an image becomes the input.", show_default=False),
]
Recipes = Annotated[
    list[str] | None,
    typer.Option("--recipe", "-r", help="A recipe by name or YAML file; again for more. See: edgebench recipes."),
]
Devices = Annotated[list[str] | None, typer.Option("--device", "-d", help="A device; again for more. Default: host.")]
Runtimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        help="litert, tflite-runtime, onnxruntime, or an official program of the device with its delegate, such as "
        "benchmark_model:gpu; again for more. Default: litert, onnxruntime.",
    ),
]
Threads = Annotated[
    list[int] | None, typer.Option("--threads", "-t", help="Thread counts; again for more. Default: 1.")
]
Batches = Annotated[
    list[str] | None,
    typer.Option("--batch", "-b", help="Batch sizes, or `open`; again for more. Default: 1."),
]
Rounds = Annotated[int, typer.Option(help="Fresh processes for each cell; a verdict needs 5.", min=1)]
MinRuns = Annotated[int, typer.Option(help="At least so many runs a round.", min=1)]
MinSeconds = Annotated[float, typer.Option(help="At least so long a round.", min=0)]
MaxSeconds = Annotated[float, typer.Option(help="At most so long a round.", min=0)]
UntilCool = Annotated[
    bool,
    typer.Option(
        "--until-cool", help="Before each round, wait until the device is at most 45 °C warm, for 5 minutes at most."
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", help="Seconds after which a conversion or evaluation is ended.", min=1)
]
Seed = Annotated[int, typer.Option(help="Seed of the sample choice and of the order of cells.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="The run folder. Default: runs/MODEL.", show_default=False)
]
MatrixOut = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="The run folder. Default: runs/NAME, the matrix's `name` or its file's.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the result.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say each step.")]
