"""The settings of `rescaling-bounds`. Those of `published` are frozen: a stored run belongs to its exact setting."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from truerisk.lab.experiment import Setting, product
from truerisk.lab.rescaling.published import ARCHITECTURES, NOISE, noise_name

RATIO = 44.0  # sigma_p / sigma_q, from the published bounds before rescaling
SIGMAS = [2 ** (-j / 2) for j in range(4, 15)]  # 0.25 to 0.008: the posterior's noise in the guess "widest"
RISK_LIMIT = 0.05  # the empirical risk that the published bounds before rescaling leave room for, roughly
# Priors compared on the data, over which delta is split. Both guesses: the grid and the standard one. Trained: the
# prior scale 4 / sqrt(fan-in) is that of truerisk's certificates, whose delta is split over 32 configurations.
TRIED = {"widest": len(SIGMAS) + 1, "standard": len(SIGMAS) + 1, "trained": 32}
STORED = list(NOISE)[:5]  # the pairs of noise levels that the stored runs have, and split delta over


def architectures(
    rows: Iterable[str], shrink: int, seeds: Iterable[int], epochs: Sequence[tuple[int, int]], how: Setting
) -> list[Setting]:
    """Each architecture with its widths divided by ``shrink``, but at least 4, and three posteriors.

    ``epochs``: of the network and of a trained posterior; for fewer than 100,000 weights, fewer than a million, more.
    """
    found = []
    for run in product({"part": "architectures", "delta": 0.05, **how}, seed=seeds, row=rows, posterior=TRIED):
        model = "mlp:" + "-".join(str(max(4, int(width) // shrink)) for width in run["row"].split("-"))
        size = _size(model)
        own = _posterior(run["posterior"], *epochs[(size > 100_000) + (size > 1_000_000)])
        found.append({**run, "model": model, "tried": TRIED[run["posterior"]], **own})
    return found


def _posterior(kind: str, fit_epochs: int, epochs: int) -> Setting:
    if kind == "trained":
        training = {"epochs": epochs, "lr": 0.02, "prior_std": 4.0, "start_std": 0.1, "passes": 4}
        return {"fit_epochs": max(1, fit_epochs // 4), **training}
    if kind == "standard":
        return {"fit_epochs": fit_epochs, "pair": [1.0, 1 / RATIO]}
    chosen = {"sigmas": SIGMAS, "ratio": RATIO, "risk_limit": RISK_LIMIT, "looked_at": 5000}
    return {"fit_epochs": fit_epochs, "pair": None, **chosen}


def noise(pairs: Sequence[tuple[float, float]], model: str, seeds: Iterable[int], how: Setting) -> list[Setting]:
    """The convolutional network with each of these pairs of standard deviations."""
    fixed = {"part": "noise", "posterior": "published", "model": model, "delta": 0.05, "tried": len(pairs), **how}
    return [{**run, "row": noise_name(run["pair"])} for run in product(fixed, seed=seeds, pair=map(list, pairs))]


def published(seeds: Sequence[int]) -> list[Setting]:
    """The published sizes."""
    how = {"data": "mnist", "n": 60_000, "n_test": 10_000, "batch_size": 250, "fit_lr": 1e-3, "passes": 1}
    all_ten = architectures(ARCHITECTURES, 1, seeds, [(16, 10), (8, 5), (4, 3)], how)
    cifar = {**how, "data": "cifar-10", "n": 50_000, "fit_epochs": 4}
    return all_ten + noise(STORED, "cnn:32-64-512", seeds, cifar)


def cost(setting: Setting) -> float:
    """Roughly the seconds that a setting of the larger scales takes on one core."""
    size = max(_size(setting["model"]), 20_000) * setting["n"]
    slow = 3.0 if setting["part"] == "noise" else 1.0  # convolutions: more multiplications than weights
    return size * (slow * 1.4e-10 * setting["fit_epochs"] + 4e-10 * setting.get("epochs", 0) + 3e-10)


def _size(model: str) -> int:
    """Roughly the number of weights, for images of MNIST or, convolutional, of CIFAR-10."""
    kind, _, text = model.partition(":")
    widths = [784, *map(int, text.split("-")), 10]
    return sum(a * b for a, b in itertools.pairwise(widths)) if kind == "mlp" else 64 * widths[2] * widths[3]
