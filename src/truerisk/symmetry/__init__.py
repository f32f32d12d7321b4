"""Rescaling symmetries: from a module to the group of rescalings that leave its function as it is."""

from __future__ import annotations

from truerisk.symmetry.canonical import balanced, canonical, unit_incoming
from truerisk.symmetry.discover import find_symmetry
from truerisk.symmetry.group import Group, Symmetry
from truerisk.symmetry.held import Held
from truerisk.symmetry.paths import PathLift, path_lift, path_norm

__all__ = [
    "Group",
    "Held",
    "PathLift",
    "Symmetry",
    "balanced",
    "canonical",
    "find_symmetry",
    "path_lift",
    "path_norm",
    "unit_incoming",
]
