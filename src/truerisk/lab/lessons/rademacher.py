"""The lesson of `rademacher`: a family that follows any random signs has a bound that says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.rademacher import DELTA, _inputs, bound
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Images, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.rows import Row, Rows
from truerisk.lab.sgd import decaying_sgd
from truerisk.lab.spelling import spell
from truerisk.lab.strips import strip, strips
from truerisk.measures import signs
from truerisk.nets import outputs
from truerisk.nets.classics import classic
from truerisk.seeds import derive, seeded_globals
from truerisk.training import learn
from truerisk.words import lower

NETWORK, AFFINE, UPPER = "network (MLP 1x512)", "affine classifiers", "affine classifiers, upper bound"
EXAMPLES = Axis("n", "number of examples", log=True)
MOST, TILES = 500, 12  # training images of the demo, and those that it shows
MINUS = "\u2212"


def figures(rows: Rows) -> list[Exhibit]:
    linear = rows.converged().where(part="linear")
    networks = rows.converged().where(part=("signs", "sizes"), data="mnist1d")
    return [_complexity(linear, networks), _bound_figure(linear, networks), _laws(linear, networks), _table(rows)]


def _long(**series: tuple[Rows, str]) -> list[dict[str, Any]]:
    """One row for each run and series, with its complexity."""
    return [
        {"n": row["n"], "seed": row["seed"], "family": name, "complexity": row[field]}
        for name, (some, field) in series.items()
        for row in some
    ]


def _complexity(linear: Rows, networks: Rows) -> Figure:
    return Figure(
        "complexity",
        "Agreement with random signs against the number of examples",
        "Correlation of the best classifier found with random signs, a lower estimate of the Rademacher complexity, "
        "against the number of MNIST-1D examples. At 1 every sign is fitted. Affine classifiers have 41 parameters "
        "and fit fewer signs as examples are added; a network that stays at 1 can fit any labels.",
        _long(**{NETWORK: (networks, "correlation"), AFFINE: (linear, "correlation")}),
        EXAMPLES,
        Axis("complexity", "correlation with random signs", zero=True),
        series="family",
        claims=("networks-fit-signs", "linear-falls"),
    )


def _bound_figure(linear: Rows, networks: Rows) -> Figure:
    found = _long(**{NETWORK: (networks, "correlation"), AFFINE: (linear, "upper")})
    return Figure(
        "bound",
        "The Rademacher bound on the risk",
        "The Rademacher bound on how far the risk can exceed the training error, with probability 0.95, from the "
        "second formula. A bound of 1 or more says nothing, because no risk exceeds 1. The curve of affine classifiers "
        "uses a proven upper bound on their complexity; the curve of the network is a lower estimate.",
        [{**row, "bound": _bound(row)} for row in found],
        EXAMPLES,
        Axis("bound", "bound on risk minus training error", zero=True, bound=True),
        series="family",
        rules=[Rule(1.0, "1 or more says nothing")],
        observed=[NETWORK],
        claims=("bound-says-nothing",),
    )


def _bound(row: Row) -> float:
    return bound(Rows([{"correlation": row["complexity"], "n": row["n"]}]))


def _laws(linear: Rows, networks: Rows) -> Figure:
    series = {
        NETWORK: (networks, "correlation"),
        UPPER: (linear, "upper"),
        f"{AFFINE}, found": (linear, "correlation"),
        "linear functions of bounded norm": (linear, "ball"),
    }
    return Figure(
        "laws",
        "Which families follow a square-root law?",
        "Rademacher complexity against the number of examples, both on logarithmic axes. The upper bound counts the "
        "labelings that affine classifiers can produce (Cover's formula). A complexity that falls like one over the "
        "square root of n is a straight line that halves whenever n grows fourfold.",
        _long(**series),
        EXAMPLES,
        Axis("complexity", "Rademacher complexity", log=True, bound=True),
        series="family",
        observed=sorted(series.keys() - {UPPER}),
        claims=("linear-below-bound", "linear-falls", "ball-formula"),
    )


def _table(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    for (model, data, n), some in rows.where(part="signs").groups("model", "data", "n"):
        found = [row["correlation"] for row in some]
        if found:  # runs that are missing leave gaps
            least = signs.proven_complexity(found, n, DELTA)
            numbers = f"{sum(found) / len(found):.3f}", lower(least, 3), lower(_bound({"complexity": least, "n": n}), 2)
            lines.append([spell(model), spell(data), n, len(found), *numbers])
    return Table(
        "bounds",
        "The Rademacher bound for each network",
        "Lower ends of the bound (Mohri et al. 2018, Theorem 3.5) for networks without training errors. In each row R "
        "is at least the number shown with probability 0.95 over the signs, by McDiarmid's inequality. A bound of 1 or "
        "more says nothing.",
        ("network", "data", "examples", "draws of signs", "mean correlation", "R is at least", "bound is at least"),
        lines,
    )


def demo(setting: Setting) -> Record:
    """The first network of the grid on its random signs, next to the affine classifier of least squares."""
    s = {**setting, "n": min(setting["n"], MOST)}
    inputs = _inputs(s)
    drawn = signs.draw_signs(s["n"], 1, derive(s["seed"], "signs"))[0]
    train = replace(inputs, y=(drawn > 0).astype(np.int64), classes=2, source=None, class_names=())
    with seeded_globals(derive(s["seed"], "weights")):
        network = classic(s["model"], train.input_shape, 2)
    learn(network, train, train.take(range(1)), decaying_sgd(s, derive(s["seed"], "batches")), every=s["every"])
    flat = np.column_stack([inputs.X.reshape(s["n"], -1).astype(np.float64), np.ones(s["n"])])
    affine = np.sign(flat @ np.linalg.lstsq(flat, drawn, rcond=None)[0])
    said = {
        "random signs": drawn,
        "affine classifier": affine,
        spell(s["model"]): 2.0 * outputs(network, train.X).numpy().argmax(axis=1) - 1,
    }
    shown = slice(min(TILES, s["n"]))
    found = []
    for name, answers in said.items():
        agreed = f", {np.mean(answers == drawn):.0%} right" if name != "random signs" else ""
        words = ["+" if answer > 0 else MINUS for answer in answers[shown]]
        found.append(strip(f"{name}{agreed}", inputs.X[shown], words, answers[shown] != drawn[shown]))
    return {"strips": found}


def pictures(record: Record) -> Sequence[Exhibit]:
    shown = strips(record)
    caption = (
        "Training images, each with a sign from the toss of a coin, and the answers of two classifiers trained on "
        "these signs. Signs that a classifier misses are marked; percentages count all training images. The "
        "correlation with the signs is twice the share of correct signs, minus 1."
    )
    return (
        [Images("signs", "Which classifiers can fit random signs?", caption, shown, ("networks-fit-signs",))]
        if shown
        else []
    )


LESSON = Lesson(
    figures=figures,
    hero="complexity",
    findings=(
        Finding(
            ("networks-fit-signs",),
            "Networks fit at least {0.low} of random signs: their Rademacher complexity is about 1.",
            "Only {0.mean} of random signs are fitted in {0.cell}.",
            "In {0.cell}, {0.mean} of random signs are fitted, too close to 99%.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\hat{R}(H) = \mathbb{E}_\sigma \max_{h \in H} \frac{1}{n} \sum_{i=1}^{n} \sigma_i h(x_i)",
            "The empirical Rademacher complexity of a family H: how well its best member agrees with random signs, on "
            "average.",
        ),
        Formula(
            r"L(h) \le \hat{L}(h) + \hat{R}(H) + 3 \sqrt{\log(2 / \delta) / (2n)}",
            "With probability 1 \u2212 delta, the risk of every classifier h in H is at most its training error plus R "
            "and a term for chance. With R near 1 the bound says nothing.",
        ),
    ),
    questions=(
        Question(
            "Does the complexity of AlexNet on 1,000 photographs also reach 1?",
            "truerisk lab run rademacher --scale medium",
        ),
        Question(
            "How well does a network of only 16 hidden units correlate with random signs?",
            "truerisk measure --model mlp:16 --only random-sign-correlation",
        ),
        Question(
            "What risk can be certified for a network although its family fits any signs?",
            "truerisk certify",
        ),
    ),
)
