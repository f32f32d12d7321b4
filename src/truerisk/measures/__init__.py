"""Complexity measures and classical bounds of a trained network, side by side.

``measure`` computes them all; each measure is one small function in ``families``, each bound one in ``classical``.
"""

from truerisk.measures import classical, families
from truerisk.measures.found import Measures, Reference
from truerisk.measures.registry import MEASURES, Measure, NotDefined, Value
from truerisk.measures.subject import Subject
from truerisk.measures.table import measure
from truerisk.measures.theorems import BOUNDS, Bound, Theorem
from truerisk.measures.trained import Network

__all__ = [
    "BOUNDS", "MEASURES", "Bound", "Measure", "Measures", "Network", "NotDefined", "Reference", "Subject", "Theorem",
    "Value", "classical", "families", "measure",
]  # fmt: skip
