"""The name under which a result is kept: a hash of everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

from truerisk.errors import TrueriskError


def canonical(value: Any) -> str:
    """One text for each plain value, whatever the order of its keys.

    >>> canonical({"b": 1, "a": [0.1, None, True]})
    '{"a":[0.1,null,true],"b":1}'
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        text.encode()  # half a surrogate pair is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise TrueriskError(f"settings and records must be plain, finite JSON values: {_offender(value)}.") from error
    if json.loads(text) != value:  # numeric keys, for one, come back as text
        raise TrueriskError("settings and records must be plain JSON: use text as keys and lists instead of tuples.")
    return text


def key(experiment: str, version: str, setting: dict[str, Any]) -> str:
    """The key of a result.

    >>> key("e", "1-abc", {"n": 1, "p": 2}) == key("e", "1-abc", {"p": 2, "n": 1})
    True
    >>> key("e", "1-abc", {"n": 1}) == key("e", "2-abc", {"n": 1})
    False
    """
    text = canonical({"experiment": experiment, "version": version, "setting": setting})
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _offender(value: Any, where: str = "") -> str:
    """Which part is not plain."""
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{where or 'it'} is {value}; use None where there is no number"
    elif isinstance(value, str) and not value.isascii() and value != value.encode(errors="ignore").decode():
        return f"{where or 'it'} is no valid text"
    elif value is None or isinstance(value, str | int | float):
        return ""
    else:
        return f"{where or 'it'} is a {type(value).__name__}; use float(...) or int(...)"
    found = (_offender(part, f"{where}[{name!r}]") for name, part in parts)
    return next((text for text in found if text), "")
