"""Experiment `predictiveness`: which complexity measures predict generalization, over a zoo of small networks?

Jiang et al. 2020, "Fantastic generalization measures and where to find them", and Dziugaite et al. 2020, "In search of
robust measures of generalization", at a size for two cores: MNIST-1D, four hyper-parameters, all networks stopped at
the same training loss, so that no measure can win by telling how long a network was trained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.predictiveness.claims import CLAIMS
from truerisk.lab.predictiveness.figures import figures
from truerisk.lab.samples import samples
from truerisk.measures import MEASURES, Subject
from truerisk.measures.gradients import gradients
from truerisk.measures.table import measure_subject
from truerisk.nets import architecture, count_errors
from truerisk.seeds import derive
from truerisk.training import Plan, run
from truerisk.training.loop import DivergedError

# ---- the task ------------------------------------------------------------------------------------------------------

LEVELS = (0.1, 0.01)  # cross-entropies whose first steps are noted; the last one ends the training
BUDGET = 2**26  # bytes for gradients of single examples


def task(setting: Setting) -> Record:
    """Train one network to the same loss as all others and take every measure of it."""
    s = setting
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"))
    build = architecture("mlp:" + "-".join([str(s["width"])] * s["depth"]), train.input_shape, train.classes).build
    network, init = (build(derive(s["seed"], "weights")) for _ in range(2))
    plan = Plan(
        epochs=s["epochs"],
        batch_size=s["batch_size"],
        optimizer="sgd",
        lr=s["lr"],
        schedule="constant",
        seed=derive(s["seed"], "batches"),
    )
    story = train_to_loss(network, train, plan)
    record = {
        "diverged": story["diverged"],
        "fitted": story["fitted"],
        "loss": story["loss"],
        "train_error": count_errors(network, train.X, train.y)[0] / len(train),
        "test_error": count_errors(network, test.X, test.y)[0] / len(test),
    }
    if not story["fitted"]:
        return {**record, "measures": {}}
    subject = Subject(network, train, init, record=story["record"], rows=s["rows"], seed=s["seed"])
    names = [name for name, entry in MEASURES.items() if entry.cost != "training"]
    found = measure_subject(subject, only=names)
    values = {name: v.value if v.log is None else v.log for name, v in found.values.items()}
    return {**record, "measures": {name: v if math.isfinite(v) else None for name, v in values.items()}}


def train_to_loss(network: nn.Module, train: Data, plan: Plan) -> Record:
    """Train until the mean cross-entropy over all examples is at most the last of ``LEVELS``; how that went."""
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    per_epoch = math.ceil(len(train) / plan.batch_size)
    reached: dict[float, int] = {}
    noise: list[float] = []
    last = math.inf

    def loss(batch: Tensor) -> Tensor:
        return F.cross_entropy(network(X[batch]), y[batch])

    def after(epochs: int) -> bool:
        nonlocal last
        with torch.no_grad():
            last = float(F.cross_entropy(network(X), y))
        for level in LEVELS:
            if last <= level:
                reached.setdefault(level, epochs * per_epoch)
        if not noise:
            noise.append(gradient_variance(network, X, y))
        return LEVELS[-1] in reached

    diverged = False
    try:
        run(network, [{"params": list(network.parameters())}], loss, len(train), plan, after_epoch=after)
    except DivergedError:
        diverged = True
    network.eval()
    first, second = (reached.get(level) for level in LEVELS)
    known = {
        "steps_to_0.1": first,
        "steps_0.1_to_0.01": None if first is None or second is None else second - first,
        "gradient_variance_first_epoch": noise[0] if noise else None,
    }
    return {"diverged": diverged, "fitted": second is not None, "loss": None if diverged else last, "record": known}


def gradient_variance(network: nn.Module, X: Tensor, y: Tensor) -> float:
    """Over all parameters, what the measure gradient-noise is at the end."""
    return sum(gradients(network, X, y, BUDGET).variances.values())


# ---- the grids -----------------------------------------------------------------------------------------------------

EPOCHS = 2500  # at most; the slowest need about half of them


def _grid(
    widths: Sequence[int],
    depths: Sequence[int],
    batch_sizes: Sequence[int],
    lrs: Sequence[float],
    seeds: Sequence[int],
    n: int,
    n_test: int,
    epochs: int,
    rows: int,
) -> list[Setting]:
    return [
        {
            "width": width, "depth": depth, "batch_size": batch_size, "lr": lr, "seed": seed,
            "data": "mnist1d", "n": n, "n_test": n_test, "epochs": epochs, "rows": rows,
        }
        for width, depth, batch_size, lr, seed in itertools.product(widths, depths, batch_sizes, lrs, seeds)
    ]  # fmt: skip


def _smoke() -> list[Setting]:
    return _grid((24,), (1, 2), (16, 32), (0.1,), (0,), n=100, n_test=200, epochs=200, rows=50)


def _quick() -> list[Setting]:
    return _grid((32, 128), (1, 3), (16, 64), (0.0075, 0.03), (0, 1), n=500, n_test=5000, epochs=EPOCHS, rows=250)


def _zoo(seeds: Sequence[int]) -> list[Setting]:
    """Four hyper-parameters with three values each.

    With learning rates of 0.03, 0.06 and 0.12, which were tried first, 51 of 162 networks never reached the loss.
    """
    widths, depths, batch_sizes, lrs = (32, 64, 128), (1, 2, 3), (16, 32, 64), (0.0075, 0.015, 0.03)
    return _grid(widths, depths, batch_sizes, lrs, seeds, n=500, n_test=10_000, epochs=EPOCHS, rows=250)


def _medium() -> list[Setting]:
    """162 networks."""
    return _zoo((0, 1))


def _paper() -> list[Setting]:
    """Five seeds, as in the papers; their networks and data would take a cluster."""
    return _zoo((0, 1, 2, 3, 4))


EXPERIMENT = Experiment(
    name="predictiveness",
    version=2,  # hessian-top takes all rows of the sample
    title="Which measures predict generalization?",
    about=(
        "Dozens of complexity measures have been proposed to explain why networks generalize. Jiang and others trained "
        "thousands of networks in 2019 and asked which measures go up and down with the gap between training and test "
        "error; Dziugaite and others asked in 2020 which of them can be relied on when one hyper-parameter changes at "
        "a time, and found none. Here a zoo of small networks on MNIST-1D differs in width, depth, batch size and "
        "learning rate; all of them are trained to a cross-entropy of 0.01. For every measure: Kendall's tau, tau with "
        "all but one hyper-parameter held fixed, conditional mutual information, and the sign error in the worst case."
    ),
    papers=(
        "Y. Jiang, B. Neyshabur, H. Mobahi, D. Krishnan, S. Bengio: Fantastic generalization measures and where to "
        "find them. ICLR 2020, arXiv 1912.02178",
        "G. K. Dziugaite et al.: In search of robust measures of generalization. NeurIPS 2020, arXiv 2010.11924",
    ),
    grids={"smoke": _smoke, "quick": _quick, "medium": _medium, "paper": _paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=lambda s: float(s["depth"] * (1 + s["width"] / 64)),
)
