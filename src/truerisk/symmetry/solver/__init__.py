"""The best log-scales: minimize a sum of exponentials over the rescaling group. Knows nothing of networks."""

from __future__ import annotations

from truerisk.symmetry.solver.edges import Block, Problem
from truerisk.symmetry.solver.search import Solution, minimize

__all__ = ["Block", "Problem", "Solution", "minimize"]
