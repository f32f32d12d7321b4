"""The lesson of `averaging`: members that fit every label disagree between the examples, and averaging repairs that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import corrupt_labels
from truerisk.data.toy import generate_toy
from truerisk.lab.averages import boosted
from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.averaging import NOISE
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Histogram, Line, Regions
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PERCENT
from truerisk.nets.perfect_trees import perfect_trees
from truerisk.nets.votes import running_shares, voting_margins
from truerisk.seeds import derive

NAMES = {
    "pert": "perfect random trees",
    "bagging": "bagged trees",
    "boosting": "boosted trees",
    "dropout": "dropout masks",
    "snapshots": "snapshots",
}
LABELS = {0.0: "true labels", NOISE: f"{100 * NOISE:.0f}% random labels"}
ERROR = Axis("error", "error on new examples", PERCENT, zero=True, counted_on="n_test")

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = rows.converged().having(name=lambda row: NAMES[row["family"]], labels=_labels)
    boosting, dropout, cycles = (named.where(family=family) for family in ("boosting", "dropout", "snapshots"))
    return [_hero(named), _rounds(boosting), _margins(boosting), _snapshots(cycles), _dropout(dropout)]


def _labels(row: Row) -> str:
    return LABELS.get(row["noise"], f"{100 * row['noise']:g}% random labels")


def _hero(rows: Rows) -> Figure:
    return Figure(
        "members",
        "How does the error fall with the number of members in an average?",
        "Error on new examples against the number of trees or networks in the average, with true and with partly "
        "random training labels. Each perfect random tree fits every training label, and so does their average. If "
        "fitting every label were harmful, averages would err as often as single members.",
        rows.unrolled(count="at", error="test_errors"),
        Axis("count", "members in the average", log=True),
        Axis("error", "error on new examples", PERCENT, log=True, counted_on="n_test"),
        mark=Line(),
        series="name",
        series_title="members",
        facet="labels",
        claims=("pert-tenth", "pert-noise", "pert-fits", "bagging-half", "dropout-average", "snapshots-last"),
    )


def _rounds(rows: Rows) -> Figure:
    longer = rows.longer("errors", {"training": "train_errors", "new examples": "test_errors"}, into="on")
    longer = longer.having(counted=lambda row: row["n"] if row["on"] == "training" else row["n_test"])
    return Figure(
        "rounds",
        "Does boosting improve after its training error has reached 0?",
        "Error of AdaBoost on training and on new examples against rounds of boosting. Where the training curve "
        "touches 0, every label is fitted, including random ones. If a perfect fit were the end of learning, the other "
        "curve would be flat from there on.",
        longer.unrolled(count="at", error="errors"),
        Axis("count", "rounds of boosting", log=True),
        Axis("error", "error", PERCENT, zero=True, counted_on="counted"),
        mark=Line(),
        series="on",
        series_title="error on",
        facet="labels",
        claims=("boosting-falls", "boosting-noise"),
    )


def _margins(rows: Rows) -> Figure:
    names = {"smallest": "smallest_margins", "10th percentile": "low_margins"}
    return Figure(
        "margin-growth",
        "What does boosting change when no training error is left?",
        "Margins of the training examples (the share of the vote for the given label, minus that for the next class) "
        "against rounds of boosting: the smallest one, and the 10th percentile. Above 0 an example is fitted. Margins "
        "that keep growing mean that votes become clearer.",
        rows.longer("values", names, into="which").unrolled(count="at", margin="values"),
        Axis("count", "rounds of boosting", log=True),
        Axis("margin", "margin"),
        mark=Line(),
        series="which",
        series_title="margin",
        facet="labels",
        rules=[Rule(0.0, "fitted above")],
        claims=("margins-grow",),
    )


def _snapshots(rows: Rows) -> Figure:
    made = rows.having(
        first=lambda row: row["cycle_errors"][0],
        last=lambda row: row["cycle_errors"][-1],
        average=lambda row: row["test_errors"][-1],
    )
    names = {"first snapshot": "first", "last snapshot": "last", "average": "average", "one long run": "one_run_error"}
    return Figure(
        "snapshots",
        "Is an average of snapshots better than one long run?",
        "Error on new examples of the first and the last snapshot, of the average of all, and of one long run with as "
        "many epochs. With random labels the first snapshot stops before it fits them, so a low average can come from "
        "early stopping as much as from averaging.",
        made.longer("error", names, into="which"),
        Axis("which", "network", ordinal=True),
        ERROR,
        mark=Bars(),
        series="labels",
        series_title="training labels",
        claims=("snapshots-last", "snapshots-run", "snapshots-noise"),
    )


def _dropout(rows: Rows) -> Figure:
    made = rows.having(one=lambda row: row["test_errors"][0], average=lambda row: row["test_errors"][-1])
    names = {"one mask": "one", "average of masks": "average", "scaled weights": "scaled_error"}
    return Figure(
        "dropout",
        "Is dropout an average of networks?",
        "Error on new examples of a network with one random dropout mask, of the average over many masks, and of the "
        "usual single pass with scaled weights. If scaling stands in for the average, the last two are equal.",
        made.longer("error", names, into="which"),
        Axis("which", "network", ordinal=True),
        ERROR,
        mark=Bars(),
        series="labels",
        series_title="training labels",
        claims=("dropout-average", "weight-scaling"),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

POINTS, SPREAD, TICKS, VOTES = 80, 0.3, 80, (1, 5, 20, 100)  # moons: examples, their noise, grid, trees
MOST, ROUNDS = 600, (1, 2, 3, 5, 10, 20, 50, 100)  # margins: training examples and rounds
FRAME = ((-1.9, 2.9), (-1.4, 1.9))


def demo(setting: Setting) -> dict[str, Any]:
    """Regions of perfect random trees in a plane, and margins of boosted trees by round."""
    return {"plane": _plane(derive(setting["seed"], "demo plane")), "margins": _boost(setting)}


def _plane(seed: int) -> dict[str, Any]:
    data = generate_toy("moons", POINTS, seed % 2**32, noise=SPREAD)
    xs, ys = (np.linspace(low, high, TICKS).round(3) for low, high in FRAME)
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    labels = perfect_trees(data.X, data.y, VOTES[-1], seed, classes=2).labels(grid)
    shares = running_shares(labels, 2, VOTES)
    regions = {str(k): "".join(map(str, share.argmax(axis=1))) for k, share in zip(VOTES, shares, strict=True)}
    points = [[*map(float, place), int(label)] for place, label in zip(data.X.round(3), data.y, strict=True)]
    return {"x": xs.tolist(), "y": ys.tolist(), "regions": regions, "points": points}


def _boost(setting: Setting) -> dict[str, list[float]]:
    s, n = setting, min(setting["n"], MOST)
    train, _ = samples(s["data"], n, 1, derive(s["seed"], "demo examples"), s.get("data_sha256"))
    train = corrupt_labels(train, NOISE, derive(s["seed"], "demo noise"))
    X = train.X.reshape(len(train), -1)
    trees, weights = boosted(X, train.y, ROUNDS[-1], 8, derive(s["seed"], "demo boosting"))
    at = [k for k in ROUNDS if k <= len(trees)]
    shares = running_shares(np.array([tree.predict(X) for tree in trees]), train.classes, at, weights)
    return {str(k): voting_margins(share, train.y).round(3).tolist() for k, share in zip(at, shares, strict=True)}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    found: list[Exhibit] = [_regions(record["plane"])] if record.get("plane") else []
    return [*found, _histogram(record["margins"])] if record.get("margins") else found


def _regions(plane: dict[str, Any]) -> Figure:
    places = [(x, y) for y in plane["y"] for x in plane["x"]]
    squares = [
        {"x": x, "y": y, "class": f"class {label}", "trees": int(k)}
        for k, labels in plane["regions"].items()
        for (x, y), label in zip(places, labels, strict=True)
    ]
    return Figure(
        "regions",
        "What does averaging change between the training points?",
        "Classes that perfect random trees give to each point of a plane; move the slider to let more trees vote. One "
        "tree fits all training points (dots), some in boxes too small to see, with a jagged boundary. With more trees "
        "the dots are still fitted, and the boundary between them becomes smoother.",
        squares,
        Axis("x", "x\u2081"),
        Axis("y", "x\u2082"),
        Regions("class"),
        slider=Axis("trees", "trees that vote"),
        dots=[{"x": x, "y": y, "class": f"class {label}"} for x, y, label in plane["points"]],
        dots_title="training points",
        claims=("pert-fits",),
    )


def _histogram(margins: dict[str, list[float]]) -> Figure:
    return Figure(
        "margins",
        "How do the margins move while boosting continues?",
        "Training examples, of which 20% have a random label, counted by their margin; move the slider through the "
        "rounds of boosting. Examples left of 0 are misclassified by the vote. Follow the left end after the last of "
        "them has crossed 0.",
        [{"round": int(k), "margin": margin} for k, values in margins.items() for margin in values],
        Axis("margin", "margin"),
        Axis("count", "training examples", PERCENT),
        Histogram(40),
        slider=Axis("round", "rounds of boosting"),
        group=None,
        claims=("margins-grow", "boosting-noise"),
    )


LESSON = Lesson(
    figures=figures,
    hero="members",
    findings=(
        Finding(
            ("pert-tenth",),
            "Averaged, 100 trees that fit every label err {0.mean} as often as one.",
            "Averaged, 100 trees that fit every label still err {0.mean} as often as one.",
            "Averaged, 100 trees that fit every label err about {0.mean} as often as one.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Is a tenth of the error special to digits, or does MNIST give the same?",
            "truerisk lab run averaging --scale medium",
        ),
        Question(
            "Two classes in a plane leave little to disagree about. How much does averaging help there?",
            "truerisk lab run averaging --data moons",
        ),
        Question(
            "If larger trees and more trees share one axis, is there a double descent?",
            "truerisk lab run tree-descent",
        ),
    ),
    formulas=(
        Formula(
            r"t = \alpha \, x_{if} + (1 - \alpha) \, x_{jf}, \quad y_i \neq y_j, \quad \alpha \sim U(0, 1)",
            "A perfect random tree splits a node between two random examples of different classes, in a random "
            "feature, until all its leaves are pure.",
        ),
        Formula(
            r"m(x, y) = \frac{1}{\sum_t a_t} ( \sum_{t: h_t(x) = y} a_t - \max_{y' \neq y} \sum_{t: h_t(x) = y'} a_t )",
            "The margin of an example is the share of the weighted vote for its label, minus that for the next class.",
        ),
        Formula(
            r"a(t) = \frac{a_0}{2} ( \cos ( \pi \, t / T ) + 1 )",
            "In each cycle of T steps the learning rate falls from its peak to 0; a snapshot is taken, and it starts "
            "again.",
        ),
    ),
)
