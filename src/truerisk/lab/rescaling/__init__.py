"""The task of the experiment `rescaling-bounds`, and the published numbers that it is compared with.

105 runs of the paper's sizes (35 for each of three seeds, four hours on one core) are stored in ``benchmarks/records``.
The experiment names the version of the code that made them as one with the same results (``same``); a test runs one of
them again. Grids, claims, and figures are in `truerisk.lab.experiments.rescaling_bounds`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.rescaling.columns import bound_columns, kl_columns
from truerisk.lab.rescaling.posteriors import same_noise, trained
from truerisk.lab.samples import samples
from truerisk.nets import count_errors
from truerisk.pacbayes import Gaussian, GibbsEstimate, gibbs_risk, plan_draws
from truerisk.seeds import derive
from truerisk.symmetry import find_symmetry

DRAWS_SHARE = 0.1  # of delta, for the sampled networks; the rest is for the PAC-Bayes inequality


def task(setting: Setting) -> Record:
    """One posterior and its prior: KLs and bounds in four columns."""
    train, test = samples(setting["data"], setting["n"], setting["n_test"], setting["seed"])
    make = trained if setting["posterior"] == "trained" else same_noise
    posterior, prior = make(setting, train)
    network = posterior.network()
    symmetry = find_symmetry(network, torch.zeros(1, *train.input_shape))
    kls = kl_columns(posterior, prior, symmetry)
    drawn = draws(posterior, train, setting)
    upper = drawn.upper(DRAWS_SHARE * setting["delta"])
    same = setting["posterior"] != "trained"
    return {
        "weights": posterior.size,
        "log_scales": symmetry.dim,
        "train_error": count_errors(network, train.X, train.y)[0] / len(train),
        "test_error": count_errors(network, test.X, test.y)[0] / len(test),
        "sigma_p": _first(prior) if same else None,
        "sigma_q": _first(posterior) if same else None,
        "risk": drawn.risk,
        "risk_upper": upper,
        **kls,
        **bound_columns(kls, upper, len(train), (1 - DRAWS_SHARE) * setting["delta"], setting["tried"]),
    }


def draws(posterior: Gaussian, train: Data, setting: Setting) -> GibbsEstimate:
    """The Gibbs risk on all training examples, from networks sampled once, after the posterior is fixed."""
    plan = plan_draws(posterior, train.X)
    plan = replace(plan, passes=min(plan.passes, setting["passes"]))
    if not plan.layered:  # half the time; nobody has to repeat these draws to the last digit
        plan = replace(plan, precision="float32")
    return gibbs_risk(posterior, train.X, train.y, derive(setting["seed"], "draws"), plan)


def _first(gaussian: Gaussian) -> float:
    return float(next(iter(gaussian.std.values())).flatten()[0])
