"""One thing that was looked at about a device, and how it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from edgebench.errors import EdgebenchError

# Where the way out begins in an error's line: errors end in what to do (see errors.py), after one of these marks.
_WAY_OUT = re.compile(
    r"(?:; |: )(?=(?:accept|check|choose|drop|free|install|measure|move|name|pair|pip|plug|put|restart|run|say|see|"
    r"start|switch|try|use)\b)"
)


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was looked at, how it is, the value seen, and the one thing to do about it ("" when it is fine)."""

    item: str
    level: Level
    value: str
    fix: str = ""


def judged(
    item: str, found: object, wanted: object, *, right: str, wrong: str, fix: str = "use another route to it"
) -> Finding:
    """Ok, in the words `right`, when `found` is what was wanted; else a failure that says `wrong` and shows both."""
    if found == wanted:
        return Finding(item=item, level=Level.OK, value=right)
    return Finding(item=item, level=Level.FAIL, value=f"{wrong}: {found!r} instead of {wanted!r}", fix=fix)


def warned(item: str, value: str, is_bad: bool, fix: str) -> Finding:
    return Finding(item=item, level=Level.WARN if is_bad else Level.OK, value=value, fix=fix if is_bad else "")


def from_error(item: str, error: EdgebenchError, device: str) -> Finding:
    """A failure: the error's line, parted where it goes on with what to do."""
    text = str(error)
    mark = _WAY_OUT.search(text)
    if mark is None:
        return Finding(item=item, level=Level.FAIL, value=text, fix=f"mend it, then: edgebench devices check {device}")
    return Finding(item=item, level=Level.FAIL, value=text[: mark.start()], fix=text[mark.end() :])
