"""Hashes of what decides a verdict: the rule of a claim, and the code of its effect and of its task.

The same in every version of Python, and for the same code in another place or with other comments.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, partial
from typing import Any

from truerisk.engine import canonical
from truerisk.engine.version import hash_code, outline, source_of
from truerisk.lab.claim import AnyClaim, Claim

SOURCE = "__source__"  # of a module that was executed from a user's file
EFFECT, TASK = 1, 2  # code is followed through truerisk, or through truerisk.lab as for the keys of stored runs
# The vocabulary of effects: named, not followed, or each change of it would be a change of every claim.
LEAVES = frozenset({"truerisk.errors", *(f"truerisk.lab.{name}" for name in ("claim", "effect", "figure", "rows"))})


def rule_of(claim: AnyClaim) -> dict[str, Any]:
    """Everything but code and settings that decides a verdict, as plain values."""
    common = {"where": _plain(claim.where), "group": claim.group}
    if not isinstance(claim, Claim):
        return common
    unit = asdict(claim.wants.unit) | {"low": repr(claim.wants.unit.low), "high": repr(claim.wants.unit.high)}
    region = [repr(claim.wants.low), repr(claim.wants.high)]
    return {**common, "region": region, "unit": unit, "every": list(claim.every), "counted_on": claim.counted_on}


def code_of(function: Callable[..., Any], depth: int) -> Any:
    """The code of an effect or a task, with the arguments that `functools.partial` has set; see `engine.version`."""
    if isinstance(function, partial):
        return [code_of(function.func, depth), _plain(function.args), _plain(function.keywords)]
    source, name = getattr(function, "source", None), getattr(function, "function", None)
    if isinstance(source, str) and isinstance(name, str):  # the task of a user's file
        return hash_code(source, name, write=outline)
    module, name = function.__module__, function.__qualname__
    own = getattr(sys.modules.get(module), SOURCE, None)
    if own is not None:
        return hash_code(own, name, write=outline)
    return _followed(module, name, depth)


@cache
def _followed(module: str, name: str, depth: int) -> str:
    return hash_code(source_of(module), name, module, depth, LEAVES, outline)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if inspect.isfunction(value):
        return code_of(value, EFFECT)
    return value


def hash_of(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
