"""Our frozen values as JSON text, and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}  # making one takes longer than using it


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_plain(value: object) -> Any:
    """The value as dicts, lists, strings and numbers; an infinite figure stays a float."""
    return _adapter(type(value)).dump_python(value, mode="json")


def to_json(value: object) -> str:
    """The value as a JSON text for `from_json`. Infinite figures are written as Python's `Infinity`."""
    return json.dumps(to_plain(value))


def from_json(kind: type[T], text: str | bytes) -> T:
    """The value that `to_json` wrote; raises ValueError (pydantic's ValidationError is one) on anything else."""
    result: T = _adapter(kind).validate_python(json.loads(text))
    return result
