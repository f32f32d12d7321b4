"""The task of the experiment `rescaling-bounds`, and the published numbers that it is compared with.

Runs of the paper's sizes are stored in ``benchmarks/records``. The experiment names the version of the code that made
those with trained posteriors as one with the same results (``same``); a test runs one of them again. Grids, claims, and
figures are in `truerisk.lab.experiments.rescaling_bounds`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from truerisk.bounds import mcallester
from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.rescaling.posteriors import Pair, network_of, same_noise, trained
from truerisk.lab.rescaling.published import noise_name
from truerisk.lab.samples import samples
from truerisk.nets import count_errors
from truerisk.pacbayes import Gaussian, GibbsEstimate, bound_columns, gibbs_risk, kl_columns, plan_draws, tighten
from truerisk.seeds import derive
from truerisk.symmetry import Symmetry, find_symmetry

DRAWS_SHARE = 0.1  # of delta, for the sampled networks; the rest is for the PAC-Bayes inequality
COMPARED = 200  # examples on which the outputs of twins are compared


def task(setting: Setting) -> Record:
    """A trained network with its posterior and prior: KLs and bounds in four columns.

    With several pairs of standard deviations, each number is a list with one entry for each pair.
    """
    train, test = samples(setting["data"], setting["n"], setting["n_test"], setting["seed"])
    if setting["posterior"] == "trained":
        pair = trained(setting, train)
        return {**_network(pair[0].network(), train, test), **_columns(setting, train, pair)}
    network = network_of(setting)
    facts = _network(network, train, test)
    if "pairs" in setting:
        found = [_columns(setting, train, same_noise(network, pair)) for pair in setting["pairs"]]
        return {
            **facts,
            "noise": list(map(noise_name, setting["pairs"])),
            **{k: [f[k] for f in found] for k in found[0]},
        }
    pair = same_noise(network, setting["pair"])
    columns = _columns(setting, train, pair)
    if "spreads" in setting:
        columns |= _twins(setting, train, pair, columns["risk_upper"])
    return {**facts, **columns}


def _network(network: nn.Module, train: Data, test: Data) -> Record:
    return {
        "weights": sum(p.numel() for p in network.parameters()),
        "squares": sum(float(p.detach().double().square().sum()) for p in network.parameters()),
        "train_error": count_errors(network, train.X, train.y)[0] / len(train),
        "test_error": count_errors(network, test.X, test.y)[0] / len(test),
    }


def _columns(setting: Setting, train: Data, pair: Pair) -> dict[str, Any]:
    """KLs in nats, McAllester's bound not cut at 1, and the PAC-Bayes-kl bound, for each column."""
    posterior, prior = pair
    symmetry = _symmetry(posterior, train)
    kls = kl_columns(posterior, prior, symmetry)
    drawn = draws(posterior, train, setting)
    upper = drawn.upper(DRAWS_SHARE * setting["delta"])
    found = {"log_scales": symmetry.dim, "sweeps": kls.best.sweeps, "risk": drawn.risk, "risk_upper": upper}
    found |= {f"{column}_kl": kl for column, kl in kls.kl.items()}
    found |= {f"{column}_step": step for column, step in kls.steps.items()}
    for form, ending in (("mcallester", "mcallester"), ("kl", "kl_form")):
        bounds = bound_columns(kls.kl, upper, len(train), _left(setting), form, setting["tried"])
        found |= {f"{column}_{ending}": bound for column, bound in bounds.items()}
    return found


def _left(setting: Setting) -> float:
    """The part of delta that is left for the PAC-Bayes inequality."""
    return float((1 - DRAWS_SHARE) * setting["delta"])


def _symmetry(posterior: Gaussian, train: Data) -> Symmetry:
    return find_symmetry(posterior.network(), torch.zeros(1, *train.input_shape))


def draws(posterior: Gaussian, train: Data, setting: Setting) -> GibbsEstimate:
    """The Gibbs risk on all training examples, from networks sampled once, after the posterior is fixed."""
    plan = plan_draws(posterior, train.X)
    plan = replace(plan, passes=min(plan.passes, setting["passes"]))
    if not plan.layered:  # half the time; nobody has to repeat these draws to the last digit
        plan = replace(plan, precision="float32")
    return gibbs_risk(posterior, train.X, train.y, derive(setting["seed"], "draws"), plan)


def _twins(setting: Setting, train: Data, pair: Pair, risk: float) -> Record:
    """Random twins of the network: posterior and network are carried along by random rescalings, the prior is not.

    For each twin: the typical factor of a unit, how far its outputs are from those of the network (relative to the
    largest output, in float64), and its McAllester bound as it is and after the best rescaling.
    """
    posterior, prior = pair
    symmetry = _symmetry(posterior, train)
    network, X = copy.deepcopy(posterior.network()).double(), torch.from_numpy(train.X[:COMPARED]).double()
    outputs = network(X).detach()
    found: dict[str, list[float]] = {name: [] for name in ("spread", "twin", "moved", "raw", "tightened")}
    for spread in setting["spreads"]:
        for twin in range(setting["twins"]):
            factors = symmetry.random(math.log(spread), derive(setting["seed"], f"twin {twin}"))
            other = symmetry.rescale(posterior, factors)
            moved = symmetry.rescale(network, factors)(X).detach() - outputs
            kls = {"raw": other.kl(prior), "tightened": tighten(other, prior, symmetry).kl_after}
            found["spread"].append(spread)
            found["twin"].append(twin)
            found["moved"].append(float(moved.abs().max() / outputs.abs().max()))
            for name, kl in kls.items():
                found[name].append(mcallester(risk, kl, len(train), _left(setting), clip=False))
    return {f"twin_{name}": numbers for name, numbers in found.items()}
