"""The lesson of `tree-descent`: a peak at the corner of two axes, and what is left of it when they are separated."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.tree_descent import NOISE
from truerisk.lab.figure import Axis, Exhibit, Figure
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import PERCENT
from truerisk.seeds import derive

NAMES = {"forest": "trees, then forests", "boosting": "boosting, then averages"}
LABELS = {0.0: "true labels", NOISE: f"{100 * NOISE:.0f}% random labels"}
TOTAL = Axis("total", "leaves in all", log=True)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    cells = [row for _, some in rows.groups("model", "noise") for row in _unfolded(some)]
    return [_hero(cells), _errors(cells), _sizes(cells)]


def _unfolded(runs: Rows) -> list[dict[str, Any]]:
    """One row for each size and each number of members, of runs of one model at one noise.

    Full trees differ in size from run to run; all runs get their mean, so that means over seeds can be taken.
    """
    full = fmean(run["sizes"][-1] for run in runs) if len(runs) else 0.0
    found = []
    for run in runs:
        kept = {name: run[name] for name in ("seed", "n", "n_test", "noise")}
        kept |= {"model": NAMES[run["model"]], "labels": _labels(run)}
        for i, size in enumerate(run["sizes"]):
            size, is_full = (full, True) if i == len(run["sizes"]) - 1 else (round(size), False)
            for j, count in enumerate(run["counts"]):
                names = ("train_loss", "test_loss", "train_error", "test_error")
                numbers = {name: run[name][i][j] for name in names}
                on_axis = count == 1 or is_full  # the axis of Belkin et al.: larger members first, then more
                place = {"size": size, "count": count, "total": size * count, "full": is_full, "on_axis": on_axis}
                found.append({**kept, **place, **numbers})
    return found


def _labels(row: Row) -> str:
    return LABELS.get(row["noise"], f"{100 * row['noise']:g}% random labels")


def _thresholds(rows: Sequence[dict[str, Any]], value: str, *fields: str) -> list[dict[str, Any]]:
    """Where one member fits every label: the mean over runs, for each combination of these fields."""
    groups = Rows(row for row in rows if row["full"] and row["count"] == 1).groups(*fields)
    return [
        {**dict(zip(fields, key, strict=True)), "total": some.present[0]["total"], "value": some.mean(value)}
        for key, some in groups
    ]


def _hero(rows: Sequence[dict[str, Any]]) -> Figure:
    axis = Rows(row for row in rows if row["on_axis"] and row["noise"] == 0)
    names = {"new examples": "test_loss", "training examples": "train_loss"}
    return Figure(
        "descent",
        "What happens beyond the point where every label is fitted?",
        "Squared loss against the number of leaves in all, on true labels. Left of the dot one tree (or one boosted "
        "ensemble) grows until it fits every label; right of it, more of that size are averaged. If capacity were "
        "harmful, the curve for new examples would keep rising.",
        axis.longer("value", names, into="on"),
        TOTAL,
        Axis("value", "squared loss", zero=True),
        mark=Line(),
        series="on",
        series_title="loss on",
        facet="model",
        dots=_thresholds(axis.present, "test_loss", "model"),
        dots_title="every label fitted",
        claims=("second-descent", "peak-of-loss", "threshold-fits"),
    )


def _errors(rows: Sequence[dict[str, Any]]) -> Figure:
    axis = [row for row in rows if row["on_axis"]]
    return Figure(
        "errors",
        "Does the error have the same peak as the loss?",
        "Share of new examples that are misclassified, against the number of leaves in all, for true and for partly "
        "random training labels. Dots mark where one member fits every label. A peak that appears only with random "
        "labels means that a perfect fit is harmful where labels are wrong.",
        [{**row, "value": row["test_error"]} for row in axis],
        TOTAL,
        Axis("value", "error on new examples", PERCENT, zero=True, counted_on="n_test"),
        mark=Line(),
        series="labels",
        series_title="training labels",
        facet="model",
        dots=_thresholds(axis, "test_error", "model", "labels"),
        dots_title="every label fitted",
        claims=("no-peak-of-error", "noise-makes-a-peak"),
    )


def _sizes(rows: Sequence[dict[str, Any]]) -> Figure:
    return Figure(
        "unfolded",
        "Is there a peak when the number of members stays the same?",
        "Squared loss on new examples against the leaves of one member, one curve for each number of members in the "
        "average. The last point of each curve fits every label. If capacity alone made the peak, all curves would "
        "have it; if the variance of single members makes it, it fades as members are added.",
        rows,
        Axis("size", "leaves of each member", log=True),
        Axis("test_loss", "squared loss on new examples", zero=True),
        mark=Line(),
        series="count",
        series_title="members",
        facet="model",
        slider=Axis("labels", "training labels"),
        claims=("unfolded",),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

POINTS, SPREAD, TICKS = 40, 0.3, 241
STEPS = ((1, 3), (1, 8), (1, 20), (1, POINTS), (3, POINTS), (10, POINTS), (100, POINTS))  # trees, leaves


def demo(setting: Setting) -> dict[str, Any]:
    """Trees through noisy points of a curve: first more leaves, then more trees."""
    from sklearn.tree import ExtraTreeRegressor

    rng = np.random.default_rng(derive(setting["seed"], "demo points"))
    x = np.sort(rng.random(POINTS))
    y, grid = _curve(x) + SPREAD * rng.standard_normal(POINTS), np.linspace(0, 1, TICKS)
    fits = []
    for trees, leaves in STEPS:
        seeds = [derive(setting["seed"], "demo tree", k) % 2**32 for k in range(trees)]
        grown = [ExtraTreeRegressor(max_leaf_nodes=leaves, random_state=seed).fit(x[:, None], y) for seed in seeds]
        values = np.mean([tree.predict(grid[:, None]) for tree in grown], axis=0)
        fits.append({"trees": trees, "leaves": leaves, "values": values.round(4).tolist()})
    points = np.column_stack([x, y]).round(4).tolist()
    return {"grid": grid.round(4).tolist(), "truth": _curve(grid).round(4).tolist(), "fits": fits, "points": points}


def _curve(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(2 * np.pi * x))


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    if not record.get("fits"):
        return []
    lines = []
    for fit in record["fits"]:
        trees = "1 tree" if fit["trees"] == 1 else f"{fit['trees']} trees"
        for name, values in (("fit", fit["values"]), ("true curve", record["truth"])):
            places = zip(record["grid"], values, strict=True)
            lines += [{"x": x, "y": y, "line": name, "step": f"{trees} of {fit['leaves']} leaves"} for x, y in places]
    return [
        Figure(
            "curve",
            "The same axis in one dimension",
            f"Trees with random split points through {POINTS} noisy points of a curve; move the slider for more "
            f"leaves, then for more trees. One tree of {POINTS} leaves hits every point, noise included. An average of "
            "such trees hits them too, but runs from point to point in slopes instead of jumps.",
            lines,
            Axis("x", "x"),
            Axis("y", "y"),
            mark=Line(points=False),
            series="line",
            series_title="line",
            slider=Axis("step", "trees"),
            dots=[{"x": x, "y": y} for x, y in record["points"]],
            dots_title="training points",
            group=None,
            claims=("second-descent", "unfolded"),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="descent",
    findings=(
        Finding(
            ("second-descent", "peak-of-loss"),
            "After a peak in loss, averaging descends to {0.mean} the best single error.",
            "Not as published: descent to {0.mean} the best single error, peak of {1.mean}.",
            "Still open: descent to {0.mean} the best single error, peak of {1.mean}.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does the peak of the loss lie at the same place with 10,000 images of MNIST?",
            "truerisk lab run tree-descent --scale medium",
        ),
        Question(
            "Is averaging as powerful for other members that fit every label?",
            "truerisk lab run averaging",
        ),
        Question(
            "Least squares has a peak with a single kind of model. What makes that peak?",
            "truerisk lab run convex-regularization",
        ),
    ),
    formulas=(
        Formula(
            r"| \bar{f} - y |^2 = \frac{1}{T} \sum_t | f_t - y |^2 - \frac{1}{T} \sum_t | f_t - \bar{f} |^2",
            "The squared loss of an average is the mean loss of its members minus their spread: members that fit every "
            "label agree on the training examples, so only new examples gain.",
        ),
        Formula(
            r"f_m = f_{m-1} + 0.85 \, t_m, \quad t_m \approx y - f_{m-1}",
            "Each round of L2-boosting fits a tree of 10 leaves to the residuals and adds 0.85 times that tree.",
        ),
    ),
)
