"""The lesson of `takeaways`: one page of advice, with what each piece gains and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.takeaways import ADVICE, FREE
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Table, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.interval import interval
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line, Points
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.takeaway_runs import shifted
from truerisk.lab.units import PERCENT, POINTS
from truerisk.seeds import derive, seeded_globals

NAMES = {
    "shift": "shifts",
    "small-batches": "small batches",
    "large-rate": "large rate",
    "robust": "Adam",
    "decay": "weight decay",
    "decoupled": "AdamW, not L2",
    "anneal": "annealing",
    "stop": "early stopping",
    "augment": "shifts, 4x epochs",
    "dropout": "dropout, 4x epochs",
    "wide": "4x units",
    "longer": "4x epochs",
}
CHANGES = {
    "skips": "8 layers with skips and batch norm, not without",
    "shift": "random shifts of the inputs",
    "small-batches": "batches of 20, not 500",
    "large-rate": "ten times the rate",
    "robust": "Adam, not SGD, on badly scaled features",
    "decay": "AdamW with weight decay, not without",
    "decoupled": "AdamW, not Adam with L2",
    "anneal": "the rate falls to 0, not constant",
    "stop": "stops at the lowest validation error (on 20% of the training set)",
    "augment": "random shifts and four times the epochs",
    "dropout": "20% dropout and four times the epochs",
    "wide": "256 units in each layer, not 64",
    "longer": "four times the epochs",
    "narrow": "8 units in each layer, not 64",
    "noise": "80% dropout",
}
ALONE, DOUBLED = "no extra time: the gain alone", "gain per doubling of the training time"
RECIPES = {
    "baseline": "baseline",
    "narrow": "8 units",
    "noise": "80% dropout",
    "deep": "8 layers",
    "skips": "8 layers, skips",
}

UNTRAINED = ("narrow", "noise", "deep")

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    paired = _paired(rows)
    return [_hero(paired), _table(paired), _stuck(rows), _everything(rows.converged())]


def _paired(rows: Rows) -> list[dict[str, Any]]:
    """A row for each piece of advice and seed, where recipe and control are both there."""
    found = []
    runs = {(row["recipe"], row["seed"]): row for row in rows.converged()}
    for advice, (recipe, control) in ADVICE.items():
        for (name, seed), row in runs.items():
            other = runs.get((control, seed))
            if name == recipe and other is not None:
                found.append({"advice": advice, "seed": seed, "n_test": row["n_test"], **_compared(row, other)})
    return found


def _compared(recipe: Row, control: Row) -> dict[str, Any]:
    gain, times = control["test_error"] - recipe["test_error"], recipe["cost"] / control["cost"]
    doubled = times >= FREE
    return {
        "gain": gain,
        "times": times,
        "value": gain / math.log2(times) if doubled else gain,
        "kind": DOUBLED if doubled else ALONE,
        "errors": (control["test_error"], recipe["test_error"]),
    }


def _hero(paired: list[dict[str, Any]]) -> Figure:
    named = [{**row, "name": NAMES[row["advice"]]} for name in NAMES for row in paired if row["advice"] == name]
    return Figure(
        "worth",
        "How many points of test error does each piece of advice gain?",
        "Points of test error gained by each piece of advice; below 0 it does harm. Where it takes longer than its "
        "control, the gain is divided by the number of doublings of the training time, counted in operations. Skips "
        "and batch norm, without which a deep network may not train at all, are in a figure below.",
        named,
        Axis("name", "advice", ordinal=True),
        Axis("value", "points gained", POINTS, counted_on="n_test"),
        mark=Bars(),
        series="kind",
        series_title="unit",
        claims=("augment", "shift", "longer", "dropout", "wide", "decoupled", "stop"),
    )


def _table(paired: list[dict[str, Any]]) -> Table:
    lines = []
    for advice, change in CHANGES.items():
        some = [row for row in paired if row["advice"] == advice]
        if not some:
            continue
        before, after = (sum(row["errors"][k] for row in some) / len(some) for k in range(2))
        times = math.exp(sum(math.log(row["times"]) for row in some) / len(some))
        lines.append([change, percent(before), percent(after), _spread([row["gain"] for row in some]), f"{times:.2g}"])
    return Table(
        "advice",
        "What does each piece of advice change?",
        "Mean test error of the control and of the recipe, the gain in points with its 95% interval over seeds, and "
        "the operations of the recipe over those of its control.",
        ("advice", "error without", "error with", "points gained", "time, factor"),
        lines,
    )


def _spread(gains: list[float]) -> str:
    """The mean in points, with its interval where there are several seeds."""
    mean, found = 100 * sum(gains) / len(gains), interval(gains, POINTS)
    return f"{mean:.1f}" if found is None else f"{mean:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _stuck(rows: Rows) -> Figure:
    some = Rows({**row, "name": name} for key, name in RECIPES.items() for row in rows if row["recipe"] == key)
    longer = some.converged().longer("error", {"training": "train_error", "new": "test_error"}, into="on")
    return Figure(
        "untrained",
        "What stops training altogether?",
        "Errors on training and on new examples of the baseline, of a network that is too narrow, one with too much "
        "dropout, and a deep network without and with skips and batch norm. A high training error means that training "
        "itself failed: that is not overfitting.",
        longer.having(counted=lambda row: row["n"] if row["on"] == "training" else row["n_test"]),
        Axis("name", "network", ordinal=True),
        Axis("error", "error", PERCENT, zero=True, counted_on="counted"),
        mark=Bars(),
        series="on",
        series_title="examples",
        rules=[Rule(0.9, "guessing")],
        claims=("narrow-untrained", "noise-untrained", "skips"),
    )


def _everything(rows: Rows) -> Figure:
    """One point for each recipe, at its mean cost."""
    kinds = {"shift": "shifts", "augment": "shifts", "baseline": "baseline"}
    made = Rows(row for row in rows if row["spread"] == 1 and row["recipe"] not in UNTRAINED)
    costs = {name: some.mean("cost") for (name,), some in made.groups("recipe")}
    taken: set[float] = set()
    for name in costs:  # recipes with the same cost would be drawn as one
        while costs[name] in taken:
            costs[name] *= 1.03
        taken.add(costs[name])
    return Figure(
        "cost-and-error",
        "Which recipe reaches the lowest error, and how soon?",
        "Error on new examples against the operations of the whole training, one point for each recipe of a network "
        "that trains (points of equal time are set side by side). Points below and to the left of the baseline are "
        "better and faster.",
        made.having(at=lambda row: costs[row["recipe"]], kind=lambda row: kinds.get(row["recipe"], "other recipes")),
        Axis("at", "operations of the training", log=True),
        Axis("test_error", "error on new examples", PERCENT, counted_on="n_test"),
        mark=Points(),
        series="kind",
        series_title="recipe",
        claims=("augment", "longer"),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------


def demo(setting: Setting) -> dict[str, Any]:
    """One example of the data, and shifted copies of it."""
    s = setting
    train, _ = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    first = torch.from_numpy(np.asarray(train.X[:1], np.float32)).flatten(1)
    with seeded_globals(derive(s["seed"], "demo shifts")):
        copies = shifted(first.expand(30, -1), 3, train.input_shape)
    copies = copies[(copies != first).any(1)]  # one in seven shifts of a signal moves nothing
    inputs = [first[0].numpy(), *(copy.numpy() for copy in copies.unique(dim=0)[:3])]
    if len(train.input_shape) == 3:
        return {"images": [pixels(one.reshape(train.input_shape)) for one in inputs]}
    return {"signals": [one.round(4).astype(float).tolist() for one in inputs]}


COPIES = ["example", "shifted once", "shifted again", "and again"]
SHOWN = (
    "One training example and three random shifts of it. A shift keeps the label, so each epoch shows the network new "
)
SHOWN += "examples without new labels."


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    title, claims = "What does augmentation show the network?", ("shift", "augment")
    if record.get("images"):
        tiles = [Tile(image, name) for image, name in zip(record["images"], COPIES, strict=False)]
        return [Images("shifts", title, SHOWN, [Strip("input", tiles)], claims)]
    rows = [
        {"place": k, "value": value, "copy": name}
        for name, signal in zip(COPIES, record.get("signals", []), strict=False)
        for k, value in enumerate(signal)
    ]
    place, value = Axis("place", "feature"), Axis("value", "value")
    line = Figure(
        "shifts",
        title,
        SHOWN,
        rows,
        place,
        value,
        Line(points=False),
        series="copy",
        series_title="input",
        group=None,
        claims=claims,
    )
    return [line] if rows else []


LESSON = Lesson(
    figures=figures,
    hero="worth",
    findings=(
        Finding(
            ("augment", "longer"),
            "Shifts gain {0.mean} per doubling of training time; time alone gains {1.mean}.",
            "Per doubling of training time, shifts gain {0.mean}, time alone {1.mean}.",
            "Per doubling of training time, shifts gain about {0.mean}, time alone {1.mean}.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question("Which advice takes no extra time, and which of it gains nothing here?", "truerisk lab run takeaways"),
        Question("Does the same order hold for images of digits?", "truerisk lab run takeaways --scale medium"),
        Question(
            "Your own table has no shifts to learn from. What is left that helps?",
            "truerisk lab run takeaways --data spirals",
        ),
    ),
    formulas=(
        Formula(
            r"\frac{\mathrm{error}_{\mathrm{control}} - \mathrm{error}_{\mathrm{recipe}}}"
            r"{\log_2 ( \mathrm{time}_{\mathrm{recipe}} / \mathrm{time}_{\mathrm{control}} )}",
            "Points per doubling: the gain in test error, divided by how often the training time was doubled for it.",
        ),
        Formula(
            r"\mathrm{time} = 6 \, W \, n \, T",
            "Operations of a training: W weights in linear layers, n examples, T epochs; two operations forward, four "
            "back.",
        ),
        Formula(
            r"w \leftarrow (1 - \eta \lambda) \, w - \eta \, \mathrm{Adam}(\nabla L)",
            "AdamW shrinks the weights directly; with L2, Adam divides the decay by the size of the gradients as well.",
        ),
    ),
)
