"""The lesson of `moons-widths`: one row of a table is one draw, and label noise moves both sides of a correlation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.moons_widths import (
    ARMS,
    FITTED,
    GRID,
    NARROW,
    PUBLISHED,
    TABLE,
    label_noise,
    lipschitz,
    networks,
    over_margin,
    parameters,
    tau,
)
from truerisk.lab.figure import Axis, Exhibit, Figure, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line, Points, Regions
from truerisk.lab.moons_runs import STREAM, fitted, moons
from truerisk.lab.rows import IncompleteError, Row, Rows
from truerisk.lab.units import CORRELATION, PERCENT, POINTS

NUMBERS: dict[str, tuple[Callable[[Row], float], bool]] = {
    "label noise": (label_noise, False),
    "Lipschitz over margin": (over_margin, False),
    "Lipschitz": (lipschitz, False),
    "Lipschitz, same noise": (lipschitz, True),
    "parameters": (parameters, False),
}
WIDTH = Axis("width", "units in each hidden layer", log=True)


def figures(rows: Rows) -> Sequence[Exhibit]:
    runs = rows.converged()
    table = [run for run in runs if run["kind"] == TABLE["kind"]]
    grid = Rows((run for run in runs if run["kind"] == GRID["kind"]), fields=rows.fields)
    return [_widths(table), _taus(grid), _plane(grid), _numbers(table)]


def _widths(table: Sequence[Row]) -> Figure:
    made = [
        {
            "width": run["width"],
            "error": 1 - run["test_accuracy"],
            "arm": run["arm"],
            "seed": run["seed"],
            "n_test": run["n_test"],
        }
        for run in table
        if run["arm"] != ARMS[0]
    ]
    dots = [
        {"width": width, "error": 1 - test / 100, "arm": arm}
        for width, (_, test) in PUBLISHED.items()
        for arm in ARMS[1:]
    ]
    return Figure(
        "widths",
        "Do wide networks err more on thirty points?",
        "Error on new points of networks with two hidden layers against their width, over ten initializations on the "
        "published thirty points, and on new draws of thirty points. Dots are the published table: one initialization, "
        "one draw. If capacity hurt, errors would rise to the right.",
        made,
        WIDTH,
        Axis("error", "error on new points", PERCENT, zero=True, counted_on="n_test"),
        mark=Line(),
        facet="arm",
        dots=dots if made else [],
        dots_title="published",
        claims=("same-table", "narrow-varies", "wide-no-worse", "wide-errs-little"),
    )


def _taus(grid: Rows) -> Figure:
    made = []
    for seed in grid.seeds():
        try:
            found = networks(Rows(run for run in grid if run["seed"] == seed))
        except IncompleteError:
            continue
        made += [
            {"number": name, "tau": tau(found, of, within), "seed": seed} for name, (of, within) in NUMBERS.items()
        ]
    return Figure(
        "taus",
        "What goes with the excess risk?",
        "Kendall's tau with the excess risk, over networks with a training accuracy of at least 90%. The rate of label "
        "noise is known before training. Same noise: only pairs of networks that learned the same labels are compared.",
        made,
        Axis("number", "number", ordinal=True),
        Axis("tau", "Kendall's tau", CORRELATION),
        mark=Bars(),
        claims=("lipschitz-follows", "margin-helps", "count-says-nothing", "noise-says-more", "within-noise"),
    )


def _plane(grid: Rows) -> Figure:
    """All networks of the first seed."""
    first = min(grid.seeds(), default=0)
    made = [
        {"lipschitz": one["lipschitz"], "excess": one["train"] - one["test"], "noise": percent(one["rate"], 0),
         "solver": run["solver"]}
        for run in grid
        if run["seed"] == first
        for one in run["networks"]
        if one["train"] >= FITTED
    ]  # fmt: skip
    return Figure(
        "plane",
        "Lipschitz bound against excess risk",
        "Training minus test accuracy against the product of spectral norms, one dot for each network of one draw of "
        "points. Colors are rates of label noise. Within a color, the relation is weaker than over all of them.",
        made,
        Axis("lipschitz", "product of spectral norms", log=True),
        Axis("excess", "excess risk", POINTS),
        mark=Points(),
        series="noise",
        series_title="random labels",
        facet="solver",
        claims=("lipschitz-follows", "within-noise"),
        group=None,
    )


def _numbers(table: Sequence[Row]) -> Table:
    rows: list[list[Any]] = []
    for width, (train, test) in PUBLISHED.items():
        mine = [run for run in table if run["width"] == width]
        same = [run for run in mine if run["arm"] == ARMS[0]]
        other = [run["test_accuracy"] for run in mine if run["arm"] == ARMS[1]]
        if same and other:
            found = f"{percent(same[0]['train_accuracy'])} / {percent(same[0]['test_accuracy'])}"
            rows.append([width, f"{train}% / {test}%", found, f"{percent(min(other))} to {percent(max(other))}"])
    return Table(
        "table",
        "The published table, once more",
        "Training and test accuracy by width: as published, with the published recipe here, and the range of test "
        "accuracies over ten other initializations on the same thirty points.",
        ["width", "published", "here", "other initializations"],
        rows,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

SIDE, REACH, STARTS = 41, 2.5, 4


def demo(setting: Setting) -> Record:
    """What networks of width 4 answer from four initializations on the published points."""
    train, test = moons(30, 1000, STREAM)
    ticks = np.linspace(-REACH, REACH, SIDE)
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    found = []
    for start in range(STARTS):
        model = fitted(train, [NARROW] * 2, start, solver="lbfgs", alpha=0.0)
        lines = ["".join(map(str, line)) for line in model.predict(places).reshape(SIDE, SIDE)]
        found.append({"lines": lines, "train": model.score(*train), "test": model.score(*test)})
    return {"models": found, "points": train[0].round(3).tolist(), "labels": train[1].tolist()}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("models"):
        return []
    ticks = np.linspace(-REACH, REACH, SIDE).round(3).tolist()
    names = [
        f"{k + 1}: training {percent(m['train'], 0)}, new {percent(m['test'], 0)}"
        for k, m in enumerate(record["models"])
    ]
    places = [
        {"x": x, "y": y, "class": label, "network": name}
        for name, model in zip(names, record["models"], strict=True)
        for y, line in zip(ticks, model["lines"], strict=True)
        for x, label in zip(ticks, line, strict=True)
    ]
    dots = [
        {"x": x, "y": y, "class": str(label), "network": name}
        for name in names
        for (x, y), label in zip(record["points"], record["labels"], strict=True)
    ]
    return [
        Figure(
            "initializations",
            "Four initializations of the narrowest network",
            "Answers of networks with 4 units per layer on the published points, from four initializations, the first "
            "one as published. Accuracies on training and new points are above each panel. Only the initial weights "
            "differ.",
            places,
            Axis("x", "first coordinate"),
            Axis("y", "second coordinate"),
            Regions("class"),
            facet="network",
            dots=dots,
            dots_title="training point",
            claims=("narrow-varies",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="widths",
    findings=(
        Finding(
            ("wide-errs-little", "wide-no-worse"),
            "On the published thirty points, 512 units per layer err on {0.mean} of new ones.",
            "Wide networks on thirty points err more than the published table says.",
            "Whether wide networks on thirty points err as little as published is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Do more shapes and rates of noise change the correlations?", "truerisk lab run moons-widths --scale medium"
        ),
        Question("Does the Lipschitz constant rank networks on other data?", "truerisk lab run predictiveness"),
        Question("Can wide networks be made to err although they fit?", "truerisk lab run good-bad-minima"),
    ),
    formulas=(
        Formula(
            r"\mathrm{Lip}(f) \le \prod_l \| W_l \|_2",
            "The product of the layers' spectral norms bounds how fast the logit of a ReLU network can change.",
        ),
        Formula(
            r"\frac{\prod_l \| W_l \|_2}{\mathrm{median}_i \, y_i f(x_i)}",
            "Over the median signed margin: doubling all outputs then changes nothing.",
        ),
        Formula(
            r"\tau = \frac{C - D}{\sqrt{(P - t_x)(P - t_y)}}",
            "Kendall's tau: concordant minus discordant pairs of networks, over P pairs less those tied in a number.",
        ),
    ),
)
