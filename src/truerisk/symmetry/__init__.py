"""Rescaling symmetries: from a module to the group of rescalings that leave its function as it is."""

from __future__ import annotations

from truerisk.symmetry.canonical import balanced, canonical, unit_incoming
from truerisk.symmetry.discover import find_symmetry
from truerisk.symmetry.group import Group, Symmetry

__all__ = ["Group", "Symmetry", "balanced", "canonical", "find_symmetry", "unit_incoming"]
