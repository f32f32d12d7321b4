"""The lesson of `minimum-norm`: SGD from zero finds the smallest norm, which need not be the best function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.lab.experiment import Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Strip, Table, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.kernel_solve import panel
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Path, Points, Slope
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT
from truerisk.nets.kernels import one_hot
from truerisk.nets.least_squares import min_norm, sgd
from truerisk.seeds import derive

KERNELS = {"gaussian": "Gaussian", "laplacian": "Laplacian", "patches": "convolutional features"}
STARTS = {0.0: "from zero", 1.0: "from a random start", 4.0: "from farther away"}
NORM = Axis("norm", "norm of the interpolating function", zero=True)
ERROR = Axis("test_error", "error on new examples", PERCENT, zero=True, counted_on="n_test")

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    """The kernels are there at every scale, SGD and linear models only at some."""
    kernels, descents, ranks = ([row for row in rows if row["kind"] == kind] for kind in ("kernel", "sgd", "rank"))
    shown = [{**row, "name": KERNELS[row["kernel"]], "panel": panel(row)} for row in kernels]
    found: list[Exhibit] = [_hero(shown)]
    found += [_noise(shown)] if len({row["noise"] for row in shown}) > 1 else []
    found += [_descent(Rows(descents))] if descents else []
    found += [_linear(ranks)] if ranks else []
    return [*found, _ends(descents)] if descents else found


def _hero(rows: Sequence[dict[str, Any]]) -> Figure:
    """The pair of kernels that claims compare, on true labels of the data that they name."""
    first = rows[0]["panel"] if rows else ""
    pair = [row for row in rows if row["panel"] == first and row["noise"] == 0 and row["kernel"] != "laplacian"]
    caption = (
        f"Error on new examples against the norm of the function, on true labels ({first}); each point is a run. Both "
        "functions fit all training labels, with a Gaussian kernel on inputs or with random convolutional features. "
        "If the norm predicted the error, the points further right would be higher."
    )
    return Figure(
        "norms",
        "Does a smaller norm mean fewer errors?",
        caption,
        pair,
        NORM,
        ERROR,
        mark=Points(),
        series="name",
        series_title="kernel",
        claims=("larger-norm", "fewer-errors"),
        group=None,
    )


def _noise(rows: Sequence[dict[str, Any]]) -> Figure:
    """Curves over label noise, for the seed that has all of it."""
    first = min(row["seed"] for row in rows)
    caption = (
        "Error on new examples against the norm. Along each curve, from bottom to top, random classes replace more of "
        "the training labels. Compare how norm and error rise together within one kernel. If the norm predicted the "
        "error across kernels, all curves of a panel would be parts of one curve."
    )
    return Figure(
        "norms-and-noise",
        "Does the norm grow with the noise in the labels?",
        caption,
        [row for row in rows if row["seed"] == first],
        NORM,
        ERROR,
        mark=Line(),
        series="name",
        series_title="kernel",
        facet="panel",
        group=None,
    )


def _descent(rows: Rows) -> Figure:
    steps = rows.having(start=lambda row: STARTS[row["start"]]).unrolled(step="at_steps", distance="distances")
    caption = (
        "Distance of the weights from the solution of smallest norm, relative to its norm, against SGD steps on a "
        "linear model with more weights than examples. From zero the distance should vanish; from a random "
        "start, the part that no example can reach remains."
    )
    return Figure(
        "sgd",
        "How far from the smallest norm does SGD end?",
        caption,
        [row for row in steps if row["step"] > 0 and row["distance"] > 0],
        Axis("step", "SGD step", log=True),
        Axis("distance", "relative distance", log=True),
        mark=Line(points=False),
        series="start",
        series_title="SGD",
        claims=("sgd-from-zero", "sgd-from-elsewhere"),
    )


def _linear(rows: Sequence[dict[str, Any]]) -> Figure:
    shown = Rows(rows).longer("missed", {"true labels": "true_missed", "random labels": "random_missed"}, into="labels")
    sizes = dict.fromkeys(f"{row['inputs']:,} for {spell(row['data'])}" for row in rows)
    caption = (
        "Training labels that the best linear model on raw inputs misses. It has as many weights per class as inputs "
        f"({', '.join(sizes)}), fewer than examples, so it cannot fit arbitrary labels. Interpolation starts only with "
        "more features than examples."
    )
    return Figure(
        "linear",
        "Can a linear model on raw inputs interpolate?",
        caption,
        shown.having(data=lambda row: spell(row["data"])),
        Axis("labels", "training labels", ordinal=True),
        Axis("missed", "labels missed in training", PERCENT, zero=True, counted_on="n"),
        mark=Slope(),
        series="data",
        series_title="data",
        claims=("linear-gram",),
    )


def _ends(rows: Sequence[dict[str, Any]]) -> Table:
    columns = ("start of SGD", "relative distance from the smallest norm", "largest curvature", "error on new examples")
    cells = [
        (STARTS[row["start"]], f"{row['distance']:.2g}", f"{row['sharpness']:.6f}", percent(row["test_error"]))
        for row in sorted(rows, key=lambda row: row["start"])
    ]
    caption = (
        "Three solutions that fit the same 50 labels. Their curvature agrees in all digits shown, because the Hessian "
        "depends on the weights through the outputs alone. Curvature cannot show which of them errs least on new "
        "examples."
    ).replace("50", str(rows[0]["n"]))
    return Table("ends", "Curvature of the loss at the end of SGD", caption, columns, cells)


# ---- pictures ------------------------------------------------------------------------------------------------------

EXAMPLE, LABEL = (0.28, 0.96), 1.0  # one equation for two weights
BEGIN = (("zero", (0.0, 0.0)), ("another start", (1.3, 0.0)), ("a third start", (-1.2, -0.1)))
REACH = 1.75  # how far the line of solutions is drawn on both sides
STORED, STEPS, CLASSES = 20, 30_000, 8  # training images (64 weights per class), SGD steps, classes shown
AWAY = 2.0  # norm of the random start, relative to that of the solution


def demo(setting: Setting) -> dict[str, Any]:
    """SGD in a plane of two weights, and the weights of linear models that fit the same few digits."""
    example, label = np.array([EXAMPLE]), np.array([[LABEL]])
    paths = []
    for name, start in BEGIN:
        end = sgd(example, label, np.array(start)[:, None], 1, 0).weights[:, 0]
        paths.append({"name": name, "path": [list(start), end.round(6).tolist()]})
    return {"plane": paths, "smallest": min_norm(example, label)[:, 0].round(6).tolist(), **_digits(setting["seed"])}


def _digits(seed: int) -> dict[str, Any]:
    """Weights of smallest norm, and those that SGD finds from zero and from a random start, as images."""
    train, _ = samples("digits", STORED, 1, seed)
    inputs, targets = train.X.reshape(STORED, -1).astype(np.float64), one_hot(train.y, train.classes)
    best = min_norm(inputs, targets)
    away = np.random.default_rng(derive(seed, "demo start")).standard_normal(best.shape)
    away *= AWAY * np.linalg.norm(best) / np.linalg.norm(away)
    ends = {"smallest norm": best}
    for name, start in (("SGD from zero", np.zeros_like(best)), ("SGD from a random start", away)):
        ends[name] = sgd(inputs, targets, start, STEPS, derive(seed, "demo order")).weights
    classes = sorted(set(train.y.tolist()))[:CLASSES]
    high = max(float(np.abs(weights).max()) for weights in ends.values())
    models = [
        {
            "name": name,
            "images": [pixels(weights[:, k].reshape(train.input_shape), -high, high) for k in classes],
            "norm": float(np.linalg.norm(weights)),
            "residual": float(np.abs(inputs @ weights - targets).max()),
        }
        for name, weights in ends.items()
    ]
    return {"classes": classes, "models": models}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    found: list[Exhibit] = [_plane(record["plane"], record["smallest"])] if record.get("plane") else []
    return [*found, _images(record)] if record.get("models") else found


def _plane(paths: Sequence[dict[str, Any]], smallest: Sequence[float]) -> Figure:
    along = (-EXAMPLE[1], EXAMPLE[0])
    ends = [[at + t * step for at, step in zip(smallest, along, strict=True)] for t in (-REACH, REACH)]
    lines = {"all solutions": ends} | {f"SGD from {one['name']}": one["path"] for one in paths}
    caption = (
        "Two weights and one training example: every point of the line of solutions fits it exactly. SGD moves only "
        "along the example, at a right angle to that line. From zero it therefore ends in the solution nearest to zero "
        "(dot), from elsewhere in another one."
    )
    return Figure(
        "plane",
        "Which of all solutions does SGD find?",
        caption,
        [{"w1": x, "w2": y, "line": name} for name, path in lines.items() for x, y in path],
        Axis("w1", "first weight"),
        Axis("w2", "second weight"),
        mark=Path(equal=True),
        series="line",
        series_title="weights",
        claims=("sgd-from-zero", "sgd-from-elsewhere"),
        dots=[{"w1": smallest[0], "w2": smallest[1]}],
        dots_title="smallest norm",
    )


def _images(record: dict[str, Any]) -> Images:
    strips = [
        Strip(f"{model['name']} (norm {model['norm']:.2g})", _tiles(model["images"], record["classes"]))
        for model in record["models"]
    ]
    caption = (
        f"Weights of three linear models, one image per class: all three fit the same {STORED} digits exactly. Gray is "
        "zero. Models with the same training outputs can differ wherever the training images say nothing; a random "
        "start stays there as noise."
    )
    title = "Three models with the same training outputs"
    return Images("weights", title, caption, strips, claims=("sgd-from-zero", "sgd-from-elsewhere"))


def _tiles(images: Sequence[Any], classes: Sequence[int]) -> list[Tile]:
    return [Tile(image, f"class {k}") for image, k in zip(images, classes, strict=True)]


LESSON = Lesson(
    figures=figures,
    hero="norms",
    findings=(
        Finding(
            ("larger-norm", "fewer-errors"),
            "Convolutional features need {0.mean} the norm of a Gaussian kernel, but err less.",
            "Convolutional features do not err less with a larger norm than a Gaussian kernel.",
            "Whether convolutional features err less with a larger norm is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "The norm does not order kernels by their errors. Does any measure order networks?",
            "truerisk lab run predictiveness",
        ),
        Question(
            "Can the norm of a network change while all its outputs stay the same?",
            "truerisk measure --audit",
        ),
        Question(
            "Do convolutional features also need a larger norm on 10,000 images of MNIST?",
            "truerisk lab run minimum-norm --scale medium",
        ),
    ),
    formulas=(
        Formula(
            r"w^* = X^{+} y = X^{T} (X X^{T})^{-1} y",
            "Among all weights with X w = y, the pseudoinverse gives those of smallest norm.",
        ),
        Formula(
            r"w_{\infty} = w^* + (I - P) \, w_0",
            "SGD only adds multiples of examples, so the part of its start outside their span stays (P projects on the "
            "span). From zero there is no such part.",
        ),
    ),
)
