"""What is known before the certifying examples are looked at: nothing, an initialization, or a part of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerisk.errors import TrueriskError

ZERO, INIT, SPLIT, NONE = "zero", "init", "split", "none"


@dataclass(frozen=True)
class Prior:
    """``text`` as the user gave it: "zero", "init", "split:0.5", or "none" for a network that came trained.

    >>> Prior.parse("split:0.25").fraction, Prior.parse("init").fraction, str(Prior.parse("split:.5"))
    (0.25, 0.0, 'split:.5')
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Prior:
        """What a user may ask for."""
        found = cls(text)
        if not (found.data_free or found.fraction):
            raise TrueriskError(f"the prior is {text!r}, but must be zero, init or split:FRACTION, as in split:0.5.")
        return found

    @classmethod
    def from_json(cls, text: object) -> Prior:
        """What a certificate may say."""
        return NOTHING_TRAINED if text == NONE else cls.parse(str(text))

    def to_json(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text

    @property
    def fraction(self) -> float:
        """The share of the data that trains before the rest certifies; 0 where none is set aside."""
        kind, _, number = self.text.partition(":")
        try:
            fraction = float(number) if kind == SPLIT else math.nan
        except ValueError:
            fraction = math.nan
        return fraction if 0 < fraction < 1 else 0.0

    @property
    def data_free(self) -> bool:
        """Fixed by seed and architecture: every example certifies."""
        return self.text in (ZERO, INIT)

    @property
    def centred(self) -> bool:
        """A Gaussian around zero, whatever the initialization."""
        return self.text == ZERO

    @property
    def trained(self) -> bool:
        """The network came trained, and nothing is trained here."""
        return self.text == NONE


NOTHING_TRAINED = Prior(NONE)
