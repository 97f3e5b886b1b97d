"""Run the function of `file.py:function`: naming it is the user's permission to run that file."""

from __future__ import annotations

import importlib.util
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.errors import ModelError, one_line
from edgebench.types import Framework

SEED = 0


def call(text: str, path: Path, function: str, framework: Framework | None) -> Any:
    """What `function` of the file returns when it is called without arguments.

    The generators of Python, numpy and the framework are seeded before, so that a model with random weights is the same
    one in a second run. The file may import its neighbours.

    Raises:
        ModelError: the file or the function raised, told with its line; or it is no function.
    """
    path = path.resolve()
    seed_everything(framework)
    spec = importlib.util.spec_from_file_location(f"edgebench_user_{path.stem}", path)
    assert spec is not None  # a .py file always has a spec and a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickles look for the module of a class
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
        target = getattr(module, function, None)
        if not callable(target):
            raise ModelError(f"MODEL '{text}': {path.name} has no function '{function}'")
        seed_everything(framework)
        return target()
    except ModelError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise ModelError(f"MODEL '{text}' raised {one_line(error)}{_line_of(error, path)}") from error
    finally:
        sys.path.remove(str(path.parent))


def seed_everything(framework: Framework | None) -> None:
    """Seed Python, numpy and the framework (None: each that is installed); Keras' layer names start again at 1."""
    random.seed(SEED)
    np.random.seed(SEED)
    if framework is not Framework.TENSORFLOW and importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(SEED)
    if framework is not Framework.TORCH and importlib.util.find_spec("keras"):
        import keras

        keras.utils.clear_session()
        keras.utils.set_random_seed(SEED)


def _line_of(error: BaseException, path: Path) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" at line {lines[-1]} of {path.name}" if lines else ""
