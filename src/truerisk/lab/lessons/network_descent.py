"""The lesson of `network-descent`: the error peaks where a network just fits its labels, and then falls again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import corrupt_labels
from truerisk.lab.descent_curves import FITTED, crossing
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.network_descent import PUBLISHED, WIDTH
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Map, Regions
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PERCENT
from truerisk.seeds import derive
from truerisk.training.swift import answers, sgd_epochs, uniform_weights

TRUE, NOISY, TRAINING = "test, true labels", "test, noisy labels", "training, noisy labels"
HIDDEN = Axis("width", "hidden units per layer", log=True)
ERROR = Axis("error", "error", PERCENT, zero=True, counted_on="counted")
EARLY = 10  # epochs: before, all networks err so often that nothing else would have a color
STARTS = {"reused": "weights of the next smaller network", "fresh": "fresh weights"}
# Percent of 12,000 test examples in the stored notebook of Greydanus and Kobak 2024, one run at each published width.
STORED = {
    TRUE: "68.53 58.27 54.20 49.33 50.08 44.55 42.63 41.02 41.66 41.01 41.24 39.59 38.61 38.58 38.09 37.10 37.25",
    NOISY: "69.59 62.55 54.80 48.97 50.28 47.24 50.84 50.69 52.80 54.05 54.02 52.08 50.23 48.39 47.88 46.54 45.47",
}

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    """The sweep over widths is there with any data; the other parts only with those of the experiment."""
    runs = rows.converged()
    parts = {kind: [run for run in runs if run["kind"] == kind] for kind in ("widths", "samples", "epochs", "reuse")}
    widths = parts["widths"]
    found: list[Exhibit] = [_hero(widths), *([_plane([run for run in widths if run["noise"]])] if widths else [])]
    if any((run["data"], run["n"]) == ("mnist1d", 4000) for run in widths):
        found.append(_published(widths))
    makers = (("reuse", _reuse), ("samples", _samples), ("samples", _complexity), ("epochs", _epochs))
    return [*found, *(make(parts[kind]) for kind, make in makers if parts[kind])]


def _errors(runs: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each error of a run, with the number of examples that it was counted on."""
    found = []
    for run in runs:
        on = NOISY if run["noise"] else TRUE
        found.append({**run, "error": run["test_error"], "counted": run["n_test"], "on": on})
        if run["noise"]:
            found.append({**run, "error": run["train_error"], "counted": run["n"], "on": TRAINING})
    return found


def _threshold(runs: Sequence[Row]) -> list[Rule]:
    """The width from which on the mean error on noisy training labels is small."""
    noisy = {run["width"]: [each["train_error"] for each in runs if each["noise"] and each["width"] == run["width"]]
             for run in sorted(runs, key=lambda run: int(run["width"])) if run["noise"]}  # fmt: skip
    means = [float(np.mean(errors)) for errors in noisy.values()]
    if not means or not means[-1] <= FITTED < means[0]:  # the sweep does not pass it
        return []
    return [Rule(crossing(list(noisy), means, FITTED), "interpolation threshold", upright=True)]


def _hero(runs: Sequence[Row]) -> Figure:
    return Figure(
        "widths",
        "Error against width",
        "Test error against the number of hidden units, with true training labels and with some replaced by random "
        "ones, and training error on the latter. The upright line marks the width from which on networks fit at least "
        "90% of noisy labels. A peak there, and a second descent to its right, is double descent.",
        _errors(runs),
        HIDDEN,
        ERROR,
        series="on",
        series_title="error on",
        rules=_threshold(runs),
        claims=("second-descent", "peak-at-threshold", "noise-makes-the-peak", "below-first-minimum"),
    )


def _plane(runs: Sequence[Row]) -> Figure:
    """Means over seeds: a map has one cell for each pair."""
    cells: dict[tuple[int, int], list[float]] = {}
    for run in runs:
        for epoch, error in zip(run["at"], run["test_errors"], strict=True):
            if epoch >= EARLY:
                cells.setdefault((run["width"], epoch), []).append(error)
    squares = [{"width": w, "epoch": e, "test_error": float(np.mean(errors))} for (w, e), errors in cells.items()]
    return Figure(
        "plane",
        "Test error by width and length of training",
        "Mean test error on noisy labels for each width and number of epochs. Networks get wider from left to right, "
        "and train longer from bottom to top. If errors peak where networks just fit their labels, a bright ridge "
        "begins only after some training and leaves the widest networks out.",
        squares,
        HIDDEN,
        Axis("epoch", "epochs", log=True),
        Map("test_error", "test error", PERCENT),
        claims=("second-descent",),
    )


def _published(runs: Sequence[Row]) -> Figure:
    stored = [
        {"width": width, "error": float(error) / 100, "labels": labels}
        for labels, errors in STORED.items()
        for width, error in zip(PUBLISHED, errors.split(), strict=True)
    ]
    shown = [{**row, "labels": row["on"]} for row in _errors(runs) if row["on"] != TRAINING]
    return Figure(
        "published",
        "The published curves",
        "Test error against width with 4,000 examples of MNIST-1D. Dots are the numbers in the notebook of Greydanus "
        "and Kobak, one run each, on another draw of the data. Dots on the curve mean that the numbers agree.",
        shown,
        HIDDEN,
        ERROR,
        facet="labels",
        dots=stored,
        dots_title="published",
        claims=("peak-width", "clean-no-peak"),
    )


def _reuse(runs: Sequence[Row]) -> Figure:
    shown = [
        {
            "size": size,
            "test_error": error,
            "start": name,
            "seed": run["seed"],
            "counted": run["n_test"],
            "labels": _labels(run),
        }
        for run in runs
        for start, name in STARTS.items()
        for size, error in zip(run["sizes"], run[start], strict=True)
    ]
    return Figure(
        "reuse",
        "How much of the peak comes from reused weights?",
        "Test error of one hidden layer against its number of weights, divided by examples times classes. Below 1, a "
        "network continues from the next smaller one or starts fresh; above 1, all start fresh, as in Belkin et al. If "
        "only reused weights peak, the start makes the peak.",
        shown,
        Axis("size", "weights / (examples \u00d7 classes)", log=True),
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="counted"),
        series="start",
        series_title="start",
        facet="labels",
        claims=("reuse-has-peak", "reuse-raises-errors"),
    )


def _labels(run: Row) -> str:
    return f"{percent(run['noise'], 0)} of labels replaced" if run["noise"] else "true labels"


def _samples(runs: Sequence[Row]) -> Figure:
    return Figure(
        "samples",
        "Do more examples help?",
        f"Test error of networks with {WIDTH} hidden units per layer against the number of training examples, with "
        "true labels and with some replaced. Where a curve is flat or rises, more examples do not help.",
        [{**run, "labels": _labels(run)} for run in runs if run["width"] == WIDTH],
        Axis("n", "training examples", log=True),
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="labels",
        series_title="training labels",
        claims=("more-data-hurts",),
    )


def _complexity(runs: Sequence[Row]) -> Figure:
    """One seed has all widths and numbers of examples."""
    first = min(run["seed"] for run in runs)
    return Figure(
        "complexity",
        "How many examples can a network fit?",
        "Training error on noisy labels against the number of examples, for several widths; one run each. Where a "
        "curve crosses the dashed line, the number of examples is the effective model complexity of that width. "
        "Nakkiran et al. conjecture that the test error peaks there.",
        [run for run in runs if run["noise"] and run["seed"] == first],
        Axis("n", "training examples", log=True),
        Axis("train_error", "training error", PERCENT, zero=True, counted_on="n"),
        series="width",
        series_title="hidden units per layer",
        rules=[Rule(FITTED, "fitted")],
        claims=("peak-at-threshold", "more-data-hurts"),
    )


def _epochs(runs: Sequence[Row]) -> Figure:
    names = {NOISY: ("test_errors", "n_test"), TRAINING: ("train_errors", "n")}
    shown = [
        {"epoch": epoch, "error": error, "on": on, "seed": run["seed"], "counted": run[counted]}
        for run in runs
        for on, (name, counted) in names.items()
        for epoch, error in zip(run["at"], run[name], strict=True)
    ]
    return Figure(
        "epochs",
        "Does the error fall a second time if training continues?",
        "Error of one wide network against epochs, on noisy labels and at a small constant rate. Compare where the "
        "test error is smallest with where the training labels are fitted. Nakkiran et al. report that the test error "
        "falls again later; a flat end means that it does not here.",
        shown,
        Axis("epoch", "epochs", log=True),
        ERROR,
        series="on",
        series_title="error on",
        claims=("epochs-rise", "epochs-second-descent"),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

MOONS, STEPS = (3, 5, 8, 14, 30, 200), 1500
ACROSS, UP = np.linspace(-1.6, 2.6, 85).round(2), np.linspace(-1.3, 1.7, 61).round(2)


def demo(setting: Setting) -> Record:
    """Noisy moons as networks of growing width see them."""
    seed = derive(setting["seed"], "demo moons")
    train, _ = samples("moons", 80, 10, seed)
    noisy, planes = corrupt_labels(train, 0.3, seed), []  # half of the replaced labels keep their class
    places = np.array([[x, y] for y in UP for x in ACROSS], dtype=np.float32)
    for width in MOONS:
        weights, targets = uniform_weights([2, width, width, 2], derive(seed, width)), np.eye(2)[noisy.y]
        for _ in sgd_epochs(weights, noisy.X, targets, epochs=STEPS, batch_size=80, lr=0.1, seed=seed):
            pass
        classes = answers(weights, places).argmax(axis=1).reshape(len(UP), -1)
        planes.append(["".join(map(str, row)) for row in classes])
    points = [[*map(float, x.round(3)), int(y)] for x, y in zip(noisy.X, noisy.y, strict=True)]
    return {"planes": planes, "points": points, "flipped": int((noisy.y != train.y).sum())}


def pictures(record: Record) -> Sequence[Exhibit]:
    return [_regions(record)] if record.get("planes") else []


def _regions(record: Record) -> Figure:
    rows = [
        {"x": x, "y": y, "moon": label, "width": width}
        for width, plane in zip(MOONS, record["planes"], strict=True)
        for y, line in zip(UP.tolist(), plane, strict=True)
        for x, label in zip(ACROSS.tolist(), line, strict=True)
    ]
    return Figure(
        "moons",
        "Noisy moons: networks of growing width fit more flipped labels",
        f"Class that a network gives to each point of the plane; dots are {len(record['points'])} training examples "
        f"with their labels, {record['flipped']} of them flipped. Move the slider to widen both hidden layers. Compare "
        "how narrow, medium, and wide networks reach flipped labels: not at all, by long tongues, or by islands.",
        rows,
        Axis("x", "first coordinate"),
        Axis("y", "second coordinate"),
        Regions("moon", "class"),
        slider=Axis("width", "hidden units"),
        dots=[{"x": x, "y": y, "moon": str(label)} for x, y, label in record["points"]],
        dots_title="training examples",
    )


LESSON = Lesson(
    figures=figures,
    hero="widths",
    findings=(
        Finding(
            ("second-descent", "peak-at-threshold"),
            "Past the width that fits noisy labels, the test error falls again: by {0.mean}.",
            "Not as published: beyond its peak, the test error falls by {0.mean}.",
            "Still open: beyond its peak, the test error falls by {0.mean}.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\mathrm{EMC}_\epsilon = \max \{ n : \mathbb{E}[ \hat{R}_n ] \leq \epsilon \}",
            "Effective model complexity: the largest number of examples that training fits up to an error of epsilon.",
        ),
        Formula(r"(d + 1) H + (H + 1) K = n K", "Interpolation threshold of H units: n K weights, for K classes."),
    ),
    questions=(
        Question("Does the error peak on digits, an easy task?", "truerisk lab run network-descent --data digits"),
        Question("Does the peak lie at the published widths?", "truerisk lab run network-descent --scale medium"),
        Question("Why is the peak of least squares so much higher?", "truerisk lab run convex-regularization"),
    ),
)
