"""Bounds as plain float mathematics: numbers in, an upper bound on a risk out (``_lower``: a lower one).

Nothing here knows of networks, files or torch. One file per family: `kl` (the divergence of two coins and
its inverse), `pac_bayes` (Gibbs predictors), `split_kl` (losses with several values, recursive PAC-Bayes),
`disintegrated` (one drawn network), `holdout` (fresh examples), `progressive` (models that learn from their
tests), `description` (short codes), `compression` (few examples), `disagreement` (unlabelled inputs),
`monte_carlo` (drawn networks). Classical ones: `vc` (counting), `rademacher`, `margin`, `radii` (norms known only
after training), `peeling` (products of norms, path norms), `covering` and `perturbation` (spectral norms),
`unit_capacity` (one hidden layer), `projection` (compression at random), `stability` (learners that
no one example changes much). Without any training: `nearest_neighbor`.
Results are rounded outward, so that a certificate stays true in floating point.
"""

from truerisk.bounds.compression import compression_with_errors, pick_to_learn
from truerisk.bounds.covering import SpectralLayer, bartlett_2017
from truerisk.bounds.description import description_length, description_length_lower
from truerisk.bounds.disagreement import disagreement, disagreement_lower
from truerisk.bounds.disintegrated import single_draw, single_draw_lower
from truerisk.bounds.holdout import (
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_unequal,
    hoeffding_holdout,
)
from truerisk.bounds.kl import kl_bernoulli, kl_inverse, kl_inverse_lower
from truerisk.bounds.margin import MarginBound, gridded_bound, homogeneous_bound, ramp_loss
from truerisk.bounds.monte_carlo import chernoff_lower, chernoff_upper, grouped_lower, grouped_upper
from truerisk.bounds.nearest_neighbor import cover_hart, cover_hart_lower, nearest_neighbor_limit
from truerisk.bounds.pac_bayes import (
    CATONI_GRID,
    catoni,
    catoni_grid,
    confidence_term,
    lambda_form,
    mcallester,
    pac_bayes_kl,
    pac_bayes_kl_lower,
    quadratic,
    thiemann,
)
from truerisk.bounds.peeling import golowich_frobenius, golowich_rows, gonon_paths, neyshabur_2015
from truerisk.bounds.perturbation import neyshabur_2018
from truerisk.bounds.progressive import progressive, progressive_lower, progressive_t
from truerisk.bounds.projection import ProjectedLayer, arora_2018, projections
from truerisk.bounds.rademacher import log_chained, massart, rademacher_bound
from truerisk.bounds.radii import radii_below, radius_above, radius_price
from truerisk.bounds.split_kl import recursive_step, split_kl
from truerisk.bounds.stability import (
    expected_risk,
    needed_stability,
    regularized_stability,
    sgd_convex,
    sgd_distance,
    sgd_non_convex,
    sgd_strongly_convex,
    sgd_strongly_convex_decaying,
    uniform_stability,
    uniform_stability_left_out,
)
from truerisk.bounds.unit_capacity import neyshabur_2019
from truerisk.bounds.vc import Questions, finite_class, log_answers, vc_bound, vc_dimension

__all__ = [
    "CATONI_GRID",
    "MarginBound",
    "ProjectedLayer",
    "Questions",
    "SpectralLayer",
    "arora_2018",
    "bartlett_2017",
    "catoni",
    "catoni_grid",
    "chernoff_lower",
    "chernoff_upper",
    "clopper_pearson",
    "clopper_pearson_lower",
    "clopper_pearson_unequal",
    "compression_with_errors",
    "confidence_term",
    "cover_hart",
    "cover_hart_lower",
    "description_length",
    "description_length_lower",
    "disagreement",
    "disagreement_lower",
    "expected_risk",
    "finite_class",
    "golowich_frobenius",
    "golowich_rows",
    "gonon_paths",
    "gridded_bound",
    "grouped_lower",
    "grouped_upper",
    "hoeffding_holdout",
    "homogeneous_bound",
    "kl_bernoulli",
    "kl_inverse",
    "kl_inverse_lower",
    "lambda_form",
    "log_answers",
    "log_chained",
    "massart",
    "mcallester",
    "nearest_neighbor_limit",
    "needed_stability",
    "neyshabur_2015",
    "neyshabur_2018",
    "neyshabur_2019",
    "pac_bayes_kl",
    "pac_bayes_kl_lower",
    "pick_to_learn",
    "progressive",
    "progressive_lower",
    "progressive_t",
    "projections",
    "quadratic",
    "rademacher_bound",
    "radii_below",
    "radius_above",
    "radius_price",
    "ramp_loss",
    "recursive_step",
    "regularized_stability",
    "sgd_convex",
    "sgd_distance",
    "sgd_non_convex",
    "sgd_strongly_convex",
    "sgd_strongly_convex_decaying",
    "single_draw",
    "single_draw_lower",
    "split_kl",
    "thiemann",
    "uniform_stability",
    "uniform_stability_left_out",
    "vc_bound",
    "vc_dimension",
]
