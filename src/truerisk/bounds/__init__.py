"""Bounds as plain float mathematics: numbers in, an upper bound on a risk out.

Nothing here knows of networks, files or torch. One file per family: `kl` (the divergence of two coins and
its inverse), `pac_bayes` (Gibbs predictors), `split_kl` (losses with several values, recursive PAC-Bayes),
`disintegrated` (one drawn network), `holdout` (fresh examples), `progressive` (models that learn from their
tests), `description` (short codes), `compression` (few examples), `disagreement` (unlabelled inputs),
`monte_carlo` (drawn networks).
Results are rounded outward, so that a certificate stays true in floating point.
"""

from truerisk.bounds.compression import compression_with_errors, pick_to_learn
from truerisk.bounds.description import description_length
from truerisk.bounds.disagreement import disagreement
from truerisk.bounds.disintegrated import single_draw
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
from truerisk.bounds.progressive import progressive, progressive_t
from truerisk.bounds.split_kl import recursive_step, split_kl

__all__ = [
    "CATONI_GRID",
    "catoni",
    "catoni_grid",
    "chernoff_upper",
    "clopper_pearson",
    "clopper_pearson_unequal",
    "compression_with_errors",
    "confidence_term",
    "description_length",
    "disagreement",
    "grouped_upper",
    "hoeffding_holdout",
    "kl_bernoulli",
    "kl_inverse",
    "lambda_form",
    "mcallester",
    "pac_bayes_kl",
    "pick_to_learn",
    "progressive",
    "progressive_t",
    "quadratic",
    "recursive_step",
    "single_draw",
    "split_kl",
    "thiemann",
]
