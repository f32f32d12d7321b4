"""The methods of certifying, by name."""

from __future__ import annotations

from truerisk.certificates.methods.around import Around, SingleDrawAround
from truerisk.certificates.methods.base import PREDICTORS, Method
from truerisk.certificates.methods.description_length import DescriptionLength
from truerisk.certificates.methods.disagreement import Disagreement
from truerisk.certificates.methods.hold_out import HoldOut
from truerisk.certificates.methods.pac_bayes import PacBayesKL
from truerisk.certificates.methods.pick_to_learn import PickToLearn
from truerisk.certificates.methods.progressive import Progressive
from truerisk.certificates.methods.recursive import Recursive
from truerisk.certificates.methods.single_draw import SingleDraw
from truerisk.errors import TrueriskError

METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        PacBayesKL(),
        SingleDraw(),
        Progressive(),
        PickToLearn(),
        Recursive(),
        DescriptionLength(),
        HoldOut(),
    )
}
# For networks that came trained; a surrogate may be certified by any of the methods above.
METHODS |= {m.name: m for m in (Around(), SingleDrawAround(), Disagreement(METHODS))}


def find_method(name: str) -> Method:
    """The method called ``name``, or an error that lists the names."""
    if name not in METHODS:
        raise TrueriskError(f"there is no method {name!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


__all__ = ["METHODS", "PREDICTORS", "Method", "find_method"]
