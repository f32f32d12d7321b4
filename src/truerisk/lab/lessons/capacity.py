"""The lesson of `capacity`: a narrow network fits real data, but not noise."""

from __future__ import annotations

import math

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.capacity import HALF
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Lesson, Question
from truerisk.lab.marks import Line
from truerisk.lab.networks import build, halving_sgd
from truerisk.lab.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, STEPS
from truerisk.seeds import derive
from truerisk.training.learn import learn

WIDTH = "units in each of two hidden layers"
PURE = [0.0, 1.0]  # noise levels of data that are all real, or all noise
LATE = "stopped before all examples were fitted"
TILES = 10  # of a strip
NARROW, WIDE = 16, 256  # networks of the demo
MOST = {"n": 1000, "epochs": 150}  # of the demo, whatever the scale


def figures(rows: Rows) -> list[Exhibit]:
    named = rows.converged().having(
        data=lambda row: NAMES[row["noise"]], fitted_share=lambda row: 1 - row["train_error"]
    )
    counts = named.values("n")
    most, fewest = named.where(n=max(counts, default=0)), named.where(n=min(counts, default=0))
    sizes = named.where(width=fewest.values("width"), level=PURE)
    return [_by_width(most.where(level=PURE)), _fitted(most.where(level=PURE)), _by_size(sizes), _accuracy(most)]


def _by_width(rows: Rows) -> Figure:
    limits = {row["epochs"] * math.ceil(row["n"] / row["batch"]) for row in rows}
    return Figure(
        "time-by-width",
        "How long does it take to fit the training set?",
        f"Steps of SGD until every training example is classified correctly, against the {WIDTH}. At the dashed line "
        "training stopped, so the true time of points there is longer. Steeper curves for noise than for real data "
        "mean that noise needs capacity where patterns do not.",
        _ordered(rows),
        Axis("width", WIDTH, log=True),
        Axis("steps", "steps of SGD until fitted", STEPS, log=True),
        Line(),
        series="data",
        series_title="training data",
        rules=[Rule(limit, "training stopped") for limit in limits],
        claims=("capacity-time",),
    )


def _fitted(rows: Rows) -> Figure:
    return Figure(
        "fitted",
        "How much noise fits into a narrow network?",
        f"Share of the training examples that a network classifies correctly when training stops, against the {WIDTH}. "
        "At 100% the network has fitted everything. If real data reach 100% at widths where noise does not, the shared "
        "patterns of real data need less capacity.",
        _ordered(rows),
        Axis("width", WIDTH, log=True),
        Axis("fitted_share", "training examples fitted", PERCENT, zero=True, counted_on="n"),
        Line(),
        series="data",
        series_title="training data",
        claims=("capacity-time",),
    )


def _by_size(rows: Rows) -> Figure:
    return Figure(
        "time-by-n",
        "Do more examples slow down noise more?",
        "Steps of SGD until every training example is classified correctly, against the number of training examples, "
        "at one width. If the curves drift apart, each further random example takes longer to learn than a real one: "
        "no earlier example helps.",
        _ordered(rows),
        Axis("n", "training examples", log=True),
        Axis("steps", "steps of SGD until fitted", STEPS, log=True),
        Line(),
        series="data",
        series_title="training data",
        claims=("size-time",),
        dots=rows.where(fitted=False),
        dots_title=LATE,
    )


def _accuracy(rows: Rows) -> Figure:
    mixed = f"{percent(HALF, 0)} "
    return Figure(
        "capacity-accuracy",
        "Does noise among the examples call for wider networks?",
        f"Error on real test examples against width, with random inputs or labels in {percent(HALF, 0)} of the "
        "training examples or in none. The claim compares a middle width with the widest network. If curves with noise "
        "stop falling at the middle width, that width is already enough.",
        _ordered(rows.where(level=[0.0, HALF])).having(
            data=lambda row: row["data"] if row["noise"] == REAL else mixed + row["data"]
        ),
        Axis("width", WIDTH, log=True),
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        Line(),
        series="data",
        series_title="training data",
        claims=("enough-for-real-data", "not-enough-for-noise"),
    )


def _ordered(rows: Rows) -> Rows:
    """In the order of `NAMES`, so that all figures have the same colors."""
    return Rows(sorted(rows, key=lambda row: list(NAMES).index(row["noise"])))


def demo(setting: Setting) -> Record:
    """The first training examples of each kind, and how fast a narrow and a wide network fit them all."""
    seed, own = setting["seed"], {name: min(setting[name], most) for name, most in MOST.items()}
    true, test = noisy_samples(setting["data"], own["n"], 1, REAL, 1.0, seed)
    strips, curves = [], []
    for noise in (REAL, RAND_X, RAND_Y):
        train, _ = noisy_samples(setting["data"], own["n"], 1, noise, 1.0, seed)
        tiles = [
            {"pixels": pixels(train.X[i]), "label": int(train.y[i]), "wrong": bool(train.y[i] != true.y[i])}
            for i in range(TILES)
        ]
        strips.append({"kind": noise, "tiles": tiles})
        for units in (NARROW, WIDE):
            module = build("mlp", train.input_shape, train.classes, [units] * 2, derive(seed, "demo weights"))
            plan = halving_sgd({**setting, **own, "seed": derive(seed, "demo training")})
            curve = learn(module, train, test, plan)
            curves.append({"kind": noise, "units": units, "at": curve.steps, "errors": curve.train_error})
    return {"strips": strips, "curves": curves}


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("strips"):
        return []
    strips = [
        Strip(NAMES[strip["kind"]], [Tile(one["pixels"], str(one["label"]), one["wrong"]) for one in strip["tiles"]])
        for strip in record["strips"]
    ]
    curves = [
        {"data": NAMES[curve["kind"]], "units": curve["units"], "step": step, "fitted": 1 - error}
        for curve in record["curves"]
        for step, error in zip(curve["at"], curve["errors"], strict=True)
    ]
    return [
        Images(
            "kinds",
            "Real data, random inputs, and random labels",
            "Ten training examples in three forms, with the labels that a network must learn. Random inputs replace "
            "the image and keep the label; random labels keep the image, and wrong ones are colored. Only in the "
            "first row do labels follow from images.",
            strips,
        ),
        Figure(
            "learning-curves",
            "How do a narrow and a wide network learn?",
            "Share of the training examples that are classified correctly, against steps of SGD, in one run. A curve "
            "ends where all examples are fitted. Move the slider from a narrow to a wide network and compare how much "
            "each kind of data gains.",
            curves,
            Axis("step", "steps of SGD"),
            Axis("fitted", "training examples fitted", PERCENT, zero=True),
            Line(points=False),
            series="data",
            series_title="training data",
            slider=Axis("units", WIDTH),
            claims=("capacity-time",),
            group=None,
        ),
    ]


LESSON = Lesson(
    figures=figures,
    hero="time-by-width",
    findings=(
        Finding(
            ("capacity-time",),
            reproduced="Narrow networks learn noise slowly: at least {0.low} the slowdown of real data.",
            not_reproduced="Narrow networks delay noise little more: {0.mean} the slowdown of real data.",
            no_verdict="Narrow networks may learn noise slowly: {0.mean} the slowdown of real data.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "On MNIST, does noise among the training examples demand more than 256 units?",
            "truerisk lab run capacity --scale medium",
        ),
        Question(
            "Is a network that cannot fit noise too small, or is SGD too weak to find the weights?",
            "truerisk lab run memorizer",
        ),
        Question(
            "Do random labels slow down training on images of clothes as much as on digits?",
            "truerisk lab run random-labels --data fashion-mnist",
        ),
    ),
)
