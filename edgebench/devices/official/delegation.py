"""What a TFLite log says about who ran the operators; a delegate that did not is an error, never a silent CPU run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgebench.errors import StageError

# Printed once for each delegate that was asked for. Builds before mid-2020 end in "executed w/ the delegate" and say
# "partially" also where nothing was taken over, so that only "w/ N delegate kernels" proves a part.
_RAN = re.compile(
    r"pplied (?P<name>.+?) delegate, and the model graph will be "
    r"(?:(?P<whole>completely) executed|partially executed by the delegate w/ (?P<kernels>\d+) delegate kernel)"
)
_DID_NOT_RUN = re.compile(
    r"Though (?P<name>.+?) delegate is explicitly applied, the model graph will not be executed by the delegate"
)
# Of the runtime itself; "out of" since 2021. A delegate that finds nothing to do prints none, or 0.
_REPLACED = re.compile(r"Replacing (\d+)(?: out of (\d+))? node\(s\) with delegate \(([^)]*)\) node")
_UNKNOWN_FLAGS = re.compile(r"Unconsumed cmdline flags: *(.+)")
_XNNPACK = "xnnpack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """`name` is what ran operators: xnnpack, cpu (the built-in kernels), gpu, nnapi, npu or external.

    `fraction` is the share of the file's operators that it took over, None where the log does not give their numbers.
    """

    name: str
    fraction: float | None


def read(log: str, asked: str) -> Delegation:
    """Who ran the operators when the delegate `asked` was asked for; cpu lets XNNPACK run what it can.

    Raises:
        StageError: the program does not know a flag, the delegate did not run, or nothing in the log shows that it ran.
    """
    unknown = _UNKNOWN_FLAGS.search(log)
    if unknown:
        flags = " ".join(unknown[1].split())[:200]
        raise StageError(f"this build of the program does not know {flags}; take another build of it")
    return _on_cpu(log) if asked == "cpu" else _on_delegate(log, asked)


def _on_cpu(log: str) -> Delegation:
    """XNNPACK is the usual way of the CPU, so that it may leave operators to the built-in kernels."""
    whole, kernels = _truth(log, for_xnnpack=True)
    replaced = _replaced(log, by_xnnpack=True)
    if whole or kernels or (replaced and replaced[0]):
        return Delegation(name=_XNNPACK, fraction=_fraction(replaced, whole))
    said_none = any(match["name"].lower() == _XNNPACK for match in _DID_NOT_RUN.finditer(log))
    return Delegation(name="cpu", fraction=0.0 if said_none or replaced else None)


def _on_delegate(log: str, asked: str) -> Delegation:
    whole, kernels = _truth(log, for_xnnpack=False)
    replaced = _replaced(log, by_xnnpack=False)
    if whole or kernels or (replaced and replaced[0]):
        return Delegation(name=asked, fraction=_fraction(replaced, whole))
    refused = [match["name"] for match in _DID_NOT_RUN.finditer(log) if match["name"].lower() != _XNNPACK]
    if refused or replaced:
        name = f"delegate {refused[0]}" if refused else f"the {asked} delegate"
        raise StageError(
            f"it ran on the CPU, not on {asked}: the program says that {name} takes no operator of this file; convert "
            "it to what the delegate supports, or measure it on cpu"
        )
    raise StageError(
        f"nothing in the program's log shows that the {asked} delegate ran, so that it may have run on the CPU; check "
        "that this build and the device have it"
    )


def _truth(log: str, *, for_xnnpack: bool) -> tuple[bool, int]:
    """Whether a delegate took over the whole graph, and else the number of its kernels."""
    for match in _RAN.finditer(log):
        if (match["name"].lower() == _XNNPACK) is for_xnnpack:
            return match["whole"] is not None, int(match["kernels"] or 0)
    return False, 0


def _replaced(log: str, *, by_xnnpack: bool) -> tuple[int, int | None] | None:
    """How many operators went to a delegate, and of how many; None where no line says it."""
    found = [match for match in _REPLACED.finditer(log) if (_XNNPACK in match[3].lower()) is by_xnnpack]
    if not found:
        return None
    totals = [int(match[2]) if match[2] else None for match in found]
    known = [total for total in totals if total is not None]
    return sum(int(match[1]) for match in found), sum(known) if len(known) == len(totals) else None


def _fraction(replaced: tuple[int, int | None] | None, whole: bool) -> float | None:
    if replaced is not None and replaced[1]:
        return replaced[0] / replaced[1]
    return 1.0 if whole else None
