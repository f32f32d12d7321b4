"""What each file of a certificate holds, where it comes from, and so what ``verify`` does with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """Who decides what is in a file."""

    DERIVED = "derived"  # by seed and architecture alone: verify makes its own and does not read the file
    TRAINED = "trained"  # on examples that it never certifies: verify reads it, or trains its own (--retrain)
    FREE = "free"  # any value is allowed, because the bound holds for all of them: verify reads it
    VOUCHED = "vouched"  # the user's word: verify reads it and says so


class Content(Enum):
    """What a file holds."""

    NETWORK = "network"  # parameters and buffers
    GAUSSIAN = "gaussian"  # means and standard deviations of weights
    ARRAYS = "arrays"


@dataclass(frozen=True)
class File:
    """One file of a certificate. Predictions are made from those that say ``predicts``."""

    origin: Origin
    content: Content = Content.NETWORK
    optional: bool = False
    predicts: bool = False


NETWORK, GAUSSIAN, ARRAYS = Content.NETWORK, Content.GAUSSIAN, Content.ARRAYS
DERIVED, TRAINED, FREE, VOUCHED = Origin.DERIVED, Origin.TRAINED, Origin.FREE, Origin.VOUCHED
SPLIT = "split"  # the file of the rows that train and the rows that certify
SUFFIX = ".safetensors"  # of all files but certificate.json
