"""Experiment `rescaling-bounds`: what rescaling gives to PAC-Bayes bounds (Rouchouse et al. 2025), beside what a tuned
prior and a trained posterior give.

Ten fully connected networks and a grid of noise levels for a convolutional one, four columns each: original, tuned
scale of the prior (paid for), rescaled, both. What the paper does not say had to be guessed: see `posteriors`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from truerisk.data import Data
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.rescaling_bounds.claims import CLAIMS
from truerisk.lab.rescaling_bounds.columns import bound_columns, kl_columns
from truerisk.lab.rescaling_bounds.figures import figures
from truerisk.lab.rescaling_bounds.posteriors import same_noise, trained
from truerisk.lab.rescaling_bounds.published import ARCHITECTURES, NOISE, noise_name
from truerisk.lab.samples import samples
from truerisk.nets import count_errors
from truerisk.pacbayes import Gaussian, GibbsEstimate, gibbs_risk, plan_draws
from truerisk.seeds import derive
from truerisk.symmetry import find_symmetry

DRAWS_SHARE = 0.1  # of delta, for the drawn networks; the rest is for the PAC-Bayes inequality

# ---- the task ------------------------------------------------------------------------------------------------------


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
    """The Gibbs risk on all training examples, from draws made once, after the posterior is fixed."""
    plan = plan_draws(posterior, train.X)
    plan = replace(plan, passes=min(plan.passes, setting["passes"]))
    if not plan.layered:  # half the time; nobody has to repeat these draws to the last digit
        plan = replace(plan, precision="float32")
    return gibbs_risk(posterior, train.X, train.y, derive(setting["seed"], "draws"), plan)


def _first(gaussian: Gaussian) -> float:
    return float(next(iter(gaussian.std.values())).flatten()[0])


# ---- the grids -----------------------------------------------------------------------------------------------------

RATIO = 44.0  # sigma_p / sigma_q, from the published bounds before rescaling
SIGMAS = [2 ** (-j / 2) for j in range(4, 15)]  # 0.25 to 0.008: the posterior's noise in the guess "widest"
RISK_LIMIT = 0.05  # the empirical risk that the published bounds before rescaling leave room for, roughly
# Priors compared on the data, each of which gets its share of delta. Both guesses: the grid and the standard one.
# Trained: the width 4 / sqrt(fan-in) is that of truerisk's certificates, which pay for 32 configurations.
TRIED = {"widest": len(SIGMAS) + 1, "standard": len(SIGMAS) + 1, "trained": 32, "published": len(NOISE)}


def _architectures(rows: Iterable[str], shrink: int, seeds: Iterable[int], **how: Any) -> list[Setting]:
    """Each architecture with its widths divided by ``shrink``, three posteriors each."""
    return [
        _setting("architectures", row, kind, seed, model, **_training(kind, model, how))
        for seed in seeds
        for row in rows
        for model in (_shrunk(row, shrink),)
        for kind in ("widest", "standard", "trained")
    ]


def _noise(pairs: Iterable[tuple[float, float]], model: str, seeds: Iterable[int], **how: Any) -> list[Setting]:
    """The convolutional network with each published pair of standard deviations."""
    return [
        _setting("noise", noise_name(pair), "published", seed, model, pair=list(pair), **how)
        for seed in seeds
        for pair in pairs
    ]


def _setting(part: str, row: str, kind: str, seed: int, model: str, **how: Any) -> Setting:
    common = {"part": part, "row": row, "posterior": kind, "model": model, "seed": seed}
    return {**common, **how, "delta": 0.05, "tried": TRIED[kind]}


def _shrunk(row: str, shrink: int) -> str:
    """The name of a network with these widths, divided, but with 4 units or more in each layer.

    >>> _shrunk("64-32-16-8-4", 4)
    'mlp:16-8-4-4-4'
    """
    return "mlp:" + "-".join(str(max(4, int(width) // shrink)) for width in row.split("-"))


def _training(kind: str, model: str, how: dict[str, Any]) -> dict[str, Any]:
    """What each posterior needs; epochs are given for small, large and very large networks."""
    size = _size(model)
    which = (size > 100_000) + (size > 1_000_000)
    fit_epochs, epochs = how["fit_epochs"][which], how["epochs"][which]
    rest = {key: value for key, value in how.items() if key not in ("fit_epochs", "epochs")}
    if kind == "trained":
        training = {"epochs": epochs, "lr": 0.02, "prior_std": 4.0, "start_std": 0.1, "passes": 4}
        return {**rest, "fit_epochs": max(1, fit_epochs // 4), **training}
    if kind == "standard":
        return {**rest, "fit_epochs": fit_epochs, "pair": [1.0, 1 / RATIO]}
    chosen = {"pair": None, "sigmas": SIGMAS, "ratio": RATIO, "risk_limit": RISK_LIMIT, "looked_at": 5000}
    return {**rest, "fit_epochs": fit_epochs, **chosen}


def _size(model: str) -> int:
    """Roughly the number of weights, for images of MNIST or, convolutional, of CIFAR-10."""
    kind, _, text = model.partition(":")
    widths = [784, *map(int, text.split("-")), 10]
    return sum(a * b for a, b in itertools.pairwise(widths)) if kind == "mlp" else 64 * widths[2] * widths[3]


def _smoke() -> list[Setting]:
    tiny = {"data": "digits", "n": 200, "n_test": 100, "batch_size": 50, "fit_lr": 0.01, "passes": 1}
    few = _architectures(["64-32", "32-64-128", "32"], 4, [0], fit_epochs=[8] * 3, epochs=[4] * 3, **tiny)
    return few + _noise(list(NOISE)[:2], "cnn:4-4-8", [0], fit_epochs=4, **tiny)


def _quick() -> list[Setting]:
    """The architectures with a quarter of the widths, on all digits."""
    how = {"data": "digits", "n": 1500, "n_test": 297, "batch_size": 50, "fit_lr": 0.01, "passes": 1}
    all_ten = _architectures(ARCHITECTURES, 4, [0, 1], fit_epochs=[60] * 3, epochs=[60] * 3, **how)
    return all_ten + _noise(NOISE, "cnn:16-32-128", [0, 1], fit_epochs=20, **how)


def _published(seeds: Iterable[int]) -> list[Setting]:
    """The published sizes. Epochs for under 100,000 weights, under a million, and more."""
    how = {"data": "mnist", "n": 60_000, "n_test": 10_000, "batch_size": 250, "fit_lr": 1e-3, "passes": 1}
    all_ten = _architectures(ARCHITECTURES, 1, seeds, fit_epochs=[16, 8, 4], epochs=[10, 5, 3], **how)
    cifar = {**how, "data": "cifar-10", "n": 50_000}
    return all_ten + _noise(NOISE, "cnn:32-64-512", seeds, fit_epochs=4, **cifar)


def _medium() -> list[Setting]:
    return _published([0])


def _paper() -> list[Setting]:
    return _published([0, 1, 2])


def cost(setting: Setting) -> float:
    """Roughly the seconds that a setting of the larger scales takes on one core."""
    size = max(_size(setting["model"]), 20_000) * setting["n"]
    slow = 3.0 if setting["part"] == "noise" else 1.0  # convolutions: more multiplications than weights
    return size * (slow * 1.4e-10 * setting["fit_epochs"] + 4e-10 * setting.get("epochs", 0) + 3e-10)


EXPERIMENT = Experiment(
    name="rescaling-bounds",
    title="What rescaling gives to PAC-Bayes bounds",
    about=(
        "Multiply what enters a hidden unit by a number and divide what leaves it by the same: the network computes "
        "the same function, but the KL between posterior and prior changes, and with it a PAC-Bayes bound. Rouchouse "
        "and others asked in 2025 how much the best rescaling gives. Here their ten fully connected networks on MNIST "
        "and their grid of noise levels on CIFAR-10 are done again in four columns: the bound as it is, with the "
        "scale of the prior tuned instead (and paid for), rescaled, and both. What the paper does not say "
        "is guessed: first weights are torch's, training is by Adam on all examples, pixels lie between 0 and 1, the "
        "convolutional network has 32 and 64 channels and 512 hidden units; on MNIST "
        f"sigma_p = {RATIO:g} sigma_q, which fits the published bounds before rescaling, and sigma_q is either the "
        f"largest of a grid with an empirical risk of at most {math.floor(100 * RISK_LIMIT)} % (widest) or 1/{RATIO:g} "
        "(standard). Beside them stand posteriors whose means and standard deviations were trained, which is what "
        "other certificates do. All bounds hold at delta = 0.05, with drawn networks, compared priors and scales paid "
        "for."
    ),
    papers=(
        "D. Rouchouse, A. Gonon, R. Gribonval, B. Guedj: Non-vacuous generalization bounds: can rescaling invariances "
        "help? 2025, arXiv 2509.26149",
        "J. Langford, R. Caruana: (Not) bounding the true error. NeurIPS 2001",
    ),
    grids={"smoke": _smoke, "quick": _quick, "medium": _medium, "paper": _paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=cost,
)
