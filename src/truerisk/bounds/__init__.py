"""Bounds as plain float mathematics: numbers in, an upper bound on a risk out.

Nothing here knows of networks, files or torch. One file per family: `kl` (the divergence of two coins and
its inverse), `pac_bayes` (Gibbs predictors), `holdout` (fresh examples), `monte_carlo` (drawn networks).
Results are rounded outward, so that a certificate stays true in floating point.
"""

from truerisk.bounds.holdout import clopper_pearson, clopper_pearson_unequal, hoeffding_holdout
from truerisk.bounds.kl import kl_bernoulli, kl_inverse
from truerisk.bounds.monte_carlo import chernoff_upper, grouped_upper
from truerisk.bounds.pac_bayes import (
    CATONI_GRID,
    catoni,
    catoni_grid,
    confidence_term,
    lambda_form,
    mcallester,
    pac_bayes_kl,
    quadratic,
    thiemann,
)

__all__ = [
    "CATONI_GRID",
    "catoni",
    "catoni_grid",
    "chernoff_upper",
    "clopper_pearson",
    "clopper_pearson_unequal",
    "confidence_term",
    "grouped_upper",
    "hoeffding_holdout",
    "kl_bernoulli",
    "kl_inverse",
    "lambda_form",
    "mcallester",
    "pac_bayes_kl",
    "quadratic",
    "thiemann",
]
