"""The lesson of `memorizer`: a broken line through the labels, and why it says nothing about new images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import Data
from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.memorizer import CLASSES, FLAT, LENGTHS
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Tile
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Slope
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT
from truerisk.measures.moves import nearest
from truerisk.nets.memorizer import memorize, outputs, project
from truerisk.seeds import derive

WHO: dict[str, Any] = {"series": "who", "series_title": "classifier"}
STATES = {"training examples": "train_error", "new examples": "test_error"}
CHANCE = Rule(0.9, "chance")
SIZE = Axis("n", "number of training points", log=True)
ERROR = Axis("test_error", "error on new examples", PERCENT, zero=True, counted_on="n_test")

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    return [_hero(rows), _sizes(rows), _moves(rows), _depth(rows), _rounding(rows)]


def _chosen(rows: Rows, **fields: Any) -> Rows:
    """Rows with these values; none where no run has been finished."""
    return rows.where(**fields) if len(rows) else rows


def _hero(rows: Rows) -> Figure:
    """Errors on training and on new examples, of the sample that claims read, for the easiest data of the scale."""
    true = _chosen(rows, **FLAT, part="claims", labels="true")
    data = next((name for name in ("digits", "mnist", *true.values("data")) if name in true.values("data")), "")
    same = Rows(row for row in true if row["data"] == data)
    same = same.having(neighbor_train_error=lambda _: 0.0)  # each example is its own nearest neighbor
    states = [{**row, "on": on} for on, own in STATES.items() for row in _both(same, "error", own)]
    caption = (
        f"Errors on training and on new examples of {spell(data)}, for the constructed network (memorizer) and for the "
        "nearest neighbor, both built from the same true labels. Chance is 90%. Both fit every training label, so a "
        "training error of zero cannot show which of the two has learned."
    )
    return Figure(
        "fit-and-learn",
        "Both fit every training label. Which one has learned?",
        caption,
        states,
        Axis("on", "measured on", ordinal=True),
        Axis("error", "error", PERCENT, zero=True, counted_on="n_test"),
        mark=Slope(),
        rules=[CHANCE],
        claims=("training-accuracy", "no-learning", "neighbor-learns"),
        **WHO,
    )


def _both(rows: Rows, value: str, own: str) -> Rows:
    """A field of the constructed network and of the nearest neighbor, one below the other."""
    return rows.longer(value, {"memorizer": own, "nearest neighbor": f"neighbor_{own}"}, into="who")


def _sizes(rows: Rows) -> Figure:
    true = _chosen(rows, **FLAT, labels="true").having(case=lambda row: spell(row["data"]))
    caption = (
        "Error on new examples against the number of training points with true labels. Both classifiers fit all of "
        "these points. If more examples turned fitting into learning, both curves would fall."
    )
    title, shown = "Do more examples help?", _both(true, "test_error", "test_error")
    return Figure("sizes", title, caption, shown, SIZE, ERROR, facet="case", rules=[CHANCE], **WHO)


def _moves(rows: Rows) -> Figure:
    random = _chosen(rows, **FLAT, part="claims", labels="random")
    shown = random.having(lengths=lambda _: LENGTHS, case=lambda row: spell(row["data"]))
    moved = shown.unrolled(length="lengths", own="kept", neighbor_own="neighbor_kept")
    caption = (
        "Share of training points with random labels that keep their label after a move in a random direction. One "
        "unit of length is the median distance to the nearest other point. If the memorizer used the geometry of "
        "the inputs, its curve would fall where that of the nearest neighbor does."
    )
    x, y = Axis("length", "length of the move", log=True), Axis("kept", "label kept", PERCENT, zero=True)
    title = "How far can an input move before its label changes?"
    return Figure("moves", title, caption, _both(moved, "kept", "own"), x, y, Line(points=False), facet="case", **WHO)


def _depth(rows: Rows) -> Figure:
    deep = [row for row in rows if row["part"] == "depth"]
    data = {row["data"] for row in deep}
    flat = [row for row in _chosen(rows, **FLAT, part="claims", labels="random") if row["data"] in data]
    caption = (
        "Units in the widest layer of networks that fit the same random labels exactly, against the number k of hidden "
        "layers. The corollary states width O(n/k); the networks here have about n/(k \u2212 1), nearly a straight "
        "line on these axes. Many narrow layers memorize as well as one wide layer."
    )
    x, y = Axis("layers", "hidden layers k", log=True), Axis("width", "units in the widest layer", log=True)
    return Figure("depth", "How wide must a memorizer be?", caption, flat + deep, x, y, claims=("depth",))


def _rounding(rows: Rows) -> Figure:
    names = {
        ("float64", "points"): "double precision",
        ("float64", "middle"): "double, middle kinks",
        ("float32", "points"): "single precision",
    }
    some = _chosen(rows, layers=1, labels="random")
    data = max(some.values("data"), key=lambda name: max(some.where(data=name).values("n")), default="")
    some = Rows(row for row in some if row["data"] == data and row["max_error"] > 0)
    caption = (
        f"Largest difference between outputs and random labels (0 to 9) on the network's own sample of {spell(data)}. "
        "In exact arithmetic it is zero; above the line labels come out wrong. Steep slopes need many digits, and "
        "more of them if kinks lie midway between points rather than on them."
    )
    return Figure(
        "rounding",
        "How exactly are random labels fitted?",
        caption,
        some.having(how=lambda row: names[row["precision"], row["kinks"]]),
        SIZE,
        Axis("max_error", "largest error of an output", log=True),
        series="how",
        series_title="arithmetic",
        rules=[Rule(0.5, "labels come out wrong")],
        claims=("fits-any-labels", "rounding"),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

SIZES = (8, 16, 32, 64)  # points on the broken line
STORED, NEW = 500, 10  # images that the network of the strips memorizes, and new ones shown to it
DIRECTIONS = 64  # among which the best is chosen, as in the runs
OUTPUT = "memorizer"


def demo(setting: Setting) -> dict[str, Any]:
    """Broken lines through a few labels, and a few new images with their neighbors on the line and in all pixels."""
    stored, new = samples(setting["data"], STORED, NEW, setting["seed"])
    seed = derive(setting["seed"], "demo directions")
    lines = [point for n in SIZES for point in _line(stored.take(np.arange(n)), new, seed)]
    return {"lines": lines, "strips": _neighbors(stored, new, seed)}


def _line(points: Data, new: Data, seed: int) -> list[dict[str, Any]]:
    """The network's output at its kinks, and labels; training points reach from place 0 to place 1."""
    labels = points.y.astype(np.float64)
    net, found = memorize(points.X, labels, seed), project(points.X, labels, seed, DIRECTIONS)
    kinks = np.concatenate([net.b.detach().numpy()[:1], found.z])
    parts = {
        OUTPUT: (kinks, outputs(net, kinks[:, None] * found.direction)),
        "training images": (found.z, found.y),
        "new images": (_flat(new) @ found.direction, new.y),
    }
    return [
        {"n": len(points), "what": what, "place": float(place), "label": float(label)}
        for what, (places, values) in parts.items()
        for place, label in zip((places - found.z[0]) / (found.z[-1] - found.z[0]), values, strict=True)
        if what != "new images" or 0 <= place <= 1
    ]


def _flat(data: Data) -> np.ndarray:
    return data.X.reshape(len(data), -1).astype(np.float64)


def _neighbors(stored: Data, new: Data, seed: int) -> list[dict[str, Any]]:
    """For each new image: the stored ones next to it on the direction, and the nearest one in all dimensions."""
    if len(stored.input_shape) < 2:
        return []
    labels = stored.y.astype(np.float64)
    net = memorize(stored.X, labels, seed)
    direction = net.a.detach().numpy()
    along, there = (_flat(part) @ direction for part in (stored, new))
    order = np.argsort(along)
    right = np.searchsorted(along[order], there).clip(1, len(order) - 1)
    says = np.clip(np.round(outputs(net, new.X)), 0, CLASSES - 1).astype(int)
    beside = nearest(new.X, stored.X)

    def tile(part: Data, i: int) -> dict[str, Any]:
        return {"pixels": pixels(part.X[i]), "label": int(part.y[i])}

    return [
        {
            "new": tile(new, i),
            "before": tile(stored, order[right[i] - 1]),
            "after": tile(stored, order[right[i]]),
            "nearest": tile(stored, beside[i]),
            "says": int(says[i]),
        }
        for i in range(len(new))
    ]


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    found: list[Exhibit] = [_broken(record["lines"])] if record.get("lines") else []
    return [*found, _images(record["strips"])] if record.get("strips") else found


def _broken(points: list[dict[str, Any]]) -> Figure:
    caption = (
        "Output of the memorizer along the one direction that it uses, from its first to its last training image; dots "
        "are images with their labels. Each training image adds one ReLU unit, a change of slope. With more of "
        "these units the line swings ever faster, and new images lie on it only by accident."
    )
    return Figure(
        "broken-line",
        "The memorizer is a broken line through its labels",
        caption,
        [point for point in points if point["what"] == OUTPUT],
        Axis("place", "position along the direction"),
        Axis("label", "output, or label"),
        mark=Line(points=False),
        series="what",
        series_title="shown",
        slider=Axis("n", "training images"),
        claims=("fits-any-labels", "weights"),
        dots=[point for point in points if point["what"] != OUTPUT],
    )


def _images(strips: list[dict[str, Any]]) -> Images:
    def row(label: str, part: str) -> Strip:
        found = [(one[part]["pixels"], one[part]["label"], one["new"]["label"]) for one in strips]
        return Strip(label, [Tile(image, str(own), own != true) for image, own, true in found])

    answers = [Tile(one["new"]["pixels"], str(one["says"]), one["says"] != one["new"]["label"]) for one in strips]
    caption = (
        "Ten new images, their neighbors among 500 stored ones, and the memorizer's answer. Images that lie next to "
        "each other on one random direction have little in common, and the memorizer draws its line between them. The "
        "nearest neighbor compares whole images."
    )
    rows = [
        row("new image", "new"),
        row("next on the line, left", "before"),
        row("next on the line, right", "after"),
        Strip("memorizer says", answers),
        row("nearest in all pixels", "nearest"),
    ]
    return Images("neighbors", "Why the memorizer fails on new images", caption, rows, claims=("no-learning",))


LESSON = Lesson(
    figures=figures,
    hero="fit-and-learn",
    findings=(
        Finding(
            ("no-learning",),
            "A network that fits all labels by construction misses {0.mean} of new digits.",
            "A network built only to memorize misses just {0.mean} of new digits.",
            "The memorizer misses {0.low} to {0.high} of new digits: too uncertain to judge.",
        ),
        Finding(
            ("training-accuracy",),
            "A network with 2n + d weights fits any labels of n examples.",
            "The network with 2n + d weights did not fit all of its labels.",
            "Whether 2n + d weights fit any labels of n examples is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "The memorizer is built. Does training also fit random labels, and does it take longer than for true ones?",
            "truerisk lab run random-labels",
        ),
        Question(
            "Does the memorizer stay near chance with 10,000 images of MNIST or CIFAR-10?",
            "truerisk lab run memorizer --scale medium",
        ),
        Question(
            "A training error of zero proves nothing. What does a certificate promise for a trained network?",
            "truerisk certify --data digits",
        ),
    ),
    formulas=(
        Formula(
            r"c(x) = \sum_{j=1}^{n} w_j \max(\langle a, x \rangle - b_j, 0)",
            "The memorizer: one direction a for all inputs (d weights), n kinks b, and n changes of slope w.",
        ),
        Formula(
            r"w = A^{-1} y, \quad A_{ij} = \max(z_i - b_j, 0)",
            "With a kink before each projected point z, the matrix A is lower triangular with a positive diagonal, so "
            "weights w exist for any labels y.",
        ),
    ),
)
