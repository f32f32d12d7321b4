"""Four KLs that belong together, and the bounds that follow from each: original, tuned, rescaled, both.

Rescaling uses no delta (rule 6 of docs/design.rst). A prior scale that was chosen by the data does: it comes from a
grid that is fixed beforehand, and each of its values gets its share of delta (Langford and Caruana 2001). `Chain` has
the same KLs with the best of all scales, which no delta covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from truerisk.bounds import catoni_grid, mcallester, pac_bayes_kl
from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.scale import tuned_scale
from truerisk.pacbayes.tightening import Tightened, tighten
from truerisk.symmetry import Symmetry

COLUMNS = ("original", "tuned", "rescaled", "both")
TUNED = ("tuned", "both")  # delta is split over the scales
STEPS = range(-20, 21)  # the prior's standard deviations times 2^(step/2): a factor of 1000 to either side
FORMS: Mapping[str, Callable[..., float]] = {"kl": pac_bayes_kl, "mcallester": mcallester, "catoni": catoni_grid}


@dataclass(frozen=True)
class KLColumns:
    """KLs in nats by column. ``steps``: which scale of the grid the tuned columns have; ``best``: the rescaling."""

    kl: Mapping[str, float]
    steps: Mapping[str, int]
    best: Tightened


def scaled(prior: Gaussian, step: float) -> Gaussian:
    """The prior with all standard deviations multiplied by 2^(step/2)."""
    factor = 2.0 ** (step / 2)
    return Gaussian(prior.module, prior.mean, {name: factor * std for name, std in prior.std.items()})


def kl_columns(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry) -> KLColumns:
    """KL(posterior, prior): as it is, with the best prior scale of the grid, with the best rescaling, and with both.

    With a prior around 0 the KL is convex in all log factors and the logarithm of the prior's scale together, so its
    minimum over log factors is convex in that logarithm: a walk downhill ends at the best step. With other priors it
    may end at a larger KL, which is still a valid one.
    """
    best = tighten(posterior, prior, symmetry)
    tuned = cache(lambda step: posterior.kl(scaled(prior, step)))
    both = cache(lambda step: tighten(posterior, scaled(prior, step), symmetry).kl_after if step else best.kl_after)
    tuned_step = lowest(tuned, round(2 * math.log2(tuned_scale(posterior, prior)[0])))
    both_step = lowest(both, tuned_step)
    kl = (best.kl_before, tuned(tuned_step), best.kl_after, both(both_step))
    steps = {"tuned": tuned_step, "both": both_step}
    return KLColumns(dict(zip(COLUMNS, kl, strict=True)), steps, best)


def lowest(values: Callable[[int], float], start: int) -> int:
    """The step of the grid at which a convex function is least, found by walking down from ``start``.

    >>> lowest(lambda step: (step - 7.2) ** 2, -3), lowest(lambda step: -step, 0)
    (7, 20)
    """
    at = min(max(start, STEPS[0]), STEPS[-1])
    for direction in (-1, 1):
        while at + direction in STEPS and values(at + direction) < values(at):
            at += direction
    return at


def bound_columns(
    kl: Mapping[str, float], risk: float, n: int, delta: float, form: str = "kl", tried: int = 1
) -> dict[str, float]:
    """The bound of each column in one form, not cut at 1: it fails with probability at most ``delta``.

    ``risk`` is an upper bound on the empirical Gibbs risk. ``delta`` is divided by ``tried``, the number of priors that
    were compared on the data, and in the tuned columns by the number of scales too. The form ``catoni`` divides it
    once more, over a grid of its parameter. Forms ``kl`` and ``mcallester`` hold together; ``catoni``, and each column
    but ``original`` and ``rescaled``, rests on an event of its own.

    >>> kl = {"original": 900.0, "tuned": 400.0, "rescaled": 300.0, "both": 100.0}
    >>> {column: round(value, 3) for column, value in bound_columns(kl, 0.1, 1000, 0.05, "mcallester").items()}
    {'original': 0.773, 'tuned': 0.553, 'rescaled': 0.492, 'both': 0.335}
    """
    if form not in FORMS:
        raise TrueriskError(f"form is {form!r}, but must be one of {', '.join(FORMS)}; choose one.")
    shares = {column: delta / (tried * (len(STEPS) if column in TUNED else 1)) for column in COLUMNS}
    return {column: FORMS[form](risk, kl[column], n, shares[column], clip=False) for column in COLUMNS}
