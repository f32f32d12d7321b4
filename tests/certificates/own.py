"""Data for which the authors compared nothing, so that all of delta is there."""

from __future__ import annotations

import numpy as np

from truerisk.data import Data


def own(data: Data) -> Data:
    """The same images in other shades: as easy to learn, but rows of no known set."""
    return Data("own", np.sqrt(data.X), data.y, data.classes)
