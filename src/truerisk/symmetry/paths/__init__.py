"""Paths through a network: products of weights, which no rescaling of hidden units changes.

A path starts at an input coordinate or at a bias and follows one weight after another to an output coordinate.
``path_norm`` is a norm of the vector of all path products, ``path_lift`` that vector itself.
"""

from __future__ import annotations

from truerisk.symmetry.paths.lift import PathLift, path_lift
from truerisk.symmetry.paths.norm import path_norm

__all__ = ["PathLift", "path_lift", "path_norm"]
