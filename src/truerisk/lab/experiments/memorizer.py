"""Experiment `memorizer`: does a network with 2n + d weights fit any labels, and does fitting mean learning?

Zhang et al. 2017, Section 4: Theorem 1, whose proof is a recipe. The network is built, not trained (`nets.memorizer`),
for true labels, random labels, and random real numbers, in double and single precision, with one or many hidden layers.
Seeds determine the sample, its labels, the candidate directions, and the moves of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from truerisk.data import Data, random_labels
from truerisk.lab.claim import OURS, Checked, Claim, Exact
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.figure import percent
from truerisk.lab.papers import ZHANG
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PERCENT, TIMES, at_least, at_most
from truerisk.measures.moves import kept, nearest
from truerisk.nets.memorizer import memorize, memorize_deep, outputs
from truerisk.seeds import derive
from truerisk.words import at_most as rounded_up

CLASSES, DIMENSION = 10, 50  # the dimension is that of Gaussian points
TOLERANCE = 1e-6  # of an exact fit, for rounding in double precision
LENGTHS = tuple(float(10.0**power) for power in np.arange(-6, 0.76, 0.25))  # of moves; see `measures.moves`

# ---- the task ------------------------------------------------------------------------------------------------------


def task(setting: Setting) -> Record:
    """Build the network for one sample; measure its size, its errors, and how soon moved inputs break it."""
    train, test = _sample(setting)
    X, y, seed = train.X, _targets(setting, train), setting["seed"]
    deep, how = setting["layers"] > 1, (derive(seed, "directions"), setting["directions"])
    net: Any = memorize_deep(X, y, setting["layers"], *how) if deep else memorize(X, y, *how, setting["kinks"])
    net = net.float() if setting["precision"] == "float32" else net  # built in float64, then rounded
    found = outputs(net, X)
    record: Record = {
        "inputs": int(np.prod(train.input_shape)),
        "weights": sum(int(p.count_nonzero()) if deep else p.numel() for p in net.parameters()),
        "width": max(p.shape[0] for p in net.parameters() if p.ndim == 2) if deep else len(net.w),
        "max_error": float(np.abs(found - y).max()),
    }
    if setting["labels"] == "real numbers":
        return record
    record["train_error"] = float(np.mean(_classes(found) != y))
    learners = {"": lambda at: _classes(outputs(net, at)), "neighbor_": lambda at: y[nearest(at, X)]}
    for prefix, predict in learners.items():
        record[f"{prefix}test_error"] = float(np.mean(predict(test.X) != test.y))
        record[f"{prefix}kept"] = kept(predict, X, y, LENGTHS, derive(seed, "moves"))
    return record


def _classes(values: np.ndarray) -> np.ndarray:
    """The classes whose numbers are nearest to the outputs."""
    return np.clip(np.round(values), 0, CLASSES - 1)


def _sample(setting: Setting) -> tuple[Data, Data]:
    """Training and test examples; Gaussian points are labeled by the largest of ten random linear functions."""
    n, n_test = setting["n"], setting["n_test"]
    if setting["data"] != "gaussian":
        return samples(setting["data"], n, n_test, setting["seed"])
    generator = np.random.default_rng(derive(setting["seed"], "gaussian points"))
    functions = generator.standard_normal((DIMENSION, CLASSES))
    X = generator.standard_normal((n_test + n, DIMENSION)).astype(np.float32)
    points = Data("gaussian", X, (X @ functions).argmax(1), CLASSES)
    return points.take(np.arange(n_test, n_test + n)), points.take(np.arange(n_test))


def _targets(setting: Setting, train: Data) -> np.ndarray:
    if setting["labels"] == "real numbers":
        return np.random.default_rng(derive(setting["seed"], "targets")).standard_normal(len(train))
    given = random_labels(train, derive(setting["seed"], "labels")) if setting["labels"] == "random" else train
    return given.y.astype(np.float64)


# ---- the grids -----------------------------------------------------------------------------------------------------

LABELS = ("true", "random", "real numbers")
N = 1000  # points of the samples that claims with chance in them read; at smoke scale the largest sample


def _grid(sizes: dict[str, list[int]], n_test: int, depths: Sequence[int], seeds: Sequence[int]) -> list[Setting]:
    """All sizes with all labels; the rest only where claims or figures read it. Figures need one seed."""
    common = {"n_test": n_test, "layers": 1, "kinks": "points", "precision": "float64", "directions": 64}
    grid: list[Setting] = []
    for name, n in ((name, n) for name, each in sizes.items() for n in each):
        claimed = n == min(N, max(sizes[name]))
        how = common | {"part": "claims" if claimed else "figures", "data": name, "n": n}
        some, labels = (seeds, LABELS) if claimed else (seeds[:1], ("random",))
        grid += product(how, labels=LABELS, seed=some)
        grid += product(how | {"precision": "float32"}, labels=labels, seed=some)
        grid += product(how | {"kinks": "middle", "labels": "random"}, seed=seeds[:1])
        if claimed and name == next(iter(sizes)):
            grid += product(how | {"part": "depth", "labels": "random"}, layers=depths, seed=seeds)
    return grid


def smoke() -> list[Setting]:
    return _grid({"digits": [30, 200], "gaussian": [30, 200]}, 100, (2, 10), [20])


def quick() -> list[Setting]:
    sizes = {"digits": [30, 100, 300, N], "mnist1d": [30, 100, 300, N], "gaussian": [30, 100, 300, N, 3000, 10_000]}
    return _grid(sizes, 797, (2, 3, 5, 10, 30, 100), range(25, 30))


def medium() -> list[Setting]:
    return _grid({"mnist": [N, 10_000], "cifar-10": [N, 10_000]}, 10_000, (3, 10, 100), range(25, 28))


def paper() -> list[Setting]:
    return _grid({"cifar-10": [N, 50_000], "mnist": [N, 60_000]}, 10_000, (3, 10, 100), range(25, 28))  # whole sets


# ---- effects and checks --------------------------------------------------------------------------------------------


def fits(rows: Rows) -> Checked:
    some = rows.where(n=[n for (n,), _ in rows.groups("n") if n <= N])  # rounding grows with n
    worst = some.max("max_error")
    return Checked(worst < TOLERANCE, f"an error of at most {rounded_up(worst, 2)} in {len(some):,} networks")


def counts(rows: Rows) -> Checked:
    excess = [row["weights"] - 2 * row["n"] - row["inputs"] for row in rows.complete()]
    return Checked(not any(excess), f"2n + d weights in {excess.count(0):,} of {len(excess):,} networks")


def accuracy(rows: Rows) -> Checked:
    worst = rows.max("train_error")
    return Checked(worst == 0, f"{percent(1 - worst, 2)} training accuracy at worst, in {len(rows):,} networks")


def depth(rows: Rows) -> Checked:
    deep, worst, k = rows.complete(), rows.max("max_error"), rows.max("layers")
    narrow = all(row["width"] <= row["n"] / (row["layers"] - 1) + 4 for row in deep)
    light = all(row["weights"] <= 4 * row["n"] + row["inputs"] + 5 * row["layers"] for row in deep)
    widest = max(row["width"] for row in deep if row["layers"] == k)
    said = f"an error of at most {rounded_up(worst, 2)}; {widest} units wide with {k} layers"
    return Checked(worst < TOLERANCE and narrow and light, said)


def field(runs: Rows, name: str, unit: float = 1.0) -> float:
    return float(runs.one(name) / unit)


FLAT = {"layers": 1, "kinks": "points", "precision": "float64"}
TRUE = {**FLAT, "part": "claims", "data": "digits", "labels": "true"}
ON_DIGITS: dict[str, Any] = {"where": TRUE, "scales": ("quick",), "counted_on": "n_test"}
CLAIMS = (
    Exact(
        "fits-any-labels",
        "A two-layer ReLU network with 2n + d weights represents any function on n points in d dimensions.",
        fits,
        ZHANG.theorem("Theorem 1"),
        "an error below 1e-6 in float64, with kinks on the points, for every sample of up to 1,000 points",
        "exact",
        where=FLAT,
        note="The tolerance is for rounding: a trial with 1,000 points had an error of 1.2e-7.",
    ),
    Exact(
        "weights",
        "The two-layer network has 2n + d weights.",
        counts,
        ZHANG.theorem("Theorem 1"),
        "exactly 2n + d in every two-layer network",
        "2n + d",
        where={"layers": 1},
    ),
    Exact(
        "training-accuracy",
        "The two-layer network reproduces all labels of its sample, true or random.",
        accuracy,
        ZHANG.theorem("Theorem 1"),
        "100% training accuracy in float64 at every size",
        "100%",
        where={**FLAT, "labels": ("true", "random")},
    ),
    Exact(
        "depth",
        "For every depth k, width O(n/k) and O(n + d) weights are enough to fit any labels.",
        depth,
        ZHANG.theorem("Corollary 1"),
        "an error below 1e-6, at most n/(k - 1) + 4 units per layer, and at most 4n + d + 5k weights",
        "width O(n/k), O(n + d) weights",
        where={"part": "depth"},
    ),
    Claim(
        "rounding",
        "In single precision the error is at least 1,000 times the 1e-6 that the fit in double precision tolerates.",
        partial(field, name="max_error", unit=TOLERANCE),
        at_least(1000, TIMES),
        OURS,
        "the theorem is about real numbers",
        every=("data", "labels"),
        where={"part": "claims", "precision": "float32"},
        scales=("quick", "medium"),
        pilot="A trial on 1,000 digits had weights of 4e5 and gaps of 7e-6, too much for the digits of float32.",
    ),
    Claim(
        "no-learning",
        "Built for true labels, the network is close to useless on other examples.",
        partial(field, name="test_error"),
        at_least(70, PERCENT),
        OURS,
        "the theorem is about the sample only; chance is 90%",
        note="The claim chance (87% to 93% test error after random labels) went on 2026-11-18: labels drawn at random "
        "say nothing about new examples, so it could not fail.",
        **ON_DIGITS,
    ),
    Claim(
        "neighbor-learns",
        "The nearest neighbor, which fits all training labels too, classifies other examples well.",
        partial(field, name="neighbor_test_error"),
        at_most(5, PERCENT),
        OURS,
        "no number",
        note="Until 2026-11-18 this was a condition of the claim no-learning.",
        **ON_DIGITS,
    ),
)

EXPERIMENT = Experiment(
    name="memorizer",
    title="A network that memorizes by construction",
    about="Two layers and 2n + d weights are enough to fit any labels of n examples in d dimensions. The proof is a "
    "recipe, which this experiment follows: project all points on one direction and draw a broken line through the "
    "labels. The network and the nearest neighbor both fit all labels; test errors show whether they learn.",
    papers=(ZHANG,),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=lambda setting: 1.0 + setting["n"] / 300,
)
