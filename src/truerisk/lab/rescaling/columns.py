"""Four KLs that belong together, and the bounds that follow from each: original, tuned, rescaled, both.

Rescaling uses no delta (rule 6 of docs/design.rst). A prior scale that was chosen by the data does: it comes from a
grid that is fixed beforehand, and each of its values gets its share of delta (Langford and Caruana 2001). This code is
frozen: see the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

from scipy.optimize import minimize_scalar

from truerisk.bounds import mcallester, pac_bayes_kl
from truerisk.pacbayes import Gaussian, tighten, tuned_scale
from truerisk.symmetry import Symmetry

COLUMNS = ("original", "tuned", "rescaled", "both")
TUNED = ("tuned", "both")  # delta is split over the scales
STEPS = range(-20, 21)  # the prior's standard deviations times 2^(step/2): a factor of 1000 to either side
FINE = 0.01  # of a step, for the best scale of all: the KL is flat there
Record = dict[str, float | int]


def scaled(prior: Gaussian, step: float) -> Gaussian:
    """The prior with all standard deviations multiplied by 2^(step/2)."""
    factor = 2.0 ** (step / 2)
    return Gaussian(prior.module, prior.mean, {name: factor * std for name, std in prior.std.items()})


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


def kl_columns(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry) -> Record:
    """The KLs in nats: four columns with scales from the grid, and for any scale at all (``..._any_scale``).

    The best of all scales is not covered by delta; it shows how much the grid loses.

    With a prior around 0 the KL is convex in all log factors and the logarithm of the prior's scale together, so its
    minimum over log factors is convex in that logarithm: a walk downhill ends at the best step, and the best scale of
    all is less than a step away from it.
    """

    def rescaled(step: float) -> float:
        return tighten(posterior, scaled(prior, step), symmetry).kl_after

    factor, any_tuned = tuned_scale(posterior, prior)
    tuned = cache(lambda step: posterior.kl(scaled(prior, step)))
    both = cache(rescaled)
    tuned_step = lowest(tuned, round(2 * math.log2(factor)))
    both_step = lowest(both, tuned_step)
    around = (both_step - 1, both_step + 1)
    any_both = minimize_scalar(rescaled, bounds=around, method="bounded", options={"xatol": FINE})
    return {
        "original_kl": posterior.kl(prior),
        "tuned_kl": tuned(tuned_step),
        "rescaled_kl": rescaled(0),
        "both_kl": both(both_step),
        "tuned_kl_any_scale": any_tuned,
        "both_kl_any_scale": min(float(any_both.fun), both(both_step)),
        "tuned_step": tuned_step,
        "both_step": both_step,
    }


def bound_columns(kls: Mapping[str, float], risk: float, n: int, delta: float, tried: int) -> Record:
    """McAllester's bound as it is and cut at 1, and the PAC-Bayes-kl bound, for each column.

    ``risk`` is an upper bound on the empirical Gibbs risk. ``delta`` is divided by ``tried``, the number of priors that
    were compared on the data, and in the tuned columns by the number of scales too.
    """
    out: Record = {}
    for column in COLUMNS:
        share = delta / (tried * (len(STEPS) if column in TUNED else 1))
        kl = kls[f"{column}_kl"]
        bound = mcallester(risk, kl, n, share, clip=False)
        out[f"{column}_mcallester"] = bound
        out[f"{column}_clipped"] = min(1.0, bound)
        out[f"{column}_kl_form"] = pac_bayes_kl(risk, kl, n, share)
    return out
