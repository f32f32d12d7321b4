"""The lesson of `smoothness`: the classical U is the first half of a curve, and smoothness decides how it continues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from truerisk.lab.figure import Axis, Exhibit, Figure, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Points, Slope
from truerisk.lab.rows import Row, Rows
from truerisk.lab.smooth_pictures import NAMES, demo, pictures
from truerisk.lab.smooth_runs import POINTS_ON_CURVE
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT

OLD, NEW = "classical: fewer coefficients than points", "beyond: passes through all points"
TOP = 3.0  # where the hero is cut off: the U would be flat below a whole peak
SIZE = Axis("size", f"coefficients ({POINTS_ON_CURVE} points to fit)", log=True)
ERROR = Axis("error", "test error", PERCENT, zero=True, counted_on="n_test")
SQUARED = Axis("error", "test error (mean square)", log=True)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    """Curves and planes are there at quick scale only, images at every scale."""
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("curve", "neighbors", "plane", "images")}
    of_curves, of_planes, of_images = (_entries(kinds[kind]) for kind in ("curve", "plane", "images"))
    found: list[Exhibit] = [_descent(of_curves) if kinds["curve"] else _waves(of_images, "descent")]
    if kinds["curve"]:
        found += [_norms(of_curves), _roughness(of_curves), _functions(of_curves)]
    found += [_neighbors(kinds["neighbors"])] if kinds["neighbors"] else []
    found += [_lengths(of_planes)] if kinds["plane"] else []
    if kinds["images"]:
        found += [_waves(of_images, "waves")] if kinds["curve"] else []
        found += [_labels(of_images), _changes(of_images)]
    return found


def _entries(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for each function of a run."""
    columns = {"size": "at", "error": "errors", "rough": "roughness", "norm": "norms", "fits": "fits"}
    found = Rows(rows).having(last=lambda row: len(row["at"]) - 1).unrolled(**columns)
    return [
        {**row, "name": NAMES[row["model"]], "ratio": row["size"] / row["n"] if row["size"] else None} for row in found
    ]


def _descent(rows: Sequence[Row]) -> Figure:
    bump = [row for row in rows if row["target"] == "bump" and row["model"] == "smooth"]
    cut = [{**row, "error": min(row["error"], TOP)} for row in bump]
    shown = [{**row, "side": OLD} for row in cut if row["size"] <= row["n"]]
    shown += [{**row, "side": NEW} for row in cut if row["size"] >= row["n"]]
    caption = (
        f"Test error of least-squares polynomials through {POINTS_ON_CURVE} noisy points, against their number of "
        f"coefficients; the peak reaches thousands and is cut off at {TOP:g}. No curve errs less than the noise. Left "
        "is the classical U; right, many polynomials pass through all points, and the smoothest is taken."
    )
    return Figure(
        "descent",
        "Where does the classical picture end?",
        caption,
        shown,
        SIZE,
        SQUARED,
        series="side",
        series_title="polynomials",
        rules=[*_best(bump), *[Rule(row["sd"] ** 2, "noise") for row in bump[:1]]],
        claims=("classical-u", "second-descent", "beyond-wins"),
    )


def _best(rows: Sequence[Row]) -> list[Rule]:
    """The lowest point of the U: of means of logarithms over seeds, as they are drawn."""
    below: dict[int, list[float]] = {}
    for row in rows:
        if row["size"] < row["n"]:
            below.setdefault(row["size"], []).append(math.log(row["error"]))
    means = [math.exp(sum(logs) / len(logs)) for logs in below.values()]
    return [Rule(min(means), "best classical")] if means else []


def _norms(rows: Sequence[Row]) -> Figure:
    caption = (
        "Test error of polynomials through noisy points of two targets. Beyond 15 coefficients, the smallest of two "
        "norms decides which curve is taken: the plain norm measures size only, the smooth norm slopes too. If size of "
        "the class alone mattered, both curves would fall."
    )
    shown = [row for row in rows if row["model"] in ("smooth", "plain")]
    return Figure(
        "norms",
        "Does a larger class help whatever the norm?",
        caption,
        [{**row, "panel": f"target: a {row['target']}"} for row in shown],
        SIZE,
        SQUARED,
        series="name",
        series_title="taken among polynomials",
        facet="panel",
        claims=("norm-must-be-smooth", "beyond-wins", "classical-wins"),
    )


def _roughness(rows: Sequence[Row]) -> Figure:
    caption = (
        "Total variation of curves through the same points, against the number of their weights, from as many weights "
        "as points on. No curve through the points varies less than their broken line (dashed). A larger class "
        "contains smoother curves, but only a suitable norm finds them."
    )
    bump = [row for row in rows if row["target"] == "bump" and row["fits"]]
    lines = [row["rough"] for row in bump if row["model"] == "line"]
    least = [Rule(math.exp(sum(map(math.log, lines)) / len(lines)), "broken line")] if lines else []
    return Figure(
        "roughness",
        "Are curves from larger classes smoother?",
        caption,
        [row for row in bump if row["size"]],
        Axis("size", f"weights ({POINTS_ON_CURVE} points to fit)", log=True),
        Axis("rough", "total variation", log=True),
        series="name",
        series_title="curve",
        rules=least,
        claims=("smoother-in-larger", "norm-must-be-smooth"),
    )


def _functions(rows: Sequence[Row]) -> Figure:
    caption = (
        "Test error against total variation of curves that pass through all points, one for each model, of the largest "
        "size. Nearest neighbor and broken line store the points. If smoothness decided, all points would rise from "
        "left to right."
    )
    x = Axis("rough", "total variation", log=True)
    shown = [{**row, "panel": f"target: a {row['target']}"} for row in _largest(rows)]
    claims = ("smoother-curve", "same-size-curve")
    return _scatter("curves", "Do smoother curves err less?", caption, shown, x, SQUARED, "panel", claims)


def _scatter(
    name: str, title: str, caption: str, rows: Any, x: Axis, y: Axis, facet: str | None, claims: Sequence[str]
) -> Figure:
    """Functions of all seeds as they are."""
    how: dict[str, Any] = {"series": "name", "series_title": "function", "facet": facet, "group": None}
    return Figure(name, title, caption, rows, x, y, Points(), claims=claims, **how)


def _largest(rows: Sequence[Row]) -> list[Row]:
    """The largest function of each run, if it fits all training labels."""
    return [row for i, row in enumerate(rows) if row["fits"] and (i + 1 == len(rows) or _key(rows[i + 1]) != _key(row))]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("kind", "target", "noise", "model", "seed"))


def _neighbors(rows: Sequence[Row]) -> Figure:
    caption = (
        "Error of the nearest neighbor on two noisy spirals, against the number of stored examples. Dashed: the best "
        "possible error (Bayes), the share of inputs at which two independent labels differ, and twice Bayes. Storing "
        "every label, noise included, at most doubles the error in the limit."
    )
    first = rows[0]
    named = (("best possible", first["bayes"]), ("limit", first["limit"]), ("twice the best", 2 * first["bayes"]))
    return Figure(
        "neighbors",
        "How well can a rule do that only stores examples?",
        caption,
        Rows(rows).unrolled(stored="at", error="errors"),
        Axis("stored", "stored examples", log=True),
        Axis("error", "error of the nearest neighbor", PERCENT, zero=True, counted_on="n_test"),
        rules=[Rule(level, name) for name, level in named],
        claims=("neighbor-limit", "at-most-twice"),
    )


def _lengths(rows: Sequence[Row]) -> Figure:
    caption = (
        "Error on new examples of two noisy spirals against the length of the decision boundary; each point is a "
        "classifier that fits all training labels. Short boundaries are smooth. If fitting all labels were all that "
        "mattered, the points would lie at one height."
    )
    title, x = "Do shorter decision boundaries err less?", Axis("rough", "length of the decision boundary", log=True)
    shown, claims = [row for row in rows if row["fits"]], ("smoother-plane", "same-size-plane")
    return _scatter("lengths", title, caption, shown, x, ERROR, None, claims)


def _panel(row: Row) -> str:
    labels = f"{100 * row['noise']:g}% noisy labels" if row["noise"] else "true labels"
    return f"{spell(row['data'].rpartition('/')[2])}, {labels}"


def _waves(rows: Sequence[Row], name: str) -> Figure:
    caption = (
        "Test error of the least-squares solution of smallest norm on random waves, against their number divided by "
        "that of training images. From 1 on, every training label is fitted, noisy ones included. If fitting noise "
        "ruled out learning, the error would not fall again."
    )
    return Figure(
        name,
        "Where does the classical picture end?" if name == "descent" else "Does the error of images fall again, too?",
        caption,
        [{**row, "panel": _panel(row)} for row in rows if row["model"] == "fourier"],
        Axis("ratio", "random waves / training images", log=True),
        ERROR,
        series="panel",
        series_title="training data",
        claims=("error-falls", "norm-falls"),
    )


def _labels(rows: Sequence[Row]) -> Figure:
    caption = (
        "Test error of five classifiers on images, after training on true labels and after random classes replaced "
        "20% of them. All fit every training label. The nearest neighbor repeats each noisy label in a whole "
        "neighborhood; smoother functions confine it."
    )
    shown = [row for row in rows if row["last"] == 0 or row in _largest(rows)]
    return Figure(
        "labels",
        "Who suffers from noisy labels?",
        caption,
        [{**row, "labels": "20% noisy labels" if row["noise"] else "true labels"} for row in shown],
        Axis("labels", "training labels", ordinal=True),
        ERROR,
        Slope(),
        series="name",
        series_title="classifier",
        claims=("smooth-beats-memory",),
    )


def _changes(rows: Sequence[Row]) -> Figure:
    caption = (
        "Test error against the number of times that the answer changes on a straight line from one new image to "
        "another; each point is a classifier that fits all training labels. With noisy labels, rougher classifiers "
        "err more; with true ones, compare the methods near the left end."
    )
    title, x = "Do smoother classifiers of images err less?", Axis("rough", "changes of the answer along a line")
    shown = [{**row, "panel": _panel(row)} for row in rows if row["fits"]]
    return _scatter("changes", title, caption, shown, x, ERROR, "panel", ("smoother-images", "same-size-images"))


LESSON = Lesson(
    figures=figures,
    hero="descent",
    findings=(
        Finding(
            ("second-descent", "beyond-wins"),
            "For a bump, interpolation beyond the classical U has {1.mean} its best error.",
            "Not as published: for a bump, interpolation has {1.mean} the best classical error.",
            "Whether interpolation of a bump beats the best classical fit is not settled.",
        ),
        Finding(
            ("error-falls",),
            "With as many random waves as images, the error is {0.mean} that with the most.",
            "Beyond as many random waves as images, the test error does not halve.",
            "Whether the test error falls beyond as many waves as images is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "How large is the share of an error that smoothness leaves open: do kernels differ on the same images?",
            "truerisk lab run kernel-interpolation",
        ),
        Question(
            "A memorizer can also be a network. How does it fail on new images?",
            "truerisk lab run memorizer",
        ),
        Question(
            "Do the nearest neighbor and smooth functions differ as much on your own data?",
            "truerisk lab run smoothness --data mnist1d",
        ),
    ),
    formulas=(
        Formula(
            r"\|\hat{f}\| = \min \{ \|f\| : f \in F_N, \; f(x_i) = y_i \}",
            "Of all functions of a class of size N that fit every example, the one of smallest norm is taken. A larger "
            "class leaves more to choose from.",
        ),
        Formula(
            r"\|f\|^2 = \int_{-1}^{1} f(x)^2 + (1 - x^2) \, f'(x)^2 \, dx",
            "The smooth norm of a curve counts slopes. The plain norm leaves the second term out.",
        ),
        Formula(
            r"R^* \le E[2 \eta(x) (1 - \eta(x))] \le 2 R^* (1 - R^*)",
            "In the limit, the nearest neighbor errs where two independent labels of one input differ; eta is the "
            "probability of class 1. This lies between the Bayes risk and twice the Bayes risk.",
        ),
    ),
)
