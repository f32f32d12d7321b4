"""Rescaling symmetries: from a module to the group of rescalings that leave its function as it is."""

from __future__ import annotations

from truerisk.symmetry.discover import find_symmetry
from truerisk.symmetry.group import Group, Symmetry

__all__ = ["Group", "Symmetry", "find_symmetry"]
