"""The lesson of `kernel-interpolation`: every label is fitted, wrong ones included, and new images are still right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import Data, corrupt_labels
from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.kernel_interpolation import CLAIMS
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Table, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.kernel_solve import panel
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PERCENT
from truerisk.nets.kernels import DistanceKernel, fit, median_distance, one_hot
from truerisk.seeds import derive

NOISE = Axis("noise", "training labels replaced", PERCENT)
KERNELS = {"gaussian": "Gaussian", "laplacian": "Laplacian", "patches": "convolutional features"}
CHANCE = Rule(0.9, "chance")
RIDGES = {"none": "no ridge", "validated": "with a ridge"}
NAMES = tuple(claim.name for claim in CLAIMS)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = rows.having(
        panel=lambda row: panel(dict(row)),
        solve=lambda row: KERNELS[row["kernel"]],
        fitted=lambda row: RIDGES[row["ridge"]],
    )
    return [_hero(named), _kernels(named), _ridges(named), _details(named)]


def _error(title: str = "error on new examples") -> Axis:
    return Axis("test_error", title, PERCENT, zero=True, counted_on="n_test")


def _hero(rows: Rows) -> Figure:
    """The first data of the scale, without a ridge: training and test errors of the kernels on inputs."""
    first = next(iter(rows.values("panel")), "")
    exact = [row for row in rows if row["ridge"] == "none" and row["panel"] == first]
    shown = [{**row, "who": "Gaussian, training", "test_error": row["train_error"]} for row in exact]
    shown = [row for row in shown if row["kernel"] == "gaussian"]
    shown += [{**row, "who": f"{row['solve']}, new"} for row in exact if row["kernel"] != "patches"]
    caption = (
        f"Errors of two kernels on new examples ({first}), and the training error of the Gaussian kernel, against the "
        "share of training labels that random classes replace. If fitting every label ruled out learning, the errors "
        "on new examples would start near chance. At 100% they vary around chance by a few points."
    )
    return Figure(
        "noise",
        "Every training label is fitted. How many new examples are missed?",
        caption,
        shown,
        NOISE,
        _error("error"),
        series="who",
        series_title="kernel and examples",
        rules=[CHANCE],
        claims=("any-labels", "low-error-digits", "mnist"),
    )


def _kernels(rows: Rows) -> Figure:
    caption = (
        "Error on new examples of kernels that fit every training label, against the share of labels that random "
        "classes replace. Convolutional features have random filters. Where two curves start together and then part, "
        "the kernels differ in how far a wrong label spreads to its neighbors."
    )
    names = ("laplacian-digits", "laplacian-mnist", "patches-help", "cifar-pixels", "cifar-patches")
    return Figure(
        "kernels",
        "Which kernel suffers most from wrong labels?",
        caption,
        [row for row in rows if row["ridge"] == "none"],
        NOISE,
        _error(),
        series="solve",
        series_title="kernel",
        facet="panel",
        rules=[CHANCE],
        claims=names,
    )


def _ridges(rows: Rows) -> Figure:
    caption = (
        "Error on new examples with and without a ridge, one panel per kernel; the slider chooses the dataset. "
        "Held-out training examples choose the size of the ridge. On true labels (0%), a gap would mean that exact "
        "interpolation is harmful in itself."
    )
    return Figure(
        "ridges",
        "Does a ridge, which gives up the exact fit, help?",
        caption,
        rows,
        NOISE,
        _error(),
        series="fitted",
        series_title="solution",
        facet="solve",
        slider=Axis("panel", "dataset"),
        rules=[CHANCE],
        claims=[name for name in NAMES if "ridge" in name],
    )


def _details(rows: Rows) -> Table:
    columns = ("data", "kernel", "ridge", "noise", "error", "bandwidth", "smallest pivot", "added to diagonal")
    first = min(rows.values("seed"), default=None)
    cells = [
        (
            row["panel"],
            row["solve"],
            _number(row["ridge_value"]) if row["ridge"] != "none" else "none",
            percent(row["noise"], 0),
            percent(row["test_error"], 2),
            *(_number(row[name]) for name in ("bandwidth", "smallest_pivot", "jitter")),
        )
        for row in rows
        if row["seed"] == first
    ]
    caption = (
        "Bandwidths and ridges chosen on held-out training examples, for the first seed. A small pivot of the Cholesky "
        "factorization means an ill-conditioned system, to whose diagonal a little may be added."
    )
    return Table("details", "Bandwidths, ridges, and conditioning", caption, columns, cells)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


# ---- pictures ------------------------------------------------------------------------------------------------------

WIDTHS = (0.05, 0.07, 0.1, 0.12)  # bandwidths of the curves
PLACES, WRONG = 12, 3  # training points on the unit interval, and which one has a wrong label
MULTIPLES = {"gaussian": 0.5, "laplacian": 3.0}  # median distances: the bandwidths that most runs on digits choose
MOST, SHOWN, CORRUPTED = 1000, 12, 0.5  # training images, images in a strip, share of labels replaced


def demo(setting: Setting) -> dict[str, Any]:
    """Interpolating curves through one wrong label, and predictions of kernels that fit corrupted labels."""
    n = min(setting["n"], MOST)
    train, test = samples(setting["data"], n, SHOWN, setting["seed"])
    return {"curves": _curves(), "images": _predictions(train, test, derive(setting["seed"], "demo noise"))}


def _curves() -> dict[str, Any]:
    """Two classes on a line, left and right, with one wrong label on the left."""
    places = (np.arange(PLACES) + 0.5) / PLACES
    labels = np.where(places < 0.5, -1.0, 1.0)
    labels[WRONG] = 1.0
    grid = np.linspace(0, 1, 201)
    curves = []
    for width in WIDTHS:
        for name in MULTIPLES:
            kernel = DistanceKernel(name, width)  # type: ignore[arg-type]
            found = fit(kernel, places[:, None], labels[:, None]).coefficients
            values = kernel.apply(grid[:, None], places[:, None], found)[:, 0]
            curves.append({"width": width, "curve": name, "outputs": values.round(4).tolist()})
    return {"grid": grid.round(4).tolist(), "outputs": curves, "places": places.tolist(), "labels": labels.tolist()}


def _predictions(train: Data, test: Data, seed: int) -> dict[str, Any]:
    """The first images with their given labels, and what each kernel says about new ones."""
    if len(train.input_shape) < 2:
        return {}
    given = corrupt_labels(train, CORRUPTED, seed)
    targets, unit = one_hot(given.y, given.classes), median_distance(train.X)
    answers, missed = {}, {}
    for name, multiple in MULTIPLES.items():
        kernel = DistanceKernel(name, multiple * unit)  # type: ignore[arg-type]
        found = fit(kernel, train.X, targets).coefficients
        answers[name] = kernel.apply(test.X, train.X, found).argmax(1).tolist()
        missed[name] = int((kernel.apply(train.X, train.X, found).argmax(1) != given.y).sum())
    return {
        "stored": [pixels(image) for image in train.X[:SHOWN]],
        "given": given.y[:SHOWN].tolist(),
        "true": train.y[:SHOWN].tolist(),
        "new": [pixels(image) for image in test.X],
        "new_true": test.y.tolist(),
        "says": answers,
        "missed": missed,
    }


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    found: list[Exhibit] = [_images(record["images"])] if record.get("images") else []
    return [*found, _lines(record["curves"])] if record.get("curves") else found


def _images(found: dict[str, Any]) -> Images:
    def strip(label: str, images: str, words: Sequence[int], true: str) -> Strip:
        rows = zip(found[images], words, found[true], strict=True)
        return Strip(label, [Tile(image, str(word), word != right) for image, word, right in rows])

    strips = [strip("training images, given labels", "stored", found["given"], "true")]
    strips += [strip(f"{KERNELS[name]} kernel says", "new", says, "new_true") for name, says in found["says"].items()]
    fitted = "Both kernels fit all given labels" if not any(found["missed"].values()) else "The kernels fit most labels"
    caption = (
        "Training images of which half have a random label, and twelve new images with the answers of two kernels. "
        f"{fitted}; marked labels are wrong. About 45% of the training labels are wrong; compare the answers."
    )
    return Images(
        "labels", "Half of the labels are random, and all of them are fitted", caption, strips, ("any-labels",)
    )


def _lines(found: dict[str, Any]) -> Figure:
    curves = [
        {"x": x, "y": y, "kernel": KERNELS[one["curve"]], "width": one["width"]}
        for one in found["outputs"]
        for x, y in zip(found["grid"], one["outputs"], strict=True)
    ]
    caption = (
        "Two kernels through the same twelve labels, \u22121 on the left and 1 on the right, one of them wrong. The "
        "slider sets the bandwidth of both. A Laplacian kernel passes the wrong label in a narrow spike; a wide "
        "Gaussian kernel swings far beyond the labels around it."
    )
    return Figure(
        "one-wrong-label",
        "How far does one wrong label reach?",
        caption,
        curves,
        Axis("x", "input"),
        Axis("y", "output"),
        mark=Line(points=False),
        series="kernel",
        series_title="kernel",
        slider=Axis("width", "bandwidth"),
        rules=[Rule(0.0, "class boundary")],
        claims=("laplacian-digits", "laplacian-mnist"),
        dots=[{"x": x, "y": y} for x, y in zip(found["places"], found["labels"], strict=True)],
        dots_title="training labels",
    )


LESSON = Lesson(
    figures=figures,
    hero="noise",
    findings=(
        Finding(
            ("low-error-digits",),
            "With true labels, a kernel that fits every label misses only {0.mean} of new digits.",
            "With true labels, an interpolating kernel misses {0.mean} of new digits, more than 2%.",
            "With true labels, an interpolating kernel misses {0.mean} of new digits, too close to 2%.",
        ),
        Finding(
            ("mnist",),
            "A kernel that fits all of MNIST misses {0.mean} of new digits, as published.",
            "A kernel that fits all of MNIST misses {0.mean} of new digits; published: 1.2%.",
            "A kernel that fits all of MNIST misses {0.mean}; whether this is 1.2% is open.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Is there a model size at which an exact fit of true labels does great harm?",
            "truerisk lab run convex-regularization",
        ),
        Question(
            "Deep networks also fit every label. Do they need explicit regularizers?",
            "truerisk lab run regularizers",
        ),
        Question(
            "Does a Gaussian kernel on all of MNIST reach the published 1.2% (needs 14 GiB of memory)?",
            "truerisk lab run kernel-interpolation --scale medium",
        ),
    ),
    formulas=(
        Formula(
            r"f(x) = \sum_{i=1}^{n} a_i \, k(x_i, x), \quad K a = y",
            "One linear system with the Gram matrix K, whose entries are the kernel of two training inputs, gives a "
            "function that passes through any training labels y.",
        ),
        Formula(r"k(x, x') = e^{-\|x - x'\|^2 / (2 s^2)}", "The Gaussian kernel of bandwidth s is smooth everywhere."),
        Formula(r"k(x, x') = e^{-\|x - x'\| / s}", "The Laplacian kernel has a kink where the two inputs are equal."),
    ),
)
