"""`tree-descent`: do forests and boosting have a second descent, and is it the number of leaves that causes it?

Belkin et al. 2019 put trees on one axis: first the leaves of a single tree grow until it fits every label, then the
number of such trees grows. Boosting gets the same treatment: first the rounds, then the number of boosted ensembles in
an average. Beyond the threshold the test error falls again. Curth et al. 2023 reply that the axis turns a corner there:
size and number are two axes, and along each of them alone there is no second descent.

A run grows members of every size and averages 1, 2, 5, ... of each, so it has Belkin's axis and both of Curth's:

    forest      regression trees on one-hot labels with limited numbers of leaves, on all examples (no bootstrap), with
                a random part of the features at each split; size is leaves per tree
    boosting    L2-boosting with trees of 10 leaves and rate 0.85; size is leaves in all rounds of one ensemble

Losses are squared, summed over classes; errors are shares of misclassified examples. Averages of k members are taken
over disjoint groups of the members, so a number for one member is the mean over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.data import corrupt_labels
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import BELKIN
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import TIMES, at_least, at_most
from truerisk.nets.tree_ensembles import Scores, boosted_scores, tree_scores
from truerisk.seeds import derive

TURN = "A U-turn on double descent: rethinking parameter counting in statistical learning"
CURTH = Paper("Curth, Jeffares, van der Schaar", 2023, TURN, "NeurIPS", arxiv="2310.18988")
LEAVES = (2, 5, 10, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 3000, 5000, 8000, 12_000)
NEAR = 0.9  # of the leaves of full trees: larger limits are left out
ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
COUNTS = (1, 2, 5, 10, 20)
NOISE = 0.2


def task(setting: Setting) -> Record:
    """Losses and errors for every size (rows) and every number of members in the average (columns)."""
    s, seed = setting, setting["seed"]
    train, test = samples(s["data"], s["n"], s["n_test"], derive(seed, "examples"), s.get("data_sha256"))
    train = corrupt_labels(train, s["noise"], derive(seed, "noise"))
    X, Z = (data.X.reshape(len(data), -1) for data in (train, test))
    truth = [np.eye(train.classes)[data.y] for data in (train, test)]
    grow = _forest if s["model"] == "forest" else _boosting
    counts = [k for k in COUNTS if k <= s["members"]]
    sizes: list[float] = []
    tables: dict[str, list[list[float]]] = {f"{a}_{b}": [] for a in ("train", "test") for b in ("loss", "error")}
    for members in grow(s, X, truth[0], [X, Z]):
        sizes.append(float(np.mean([member.leaves for member in members])))
        for part, target, index in zip(("train", "test"), truth, (0, 1), strict=True):
            found = [_averages([member.outputs[index] for member in members], target, k) for k in counts]
            tables[f"{part}_loss"].append([loss for loss, _ in found])
            tables[f"{part}_error"].append([error for _, error in found])
    return {"sizes": sizes, "counts": counts, **tables}


def _averages(outputs: Sequence[np.ndarray], truth: np.ndarray, k: int) -> tuple[float, float]:
    """Squared loss and error of averages of k members, the mean over disjoint groups."""
    groups = [np.mean(outputs[i : i + k], axis=0) for i in range(0, len(outputs) - k + 1, k)]
    losses = [np.square(group - truth).sum(axis=1).mean() for group in groups]
    errors = [np.mean(group.argmax(axis=1) != truth.argmax(axis=1)) for group in groups]
    return float(np.mean(losses)), float(np.mean(errors))


def _forest(s: Setting, X: np.ndarray, Y: np.ndarray, sets: Sequence[np.ndarray]) -> list[list[Scores]]:
    """Trees of every size clearly below that of full trees, then full trees."""
    seeds = [derive(s["seed"], "tree", k) for k in range(s["members"])]
    full = [tree_scores(X, Y, sets, None, seed) for seed in seeds]
    smaller = [leaves for leaves in LEAVES if leaves < NEAR * min(tree.leaves for tree in full)]
    return [[tree_scores(X, Y, sets, leaves, seed) for seed in seeds] for leaves in smaller] + [full]


def _boosting(s: Setting, X: np.ndarray, Y: np.ndarray, sets: Sequence[np.ndarray]) -> list[list[Scores]]:
    at = [k for k in ROUNDS if k <= s["rounds"]]
    ensembles = [boosted_scores(X, Y, sets, at, derive(s["seed"], "ensemble", k)) for k in range(s["members"])]
    return [list(members) for members in zip(*ensembles, strict=True)]


# ---- the grids -----------------------------------------------------------------------------------------------------


def grid(forest: Setting, boosting: Setting, seeds: Sequence[int]) -> list[Setting]:
    """Seeds start at 25: those before were named by claims that compared a size with itself, and were never run."""
    models = ({"model": "forest", **forest}, {"model": "boosting", **boosting})
    return [run for model in models for run in product(model, noise=(0.0, NOISE), seed=seeds)]


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 100, "n_test": 100}
    return grid({**how, "members": 5}, {**how, "members": 2, "rounds": 10}, [20])


def quick() -> list[Setting]:
    how = {"data": "digits", "n": 1000, "n_test": 797}
    return grid({**how, "members": 20}, {**how, "members": 10, "rounds": 200}, range(25, 30))


def medium() -> list[Setting]:
    """The published number of examples for forests, fewer for boosting."""
    forest = {"data": "mnist", "n": 10_000, "n_test": 10_000, "members": 20}
    boosting = {"data": "mnist", "n": 2000, "n_test": 5000, "members": 10, "rounds": 500}
    return grid(forest, boosting, range(25, 28))


def paper() -> list[Setting]:
    how = {"data": "mnist", "n": 10_000, "n_test": 10_000, "members": 20}
    return grid(how, {**how, "rounds": 2000}, range(25, 28))


def cost(setting: Setting) -> float:
    """Seconds, roughly."""
    trees = setting["members"] * setting.get("rounds", 10)
    return trees * 0.004 * setting["n"] / 1000


# ---- the claims ----------------------------------------------------------------------------------------------------


def _floored(table: list[list[float]], runs: Rows) -> np.ndarray:
    """A table of errors or losses; no error at all counts as half an example."""
    if len(table) < 2:
        raise IncompleteError("full trees are so small that none is smaller")
    return np.maximum(table, 0.5 / runs.one("n_test"))


def descent(runs: Rows) -> float:
    """The error of the largest average of full-size members over the lowest error of one member of any size."""
    errors = _floored(runs.one("test_error"), runs)
    return float(errors[-1, -1] / errors[:, 0].min())


def peak_of_loss(runs: Rows) -> float:
    """The loss of one full-size member over the lowest loss of one smaller member."""
    losses = _floored(runs.one("test_loss"), runs)
    return float(losses[-1, 0] / losses[:-1, 0].min())


def peak_of_error(runs: Rows) -> float:
    errors = _floored(runs.one("test_error"), runs)
    return float(errors[-1, 0] / errors[:-1, 0].min())


def unfolded_peak(runs: Rows) -> float:
    """The loss of an average of full-size members over the lowest loss of as many smaller members."""
    losses = _floored(runs.one("test_loss"), runs)
    return float(losses[-1, -1] / losses[:-1, -1].min())


def fitted(rows: Rows) -> Checked:
    worst = max(table[-1][0] for table in rows.column("train_error"))
    return Checked(worst == 0, f"the largest training error of {len(rows)} runs is {100 * worst:g}%")


CLEAN, NOISY = {"noise": 0.0}, {"noise": NOISE}
TRIAL = "trials with seeds 0 to 3 on digits had"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "second-descent",
        "An average of full-size members errs at most half as often as the best single member of any size.",
        descent,
        at_most(0.5, TIMES),
        BELKIN.at("random forests and L2-boosting"),
        "beyond the threshold, the error of more trees falls below that of every smaller tree (a figure, no numbers)",
        every=("model",),
        where=CLEAN,
        pilot=f"{TRIAL} 0.16 to 0.36 times",
        note="The best size is chosen by the test error itself, which favors the single member. Averages may gain as "
        "much without any peak; peak-of-loss is about the peak.",
    ),
    Claim(
        "peak-of-loss",
        "At the threshold, the squared loss of one member on new examples is at least 5% above that of a smaller one.",
        peak_of_loss,
        at_least(1.05, TIMES),
        BELKIN.at("random forests and L2-boosting"),
        "the squared loss peaks where one tree fits all labels (a figure without numbers, quoted from memory)",
        every=("model",),
        where=CLEAN,
        pilot=f"{TRIAL} 1.09 to 1.18 times",
    ),
    Claim(
        "no-peak-of-error",
        "On true labels, the error has no such peak: one full-size member errs at most 5% more than any smaller one.",
        peak_of_error,
        at_most(1.05, TIMES),
        OURS,
        every=("model",),
        where=CLEAN,
        pilot=f"{TRIAL} 0.96 to 1.01 times",
    ),
    Claim(
        "noise-makes-a-peak",
        "With 20% random labels, one full-size member errs at least 10% more often than the best smaller one.",
        peak_of_error,
        at_least(1.1, TIMES),
        OURS,
        every=("model",),
        where=NOISY,
        pilot=f"{TRIAL} 1.31 to 1.39 times for forests, 1.18 to 1.34 times for boosting",
    ),
    Claim(
        "unfolded",
        "Among averages of equally many members, those of full size have at most 5% more loss than any smaller ones.",
        unfolded_peak,
        at_most(1.05, TIMES),
        CURTH.at("Part 1"),
        "the second descent appears where the axis turns from larger members to more members; no number",
        every=("model",),
        where=CLEAN,
        pilot=f"{TRIAL} 0.89 to 1.01 times",
        note="With 20% random labels, the trials had 1.06 to 1.19 times: a part of the peak remains.",
    ),
    Exact(
        "threshold-fits",
        "Members of full size, with which averaging begins, fit every training label.",
        fitted,
        BELKIN.theorem("definition of the threshold"),
        "training error 0 for a single full-size member in every run",
        "the interpolation threshold is where the training error reaches 0",
    ),
)


EXPERIMENT = Experiment(
    name="tree-descent",
    title="Double descent in forests and boosting",
    about="Grow a tree until it fits every label, then average more and more such trees: Belkin et al. report that the "
    "error peaks at the turn and then falls below that of every smaller tree. Curth et al. reply that the turn itself "
    "makes the peak, because leaves and trees are two axes. This experiment measures both axes, for forests and for "
    "boosting.",
    papers=(BELKIN, CURTH),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=fit_sizes,
)
