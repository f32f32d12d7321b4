"""`kernel-interpolation`: solving for the labels with a Gram matrix (Zhang et al. 2017, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from truerisk.lab.experiment import Experiment, Setting
from truerisk.lab.kernel_interpolation.claims import CLAIMS
from truerisk.lab.kernel_interpolation.figures import figures
from truerisk.lab.kernel_interpolation.runs import task

RIDGE = ("none", "validated")


def _variants(kernel: str, noises: Sequence[float], **common: Any) -> Iterator[Setting]:
    """All runs of one kernel on one set of examples.

    At noise the bandwidth comes once from true labels, so that the labels to fit are all that differs from the run
    without noise, and once from the given labels, which are all that a user has. Patches have no bandwidth.
    """
    for noise in noises:
        setting = {"kind": "kernel", "kernel": kernel, "noise": noise, **common}
        yield {**setting, "tuned": "true labels", "ridge": "none"}
        if 0 < noise < 1 and kernel != "patches":
            yield {**setting, "tuned": "given labels", "ridge": "none"}
        if noise < 1:
            yield {**setting, "tuned": "given labels" if noise else "true labels", "ridge": "validated"}


def _solves(
    data: str, n: int, n_test: int, noises: Sequence[float], filters: int, patch: int, seeds: int = 1
) -> list[Setting]:
    out: list[Setting] = []
    for seed in range(seeds):
        common = {"data": data, "n": n, "n_test": n_test, "tuning": n // 2, "seed": seed}
        for kernel in ("gaussian", "laplacian"):
            out += _variants(kernel, noises, **common)
        out += _variants("patches", noises, filters=filters, patch=patch, **common)
    return out


def _linear(n: int, features: int, steps: int) -> list[Setting]:
    common = {"kind": "sgd", "data": "digits", "n": n, "n_test": 797, "features": features, "steps": steps, "seed": 0}
    return [{**common, "start": start} for start in (0.0, 1.0, 4.0)]


def _gram(data: str, n: int) -> Setting:
    return {"kind": "rank", "data": data, "n": n, "seed": 0}


def _whole(data: str, n: int, kernel: str, ridge: str, threads: int, **more: Any) -> Setting:
    setting = {"kind": "kernel", "data": data, "n": n, "n_test": 10_000, "kernel": kernel, "noise": 0.0, "ridge": ridge}
    return {**setting, "tuned": "true labels", "tuning": 10_000, "seed": 0, "threads": threads, **more}


def _smoke() -> list[Setting]:
    return [*_solves("digits", 300, 500, (0.0, 0.2), 64, 3), *_linear(20, 300, 20_000), _gram("digits", 300)]


def _quick() -> list[Setting]:
    noises = (0.0, 0.2, 0.5, 1.0)
    return [
        *_solves("digits", 1000, 797, noises, filters=512, patch=3, seeds=3),
        *_solves("mnist1d", 1000, 2000, noises, filters=512, patch=7, seeds=3),
        *_linear(50, 1000, 200_000),
        _gram("digits", 1000),
        _gram("mnist1d", 1000),
    ]


def _medium() -> list[Setting]:
    """Subsets in all variants, and the Gaussian kernel on all of MNIST, whose triangle takes 13.4 GiB."""
    return [
        *_solves("mnist", 10_000, 10_000, (0.0, 0.2), filters=2000, patch=6),
        *_solves("cifar-10", 5000, 10_000, (0.0,), filters=2000, patch=6),
        _gram("mnist", 10_000),
        _whole("mnist", 60_000, "gaussian", "none", threads=2),
    ]


def _paper() -> list[Setting]:
    """All examples of both sets; 32,000 filters on CIFAR-10. Needs 16 GiB and many cores."""
    return [
        *(_whole("mnist", 60_000, "gaussian", ridge, threads=16) for ridge in RIDGE),
        *(_whole("cifar-10", 50_000, "gaussian", ridge, threads=16) for ridge in RIDGE),
        *(_whole("cifar-10", 50_000, "patches", ridge, threads=16, filters=32_000, patch=6) for ridge in RIDGE),
    ]


def _cost(setting: Setting) -> float:
    """Operations, roughly, in units of 1e9."""
    if setting["kind"] != "kernel":
        return 20.0 if setting["kind"] == "sgd" else 1.0
    n, m = setting["n"], setting["tuning"]
    return (n**3 / 3 + 15 * m**3 / 3 + setting.get("filters", 0) * 3e4 * n) / 1e9 + 1


EXPERIMENT = Experiment(
    name="kernel-interpolation",
    title="Kernel interpolation",
    about=(
        "A kernel method that fits every training label exactly is the simplest model that memorizes: one linear "
        "system with the Gram matrix gives its coefficients, no training needed. It generalizes well all the same, "
        "without any regularization, so interpolation is no speciality of deep networks. Here the system is solved for "
        "Gaussian and Laplacian kernels and for random convolutional features, with and without a ridge, with true and "
        "with noisy labels. The norm of the solution, the usual suspect for an explanation, is compared with the "
        "errors; and SGD on a linear model is followed to the solution of smallest norm, which it finds without "
        "being told to. Bandwidths and ridges are chosen on held-out training examples, never on test examples."
    ),
    papers=(
        "Zhang et al.: Understanding deep learning requires rethinking generalization. ICLR 2017",
        "Belkin, Ma, Mandal: To understand deep learning we need to understand kernel learning. ICML 2018",
        "Coates, Ng: Learning feature representations with k-means. Neural Networks: Tricks of the Trade, 2012",
    ),
    grids={"smoke": _smoke, "quick": _quick, "medium": _medium, "paper": _paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=_cost,
)
