"""`infinite-width`: is an infinitely wide regularized network a convex problem? (Neyshabur et al. 2015, Bach 2017.)

A two-layer ReLU network with weight decay has many local minima, but its smallest objective over all widths is that of
a convex problem: an l1 penalty on units of norm 1 (`nets.convex_network`). Here the convex problem is solved with a
certified lower bound, which no network of any width can pass. Then networks of width 1 to 256 are trained from several
random starts, and their objectives are compared with it. Two problems are small enough for certainty:

    line       n noisy points of a sine; units have a weight and a bias
    a dataset  two of its classes on two principal components; targets -1 and 1; units have two weights and a bias

The unit of norm 1 includes the bias, and so does weight decay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.data import Data
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import refuse_alike
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PLAIN, TIMES, at_least, at_most
from truerisk.nets.convex_network import objective, solve_convex
from truerisk.seeds import derive
from truerisk.training.norm_regularized import train_regularized

NEYSHABUR = Paper(
    "Neyshabur, Tomioka, Srebro",
    2015,
    "In search of the real inductive bias: on the role of implicit regularization in deep learning",
    "ICLR workshop",
    arxiv="1412.6614",
)
BACH = Paper(
    "Bach", 2017, "Breaking the curse of dimensionality with convex neural networks", "JMLR 18", arxiv="1412.8690"
)
ROSSET = Paper(
    "Rosset, Swirszcz, Srebro, Zhu", 2007, "L1 regularization in infinite dimensional feature spaces", "COLT"
)

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NOISE, FREQUENCY = 0.2, 4.0  # of the sine
SPARE = 10  # test examples that samples draws and that stay unused: no dataset has fewer
GAP = 1e-6  # relative gap at which the convex problem counts as solved


def task(setting: Setting) -> Record:
    """Solve the convex problem; train networks of all widths from all starts. Numbers of a width: the best start."""
    s = setting
    X, y, new, answers = problem(s)
    convex = solve_convex(X, y, s["penalty"], GAP)
    found: Record = {
        "optimum": convex.objective,
        "bound": convex.bound,
        "units": len(convex.coefficients),
        "rebuilt": objective(X, y, *convex.weights(), s["penalty"]),
        "convex_norm": convex.norm,
        "convex_test_loss": float(np.mean((convex(new) - answers) ** 2)),
        **{name: [] for name in ("objectives", "imbalances", "norms", "test_losses")},
    }
    for width in s["widths"]:
        seeds = (derive(s["seed"], "start", width, start) for start in range(s["starts"]))
        networks = [train_regularized(X, y, width, s["penalty"], seed, s["steps"]) for seed in seeds]
        reached = [objective(X, y, one.hidden, one.outer, s["penalty"]) for one in networks]
        best = networks[int(np.argmin(reached))]
        found["objectives"].append(reached)
        found["imbalances"].append(max(one.imbalance for one in networks))
        found["norms"].append(best.norm)
        found["test_losses"].append(float(np.mean((best(new) - answers) ** 2)))
    return found


def problem(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and targets for training, and those of new examples."""
    if s["problem"] == "line":
        rng = np.random.default_rng(derive(s["seed"], "points"))
        x = rng.uniform(-1, 1, (s["n"] + s["n_test"], 1))
        y = np.sin(FREQUENCY * x[:, 0]) + NOISE * rng.standard_normal(len(x))
        return x[: s["n"]], y[: s["n"]], x[s["n"] :], y[s["n"] :]
    data, _ = samples(s["data"], s["pool"], SPARE, derive(s["seed"], "examples"), s.get("data_sha256"))
    chosen = data.take(np.flatnonzero(np.isin(data.y, s["classes"]))[: s["n"] + s["n_test"]])
    rows = chosen.X.reshape(len(chosen), -1).astype(np.float64)
    rows -= rows[: s["n"]].mean(axis=0)
    axes = np.linalg.svd(rows[: s["n"]], full_matrices=False)[2][:2]
    plane = rows @ axes.T
    spread = plane[: s["n"]].std(axis=0)
    plane = plane[:, spread > 1e-9 * spread.max()] / spread[spread > 1e-9 * spread.max()]
    targets = np.where(chosen.y == s["classes"][0], -1.0, 1.0)
    return plane[: s["n"]], targets[: s["n"]], plane[s["n"] :], targets[s["n"] :]


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(seeds: Sequence[int], line: Setting, planes: Sequence[Setting], widths: Sequence[int]) -> list[Setting]:
    settings = [{"problem": "line", **line}, *({"problem": plane["data"], **plane} for plane in planes)]
    return [one for each in settings for one in product({**each, "widths": list(widths)}, seed=seeds)]


def smoke() -> list[Setting]:
    line = {"n": 8, "n_test": 50, "penalty": 1e-3, "starts": 2, "steps": 200}
    plane = {"data": "digits", "classes": [3, 8], "pool": 300, **line, "n": 12, "n_test": 20, "penalty": 1e-2}
    return _grid([0], line, [plane], (1, 8, 256))


def quick() -> list[Setting]:
    line = {"n": 20, "n_test": 500, "penalty": 1e-3, "starts": 4, "steps": 4000}
    plane = {"data": "digits", "classes": [3, 8], "pool": 1000, **line, "n": 50, "n_test": 100, "penalty": 1e-2}
    return _grid(range(20, 25), line, [plane], WIDTHS)


def medium() -> list[Setting]:
    line = {"n": 40, "n_test": 500, "penalty": 3e-4, "starts": 4, "steps": 20_000}
    plane = {**line, "n": 100, "penalty": 3e-3, "steps": 10_000}
    planes = [
        {"data": "mnist", "classes": [3, 8], "pool": 5000, **plane},
        {"data": "fashion-mnist", "classes": [2, 6], "pool": 5000, **plane},  # pullovers and shirts
    ]
    return _grid(range(20, 23), line, planes, WIDTHS)


def paper() -> list[Setting]:
    """No size is published. The certified bound goes through n^2 cells, in about n^3 steps."""
    line = {"n": 100, "n_test": 1000, "penalty": 1e-4, "starts": 8, "steps": 100_000}
    plane = {"data": "mnist", "classes": [3, 8], "pool": 10_000, **line, "n": 200, "penalty": 1e-3}
    return _grid(range(20, 23), line, [plane], (*WIDTHS, 512, 1024))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """The two most frequent classes, a third of them for testing."""
    counts = np.bincount(data.y)
    classes = np.sort(np.argsort(-counts, kind="stable")[:2])
    there = int(counts[classes].sum()) - SPARE
    if setting["problem"] == "line" or there < 3 * SPARE or counts[classes].min() < SPARE:
        return None
    refuse_alike(data.take(np.flatnonzero(np.isin(data.y, classes))))
    n = min(setting["n"], 2 * there // 3)
    sizes = {"n": n, "n_test": min(setting["n_test"], there - n), "pool": len(data) - SPARE}
    return {**setting, **sizes, "classes": classes.tolist(), "problem": "own data"}


def cost(setting: Setting) -> float:
    """Seconds, roughly."""
    steps = (
        setting["starts"] * setting["steps"] * sum(2e-5 + 5e-9 * setting["n"] * width for width in setting["widths"])
    )
    return steps + (setting["n"] / 60) ** 3 + 0.1


# ---- the claims ----------------------------------------------------------------------------------------------------


def _excess(run: Record, width: int) -> tuple[float, float]:
    """Objectives of the best and of the worst start, over the certified bound."""
    reached = run["objectives"][run["widths"].index(width)]
    return min(reached) / run["bound"], max(reached) / run["bound"]


def widest(runs: Rows) -> float:
    """The worst start of the widest network, over the certified bound."""
    (run,) = runs.complete("objectives")
    return _excess(run, max(run["widths"]))[1]


def just_enough(runs: Rows) -> float:
    """The best start at the first width above n, over the certified bound."""
    (run,) = runs.complete("objectives")
    return _excess(run, min(width for width in run["widths"] if width > run["n"]))[0]


def narrowest(runs: Rows) -> float:
    """The best start of a network with one unit, over the certified bound."""
    (run,) = runs.complete("objectives")
    return _excess(run, 1)[0]


def imbalance(runs: Rows) -> float:
    """Of the widest network, at the worst start."""
    return float(runs.one("imbalances")[-1])


def never_below(rows: Rows) -> Checked:
    least = min(min(map(min, run["objectives"])) / run["bound"] for run in rows.complete("objectives"))
    return Checked(least >= 1 - 1e-9, f"the smallest of all objectives is {least:.6f} times its bound")


def finite(rows: Rows) -> Checked:
    runs = rows.complete("units")
    most, excess = (
        max(run["units"] / (run["n"] + 1) for run in runs),
        max(run["rebuilt"] / run["bound"] for run in runs),
    )
    fewest, largest = min(run["units"] for run in runs), max(run["units"] for run in runs)
    words = f"networks of {fewest} to {largest} units exceed the bound by at most {excess - 1:.1e} of it"
    return Checked(most <= 1 and excess <= 1 + 1e-5, words)


CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "wide-reaches-convex",
        "Every start of a network of width 256 ends within 1% of the convex optimum.",
        widest,
        at_most(1.01, TIMES),
        OURS,
        "not published as a number; the smallest objectives are equal, but training may end elsewhere",
        every=("problem",),
        pilot="Trials with other seeds ended at 1.0000 to 1.0025 times the optimum.",
        note="Compared with a certified lower bound, so a gap is never understated.",
    ),
    Claim(
        "width-above-n",
        "At the first width above n, the best of the starts ends within 1% of the convex optimum.",
        just_enough,
        at_most(1.01, TIMES),
        NEYSHABUR.at("infinite size, bounded norm networks"),
        "at widths of at least n + 1, the smallest objective of a network is that of the convex problem (1 time)",
        1,
        every=("problem",),
        pilot="Trials with other seeds ended at 1.0000 to 1.0016 times the optimum.",
        note="The theorem is about the smallest objective; the claim is that training finds it.",
    ),
    Claim(
        "narrow-stays-above",
        "With one hidden unit, the best of the starts stays at least 10% above the convex optimum.",
        narrowest,
        at_least(1.1, TIMES),
        OURS,
        every=("problem",),
        pilot="Trials with other seeds ended at 1.3 to 13 times the optimum.",
    ),
    Claim(
        "balanced",
        "At width 256, |u| and |v| of hidden units are equal: the imbalance of their squares is at most 1%.",
        imbalance,
        at_most(0.01, PLAIN),
        OURS,
        "at every stationary point with weight decay, incoming and outgoing weights of a unit have equal norms (0)",
        0,
        every=("problem",),
        pilot="Trials with other seeds had 0.0001 to 0.005.",
    ),
    Exact(
        "never-below",
        "No network of any width is below the certified bound of the convex problem.",
        never_below,
        NEYSHABUR.theorem("infinite size, bounded norm networks"),
        "every objective at least the bound, up to 1e-9 of it",
        "the convex problem is the smallest objective over all widths",
    ),
    Exact(
        "finite-solution",
        "A network with at most n + 1 units has the objective of infinitely many.",
        finite,
        ROSSET.theorem("sparse solutions"),
        "at most n + 1 units, rebuilt as a network within 1e-5 of the certified bound",
        "an l1 problem over infinitely many features has a solution with at most n + 1 of them",
    ),
)

EXPERIMENT = Experiment(
    name="infinite-width",
    title="Is an infinitely wide regularized network a convex problem?",
    about=(
        "Training a network with weight decay is not convex, and narrow networks end in different minima. With "
        "unlimited width the smallest objective is that of a convex problem, whose solution needs finitely many units. "
        "This experiment solves that problem with a certified bound and trains networks of growing width against it."
    ),
    papers=(NEYSHABUR, BACH, ROSSET),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
    same=("1-d7df31894c7ea471",),
)
