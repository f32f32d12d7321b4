"""What is known before the certifying examples are looked at: nothing, an initialization, or a part of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from truerisk.errors import TrueriskError

ZERO, INIT, SPLIT, NONE = "zero", "init", "split", "none"


@dataclass(frozen=True)
class Prior:
    """``text`` as the user gave it: "zero", "init", "split:0.5", or "none" for a network that came trained.

    Exactly one of ``fraction``, ``data_free`` and ``trained`` holds.

    >>> Prior.parse("split:0.25").fraction, Prior.parse("init").fraction, str(Prior.parse("split:.5"))
    (0.25, 0.0, 'split:.5')
    """

    text: str
    fraction: float = field(init=False, compare=False)  # of the data that trains before the rest certifies, or 0
    data_free: bool = field(init=False, compare=False)  # fixed by seed and architecture: every example certifies
    centred: bool = field(init=False, compare=False)  # a Gaussian around zero, whatever the initialization
    trained: bool = field(init=False, compare=False)  # the network is already trained, and nothing is trained here

    def __post_init__(self) -> None:
        kinds = {"fraction": _fraction(self.text), "data_free": self.text in (ZERO, INIT)}
        for name, value in {**kinds, "centred": self.text == ZERO, "trained": self.text == NONE}.items():
            object.__setattr__(self, name, value)
        if not (self.fraction or self.data_free or self.trained):
            raise TrueriskError(
                f"the prior is {self.text!r}, but must be zero, init, or split:FRACTION; try --prior split:0.5."
            )

    @classmethod
    def parse(cls, text: str) -> Prior:
        """What a user may ask for."""
        if text == NONE:
            raise TrueriskError(
                "the prior is 'none', but must be zero, init, or split:FRACTION; try --prior split:0.5."
            )
        return cls(text)

    @classmethod
    def from_json(cls, text: object) -> Prior:
        """What a certificate may say."""
        return cls(str(text))

    def to_json(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def _fraction(text: str) -> float:
    kind, _, number = text.partition(":")
    try:
        fraction = float(number) if kind == SPLIT else math.nan
    except ValueError:
        fraction = math.nan
    return fraction if 0 < fraction < 1 else 0.0


def splits_of(texts: Sequence[str]) -> list[Prior]:
    """The splits that a search may choose from, without repeats, smallest first."""
    if not texts:
        raise TrueriskError("there is no split to choose from; give at least one, such as --prior split:0.5.")
    priors = [Prior.parse(text) for text in dict.fromkeys(texts)]
    free = [prior for prior in priors if prior.data_free]
    if free:
        raise TrueriskError(
            f"with the data-free prior {free[0]} every row certifies, so no row is left to search on; give --prior "
            "split:FRACTION, or compare certificates with --tried."
        )
    return sorted(priors, key=lambda prior: prior.fraction)


NOTHING_TRAINED = Prior(NONE)
