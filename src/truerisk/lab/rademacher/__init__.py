"""Experiment `rademacher`: networks agree with almost any signs, so that complexities of this kind explain nothing.

The estimates are in `signs`, the exact decisions about small sets in `shattering`; claims and figures are in files of
their own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from truerisk.data import Data, centre_crop, whiten_images
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.rademacher.claims import CLAIMS
from truerisk.lab.rademacher.figures import figures
from truerisk.lab.rademacher.shattering import (
    count_affine,
    count_intervals,
    count_nearest,
    count_rectangles,
    count_sine,
    count_trained,
    cover,
    separable,
)
from truerisk.lab.rademacher.signs import (
    ball_complexity,
    ball_upper,
    draw_signs,
    linear_correlations,
    linear_upper,
)
from truerisk.lab.samples import samples
from truerisk.lab.sgd import decaying_sgd
from truerisk.nets.classics import classic
from truerisk.seeds import derive, seeded_globals
from truerisk.training import learn

# ---- the task ------------------------------------------------------------------------------------------------------


def task(setting: Setting) -> Record:
    """One piece of the experiment; `part` says which."""
    return {"signs": _signs, "linear": _linear, "capacity": _capacity, "shatter": _shatter}[setting["part"]](setting)


def _signs(s: Setting) -> Record:
    """Train a network on random signs: its correlation with them is a lower estimate of the supremum.

    The inputs are the same for all draws of signs: the empirical complexity belongs to them.
    """
    signs = draw_signs(s["n"], 1, derive(s["seed"], "signs", s["draw"]))[0]
    train = replace(_inputs(s), y=(signs > 0).astype(np.int64), classes=2, source=None)
    with seeded_globals(derive(s["seed"], "weights", s["draw"])):
        network = classic(s["model"], train.input_shape, 2)
    plan = decaying_sgd(s, derive(s["seed"], "batches", s["draw"]))
    curve = learn(network, train, train.take(range(1)), plan, every=s["every"])
    return {
        "correlation": 1 - 2 * curve.train_error[-1],
        "steps": curve.steps[-1],
        "diverged": curve.diverged,
        "parameters": sum(p.numel() for p in network.parameters()),
    }


def _inputs(s: Setting) -> Data:
    data = samples(s["data"], s["n"], 10, derive(s["seed"], "inputs"))[0]
    if len(data.input_shape) != 3:
        return data
    return whiten_images(centre_crop(data, 28) if min(data.input_shape[1:]) > 28 else data)


def _linear(s: Setting) -> Record:
    """Affine classifiers and norm-bounded linear functions on the same inputs, with what is proved about them."""
    X = _inputs(s).X.reshape(s["n"], -1).astype(np.float64)
    found = linear_correlations(X, draw_signs(len(X), s["draws"], derive(s["seed"], "signs", s["n"])))
    radius = 1 / float(np.linalg.norm(X, axis=1).max())  # so that all functions have values from -1 to 1
    ball, ball_error = ball_complexity(X, radius, 20 * s["draws"], derive(s["seed"], "ball", s["n"]))
    return {
        "dimension": X.shape[1],
        "correlation": float(found.mean()),
        "correlation_error": float(found.std(ddof=1) / math.sqrt(len(found))),
        "upper": linear_upper(*X.shape),
        "ball": ball,
        "ball_error": ball_error,
        "ball_upper": ball_upper(X, radius),
    }


def _capacity(s: Setting) -> Record:
    """How often random labels of n random points in R^d are linearly separable."""
    rng = np.random.default_rng(derive(s["seed"], "capacity", s["d"], s["n"]))
    X, labels = rng.standard_normal((s["n"], s["d"])), rng.random((s["draws"], s["n"])) < 0.5
    share = float(np.mean([separable(X, row) for row in labels]))
    return {"share": share, "formula": cover(s["n"], s["d"]) / 2 ** s["n"]}


def _shatter(s: Setting) -> Record:
    """The least and the largest number of labelings of m points that a family realises, over the sets tried."""
    family, m = s["family"], s["m"]
    if family == "intervals":
        counts = [count_intervals(m)]
    elif family == "rectangles":
        counts = count_rectangles(m).tolist()
    elif family == "sine":
        counts = [count_sine(m)]
    else:
        counts = [_count(s, k) for k in range(s["sets"])]
    return {"least": min(counts), "most": max(counts), "tried": len(counts)}


def _count(s: Setting, k: int) -> int:
    X = np.random.default_rng(derive(s["seed"], "points", s["d"], s["m"], k)).standard_normal((s["m"], s["d"]))
    if s["family"] == "affine":
        return count_affine(X)
    if s["family"] == "nearest":
        return count_nearest(X)
    return count_trained(X, s["width"], s["steps"], s["rounds"], derive(s["seed"], "networks", s["width"], s["m"], k))


# ---- the grids -----------------------------------------------------------------------------------------------------

# Batch norm bears a higher learning rate. The paper's are 0.1 for Inception and 0.01 for the rest; with few examples
# the learning rate must fall more slowly than by its factor 0.95 per epoch, or training freezes before it ends.
SMALL_RATES = {
    "mlp-1x512": 0.05,
    "mlp-3x512": 0.02,
    "alexnet-small": 0.01,
    "inception-small": 0.05,
    "inception-small-no-bn": 0.01,
}
RATES = {"mlp-1x512": 0.01, "mlp-3x512": 0.01, "alexnet": 0.01, "inception": 0.1, "inception-no-bn": 0.01}


def _draws(data: str, n: int, rates: dict[str, float], draws: int, **how: Any) -> list[Setting]:
    common = {"batch_size": 50, "lr_decay": 0.99, "every": 2, "seed": 0, **how}
    return [
        {"part": "signs", "data": data, "n": n, "model": model, "lr": lr, "draw": draw, **common}
        for model, lr in rates.items()
        for draw in range(draws)
    ]


def _exact(largest: int, networks: int, many: int, draws: int, rounds: int = 6) -> list[Setting]:
    """Everything that is decided exactly, up to `largest` points, and small networks on up to `networks` points."""
    grid: list[Setting] = []
    for m in range(1, largest + 1):
        # More sets of d + 2 points: that none of them is shattered is Radon's theorem.
        grid += [{"family": "affine", "d": d, "m": m, "sets": many if m == d + 2 else 2} for d in (1, 2, 3)]
        grid += [{"family": "nearest", "d": 2, "m": m, "sets": 1}]
        grid += [{"family": family, "m": m} for family in ("intervals", "sine")]
        grid += [{"family": "rectangles", "m": m}] if m <= 6 else []  # m! orders
    for m in range(3, networks + 1):
        grid += [
            {"family": "relu", "d": 2, "m": m, "width": width, "sets": 1, "steps": 500, "rounds": rounds}
            for width in dict.fromkeys((1, 2, 4, networks))
        ]
    capacity = [{"part": "capacity", "d": 10, "n": n, "draws": draws, "seed": 0} for n in (11, 16, 22, 28, 33)]
    return [{"part": "shatter", "seed": 0, **each} for each in grid] + capacity


def _sizes(multiples: tuple[int, ...], draws: int, network_draws: int, epochs: int) -> list[Setting]:
    """Affine classifiers of the 40 numbers of MNIST-1D (41 parameters) and a network, on more and more examples."""
    sizes = [41 * k for k in multiples]
    linear = [{"part": "linear", "data": "mnist1d", "n": n, "draws": draws, "seed": 0} for n in sizes]
    rates = {"mlp-1x512": 0.05}
    return linear + [s for n in sizes for s in _draws("mnist1d", n, rates, network_draws, epochs=epochs)]


def smoke() -> list[Setting]:
    networks = _draws("digits", 40, SMALL_RATES, 1, epochs=2)
    return networks + _sizes((1, 4, 8), 10, 1, 20) + _exact(5, 4, 3, 20, rounds=2)


def quick() -> list[Setting]:
    networks = _draws("digits", 500, SMALL_RATES, 3, epochs=120)
    return networks + _sizes((1, 2, 4, 8, 16, 32), 50, 2, 200) + _exact(8, 8, 30, 400)


def medium() -> list[Setting]:
    rates = {name: RATES[name] for name in ("mlp-1x512", "mlp-3x512", "alexnet")}
    networks = _draws("cifar-10", 1000, rates, 2, epochs=100)
    return networks + _sizes((1, 2, 4, 8, 16, 32, 64), 50, 2, 300) + _exact(8, 8, 30, 400)


def paper() -> list[Setting]:
    networks = _draws("cifar-10", 50_000, RATES, 3, epochs=300, batch_size=128, lr_decay=0.95, every=5)
    return networks + _sizes((1, 2, 4, 8, 16, 32, 64, 128), 200, 3, 500) + _exact(10, 8, 100, 2000)


def _cost(setting: Setting) -> float:
    """Seconds on digits, roughly: the convolutional networks take most of the time."""
    return 1.0 if setting["part"] != "signs" else 2.0 if "mlp" in setting["model"] else 10.0


EXPERIMENT = Experiment(
    name="rademacher",
    title="Rademacher complexity and VC dimension: how many labels can be fitted?",
    about=(
        "Classical theory bounds the gap between training and true risk by the richness of the family of classifiers: "
        "how well its best member agrees with random signs (Rademacher complexity), or how many points it can label "
        "in every way (VC dimension). Each network is trained on random signs, and its correlation with them, a lower "
        "estimate of the complexity, is put next to 1, where the bound stops saying anything. Affine classifiers, "
        "whose complexity falls with the number of examples, are the contrast. On small sets of points it is decided "
        "exactly which labelings half-planes, intervals, rectangles and sine waves realise."
    ),
    papers=(
        "Zhang et al. Understanding deep learning requires rethinking generalization. ICLR 2017",
        "Bartlett, Mendelson. Rademacher and Gaussian complexities. JMLR 3, 2002",
        "Mohri, Rostamizadeh, Talwalkar. Foundations of Machine Learning. 2nd edition, MIT Press 2018",
        "Cover. Geometrical and statistical properties of systems of linear inequalities. IEEE Trans. EC-14, 1965",
        "Vapnik, Chervonenkis. On the uniform convergence of relative frequencies. Theory Probab. Appl. 16, 1971",
    ),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=_cost,
)
