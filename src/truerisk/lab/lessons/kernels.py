"""The lesson of `kernels`: a wide random network is a kernel machine, and the distance falls like 1/sqrt(N)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.feature_limit import AT, SPARE, standardized
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Map
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.strips import class_words, strip, strips
from truerisk.lab.units import PERCENT
from truerisk.nets.feature_kernels import FourierKernel, median_bandwidth
from truerisk.nets.kernels import fit
from truerisk.nets.random_features import LeastSquares
from truerisk.seeds import derive

NAMES = {"gaussian": "Gaussian", "laplacian": "Laplacian", "cauchy": "Cauchy", "arc-cosine": "arc-cosine (ReLU)"}
REFERENCE = "1/\u221aN (slope \u22121/2)"
BELOW = 1.6  # the reference is drawn below the curves
FEATURES = Axis("width", "number N of features", log=True)
RATIO = Axis("ratio", "features / examples", log=True)
MACHINE = "kernel machine"
# The curve through few points: numbers of features for the slider, and the bandwidth.
POINTS, COUNTS, NOISE, BANDWIDTH = 12, (16, 24, 48, 96, 384, 3072), 0.1, 0.2
GRAM, EACH, CLASSES = {"few": 50, "many": 5000}, 4, 10  # features of two Gram matrices, examples of each class


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = rows.having(name=lambda run: NAMES[run["kernel"]])
    pairs, fitted, table = (named.where(kind=kind) for kind in ("approximation", "predictor", "table"))
    return [_errors(pairs), _predicted(pairs), _distances(fitted), _norms(fitted), _test_errors(fitted), _table(table)]


def _errors(pairs: Rows) -> Figure:
    shown = list(pairs.unrolled(width="widths", error="largest"))
    for width, seed in sorted({(row["width"], row["seed"]) for row in shown}):
        shown.append({"name": REFERENCE, "width": width, "seed": seed, "error": BELOW / math.sqrt(width)})
    return Figure(
        "errors",
        "Largest error of the kernel against the number of features",
        "How far inner products of N random features are from the exact kernel, at worst over all pairs of real "
        "examples; both axes are logarithmic. The reference falls like one over the square root of N. If the curves "
        "are parallel to it, one more digit needs a hundred times as many features.",
        shown,
        FEATURES,
        Axis("error", "largest error of an entry", log=True),
        Line(),
        series="name",
        series_title="kernel",
        claims=("error-rate", "union-bound"),
    )


def _predicted(pairs: Rows) -> Figure:
    fourier = Rows([row for row in pairs if row["variance"] is not None])
    shown = [{**row, "which": "measured"} for row in fourier.unrolled(width="widths", error="rms")]
    theory = "predicted by the variance"
    shown += [{**row, "which": theory, "error": math.sqrt(row["variance"] / row["width"])} for row in shown]
    return Figure(
        "predicted",
        "Does the variance predict the error?",
        "Root-mean-square error over all pairs, and the one that the closed-form variance of an entry predicts. No "
        "number is fitted. If spectrum and kernel did not belong together, the measured curve would level off.",
        shown,
        FEATURES,
        Axis("error", "root-mean-square error", log=True),
        Line(),
        series="which",
        series_title="error",
        facet="name",
        claims=("rms-rate", "variance-predicts-error"),
    )


def _distances(fitted: Rows) -> Figure:
    shown = []
    for ridge, field in (("no ridge (least norm)", "distances"), ("ridge 0.0001", "ridge_distances")):
        shown += [{**row, "ridge": ridge} for row in fitted.unrolled(ratio="ratios", distance=field)]
    return Figure(
        "distances",
        "Distance of predictions from the kernel machine",
        "Root-mean-square difference between the outputs of N features and of the kernel machine on new examples, "
        "relative to those outputs. Without a ridge, both fit every training label. If an infinitely wide network is "
        "a kernel machine, the curves fall to 0.",
        shown,
        RATIO,
        Axis("distance", "relative distance", PERCENT, log=True),
        series="name",
        series_title="kernel",
        facet="ridge",
        claims=("predictions-approach", "ridge-rate"),
    )


def _norms(fitted: Rows) -> Figure:
    return Figure(
        "norms",
        "The norm approaches the smallest one from above",
        "Norm of the least-norm solution with N features, divided by the norm of the kernel machine. At 1, no function "
        "of the kernel's space that fits the data has a smaller norm. In expectation the squared ratio falls with "
        "every feature and never passes 1.",
        fitted.unrolled(ratio="ratios", norm="norms"),
        RATIO,
        Axis("norm", "norm / norm of the kernel machine"),
        series="name",
        series_title="kernel",
        rules=[Rule(1.0, MACHINE)],
        claims=("norm-from-above", "norm-falls"),
    )


def _test_errors(fitted: Rows) -> Figure:
    shown = [{**row, "place": f"{row['ratio']}n"} for row in fitted.unrolled(ratio="ratios", error="errors")]
    shown += [{**row, "place": MACHINE, "error": row["machine_error"]} for row in fitted]
    return Figure(
        "test-errors",
        "Do the test errors meet?",
        "Test error without a ridge, with more and more features and, at the right, of the kernel machine. All models "
        "fit every training label. If more features meant more overfitting, the curves would rise.",
        shown,
        Axis("place", "features", ordinal=True),
        Axis("error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="name",
        series_title="kernel",
        claims=("errors-meet",),
    )


def _table(table: Rows) -> Table:
    rows = []
    for (kernel,), runs in Rows(table).groups("kernel"):
        mean = f"{np.mean([run['mean'] for run in runs]):.4f}"
        first = runs.present[0]
        rows.append([NAMES[kernel], f"{first['exact']:.4f}", mean, f"{first['printed']:.4f}"])
    return Table(
        "table",
        f"Three kernels at the difference {tuple(AT)} of two inputs".replace("-", "\u2212"),
        "The kernel of the corrected table, the mean of cosines over random frequencies, and the kernel as a lecture "
        "prints it. A mean of cosines is at most 1, so no feature can approach the printed Cauchy kernel.",
        ["kernel", "corrected", "mean over frequencies", "as printed"],
        rows,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------


def demo(setting: Setting) -> Record:
    """A curve in one dimension for more and more features, and Gram matrices of examples sorted by class."""
    s = setting
    train, _ = samples(s["data"], s["n"], SPARE, derive(s["seed"], "examples"), s.get("data_sha256"))
    chosen = [i for label in np.unique(train.y)[:CLASSES] for i in np.flatnonzero(train.y == label)[:EACH]]
    (X,) = standardized(train)
    kernel = FourierKernel("gaussian", median_bandwidth("gaussian", X))
    grams = {"the exact kernel": kernel(X[chosen], X[chosen])}
    for name, count in GRAM.items():
        phi = kernel.features(X.shape[1], count, derive(s["seed"], "demo gram"))(X[chosen])
        grams[f"{name} features ({count:,})"] = phi @ phi.T
    found: Record = {
        "grams": {name: gram.round(3).tolist() for name, gram in sorted(grams.items())},
        **_curve(s["seed"]),
    }
    if is_images(train):
        first = chosen[::EACH]
        found["strips"] = [strip("", train.X[first], class_words(train, train.y[first]))]
    return found


def _curve(seed: int) -> Record:
    """The kernel machine through a few points, and least-norm solutions with random waves."""
    x, grid = np.linspace(-1, 1, POINTS)[:, None], np.linspace(-1.2, 1.2, 161)[:, None]
    noise = NOISE * np.random.default_rng(derive(seed, "demo curve")).standard_normal(POINTS)
    y = np.sin(4 * x[:, 0]) + noise
    kernel = FourierKernel("gaussian", BANDWIDTH)
    machine = kernel.apply(grid, x, fit(kernel, x, y[:, None]).coefficients)[:, 0]
    lines = []
    for count in COUNTS:
        phi = kernel.features(1, count, derive(seed, "demo waves"))
        own = np.clip(phi(grid) @ LeastSquares(phi(x), y).least_norm(), -3, 3)
        lines.append({"count": count, "values": own.round(4).tolist()})
    points = np.column_stack([x[:, 0], y]).round(4).tolist()
    return {"x": grid[:, 0].round(4).tolist(), "machine": machine.round(4).tolist(), "lines": lines, "points": points}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("lines"):
        return []
    found: list[Exhibit] = [_curve_figure(record), _grams(record["grams"])]
    if record.get("strips"):
        caption = (
            "The first example of each class, in the order of the Gram matrices, whose diagonal blocks are classes."
        )
        found.append(Images("examples", "Examples behind the Gram matrices", caption, strips(record)))
    return found


def _curve_figure(record: Record) -> Figure:
    rows = [
        {"x": x, "y": y, "curve": kind, "count": line["count"]}
        for line in record["lines"]
        for kind, values in ((MACHINE, record["machine"]), ("N random features", line["values"]))
        for x, y in zip(record["x"], values, strict=True)
    ]
    return Figure(
        "curve",
        "N features in one dimension: move the slider",
        "The least-norm curve of N random waves through 12 points, and the curve of the kernel machine (Gaussian "
        "kernel). All curves pass through all points. With few waves the curve swings between points (cut off at "
        "\u22123 and 3); with many it lies on the kernel machine.",
        rows,
        Axis("x", "x"),
        Axis("y", "y"),
        Line(points=False),
        series="curve",
        slider=Axis("count", "features"),
        dots=[{"x": x, "y": y} for x, y in record["points"]],
        dots_title="training points",
        group=None,
        claims=("predictions-approach",),
    )


def _grams(grams: dict[str, list[list[float]]]) -> Figure:
    rows = [
        {"row": i + 1, "column": j + 1, "value": value, "panel": panel}
        for panel, gram in grams.items()
        for i, line in enumerate(gram)
        for j, value in enumerate(line)
    ]
    return Figure(
        "grams",
        "A Gram matrix, exact and from features",
        "Similarity of each pair of examples, sorted by class, under a Gaussian kernel: exact, and as inner products "
        "of few and of many random features. With few features noise hides the classes; with many, the matrices can "
        "hardly be told apart.",
        rows,
        Axis("column", "example"),
        Axis("row", "example"),
        Map("value", "similarity"),
        facet="panel",
        group=None,
        claims=("rms-rate",),
    )


LESSON = Lesson(
    figures=figures,
    hero="errors",
    findings=(
        Finding(
            ("error-rate", "predictions-approach"),
            "Four times as many random features halve the error of a kernel (slope {0.mean}).",
            "Not as published: errors fall with slope {0.mean}, predictions come {1.mean} closer.",
            "Still open: errors fall with slope {0.mean}, predictions come {1.mean} closer.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"k(x, z) = \int p(\omega) \cos \langle \omega, x - z \rangle d\omega",
            "A shift-invariant kernel is a mean of cosines over random frequencies (Bochner's theorem).",
        ),
        Formula(
            r"e^{-|\Delta|_2^2 / 2} \leftrightarrow (2 \pi)^{-d/2} e^{-|\omega|_2^2 / 2}",
            "Gaussian kernel: normal frequencies.",
        ),
        Formula(
            r"e^{-|\Delta|_1} \leftrightarrow \prod_i \frac{1}{\pi (1 + \omega_i^2)}",
            "Laplacian kernel with the 1-norm: Cauchy frequencies.",
        ),
        Formula(
            r"\prod_i \frac{1}{1 + \Delta_i^2} \leftrightarrow \prod_i \frac{1}{2} e^{-|\omega_i|}",
            "Cauchy kernel: Laplace frequencies. Sometimes printed with numerators 2 and without factors 1/2; then "
            "both sides are too large by a factor of 2 per dimension.",
        ),
    ),
    questions=(
        Question(
            "Does the same rate hold for one-dimensional signals, whose kernels differ from those of images?",
            "truerisk lab run kernels --data mnist1d",
        ),
        Question(
            "Does the distance depend on the number of features, or on the ratio of features to examples?",
            "truerisk lab run kernels --scale medium",
        ),
        Question(
            "What happens below and at N = n, where this experiment does not go?",
            "truerisk lab run convex-regularization",
        ),
    ),
)
