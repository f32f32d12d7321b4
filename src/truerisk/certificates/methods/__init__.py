"""The methods of certifying, by name. A new one is a file of this folder and an entry of ``METHODS``."""

from __future__ import annotations

from truerisk.certificates.methods.around import Around, SingleDrawAround
from truerisk.certificates.methods.base import DETERMINISTIC, PREDICTORS, SINGLE_DRAW, STOCHASTIC, Method
from truerisk.certificates.methods.description_length import DescriptionLength
from truerisk.certificates.methods.disagreement import Disagreement
from truerisk.certificates.methods.hold_out import HoldOut
from truerisk.certificates.methods.pac_bayes import PacBayesKL
from truerisk.certificates.methods.pick_to_learn import PickToLearn
from truerisk.certificates.methods.progressive import Progressive
from truerisk.certificates.methods.recursive import Recursive
from truerisk.certificates.methods.single_draw import SingleDraw
from truerisk.errors import TrueriskError

METHODS: dict[str, type[Method]] = {
    each.name: each
    for each in (
        PacBayesKL,
        SingleDraw,
        Progressive,
        PickToLearn,
        Recursive,
        DescriptionLength,
        HoldOut,
        Around,
        SingleDrawAround,
        Disagreement,
    )
}
# The usual method of each kind of predictor, with examples set aside and without.
USUAL: dict[str, tuple[type[Method], type[Method]]] = {
    STOCHASTIC: (PacBayesKL, PacBayesKL),
    SINGLE_DRAW: (SingleDraw, SingleDraw),
    DETERMINISTIC: (HoldOut, DescriptionLength),
}
BASELINE = HoldOut


def find_method(name: str) -> type[Method]:
    """The method called ``name``, or an error that lists the names."""
    if name not in METHODS:
        raise TrueriskError(f"there is no method {name!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


__all__ = [
    "BASELINE",
    "METHODS",
    "PREDICTORS",
    "USUAL",
    "Around",
    "DescriptionLength",
    "Disagreement",
    "HoldOut",
    "Method",
    "PacBayesKL",
    "PickToLearn",
    "Progressive",
    "Recursive",
    "SingleDraw",
    "SingleDrawAround",
    "find_method",
]
