"""The lesson of `conditioning`: all eigenvalues of a small network, before and after each remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.lab.conditioning_runs import OPTIMIZERS, WORD_RATES
from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.conditioning import DEPTHS, NETWORK, SCALES, WORDS
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Path, Points, Slope
from truerisk.lab.rows import Rows

ORDER = (  # the largest condition number first, as trials had them
    "none", "weight norm", "centered inputs", "standardized inputs", "layer norm", "skips", "He start",
    "weight norm, data start", "all", "batch norm",
)  # fmt: skip
SHORT = {"weight norm, data start": "weight norm, data", "all": "four at once"}
SHOWN = ("none", "standardized inputs", "He start", "skips", "layer norm", "batch norm")  # spectra in one panel
NAMED = ("none", "He start", "skips", "layer norm", "batch norm")  # in the scatter; all others have one color
CONDITION = Axis("condition", "condition number", log=True)


def figures(rows: Rows) -> Sequence[Exhibit]:
    rank = {name: place for place, name in enumerate(ORDER)}
    some = [dict(row, remedy_name=SHORT.get(row["remedy"], row["remedy"])) for row in rows if row["kind"] == NETWORK]
    nets = sorted(some, key=lambda row: rank[row["remedy"]])
    words = [row for row in rows if row["kind"] == WORDS]
    found: list[Exhibit] = [_hero(nets), _speed(nets), _spectra(nets), _training(nets)]
    found += [_depths([row for row in rows if row["kind"] == DEPTHS])]
    found += [_scales([row for row in rows if row["kind"] == SCALES])]
    if words or not len(rows):
        found += [_words(words), _rates(words)]
    return [*found, _numbers(nets)]


def _hero(nets: Sequence[dict[str, Any]]) -> Figure:
    return Figure(
        "condition",
        "How much more does the loss curve in its sharpest direction?",
        "Condition number of the same network at its start with one remedy each, on a logarithmic axis: the largest "
        "eigenvalue of the Gauss-Newton matrix over the n-th largest of n examples. At 1 all directions "
        "curve alike. Weight norm in its default form changes nothing.",
        [{**row, "condition": row["start"]["condition"]} for row in nets],
        Axis("remedy_name", "remedy", ordinal=True),
        CONDITION,
        mark=Points(),
        rules=[Rule(1.0, "perfect")],
        claims=("strong-remedies", "weak-remedies", "centering-alone", "batch-norm-first", "remedies-add"),
    )


def _speed(nets: Sequence[dict[str, Any]]) -> Figure:
    made = [
        {
            "condition": row["start"]["condition"],
            "loss": max(row["loss"], 1e-4),
            "remedy": row["remedy"] if row["remedy"] in NAMED else "others",
        }
        for row in nets
        if "loss" in row
    ]
    return Figure(
        "speed",
        "Does the condition number predict how far gradient descent gets?",
        "Training loss after a fixed number of steps of gradient descent, at the best of five rates, against the "
        "condition number at the start; one point for each network. If conditioning decided, the points "
        "would lie on a rising line.",
        made,
        CONDITION,
        Axis("loss", "training loss", log=True),
        mark=Points(),
        series="remedy",
        group=None,
        claims=("predicts-descent",),
    )


def _spectra(nets: Sequence[dict[str, Any]]) -> Figure:
    made = [
        {"rank": rank, "value": value, "remedy": row["remedy_name"], "seed": row["seed"]}
        for row in nets
        if row["remedy"] in SHOWN
        for rank, value in zip(row["start"]["ranks"], row["start"]["values"], strict=True)
    ]
    return Figure(
        "spectra",
        "How do the eigenvalues fall off?",
        "Eigenvalues of the Gauss-Newton matrix at the start, relative to the largest, by rank. A flat curve is well "
        "conditioned. Values near 10\u207b\u00b9\u2075 cannot be told from 0: there the network does not react "
        "at all. Follow the curves to the number of examples.",
        made,
        Axis("rank", "rank of the eigenvalue", log=True),
        Axis("value", "eigenvalue over the largest", log=True),
        mark=Line(points=False),
        series="remedy",
        series_title="remedy",
        claims=("outliers", "weight-norm-default"),
    )


def _training(nets: Sequence[dict[str, Any]]) -> Figure:
    made = [
        {"remedy": row["remedy_name"], "seed": row["seed"], "when": when, "condition": row[own]["condition"]}
        for row in nets
        if row["remedy"] in SHOWN and "end" in row
        for when, own in (("start", "start"), ("after descent", "end"))
    ]
    return Figure(
        "training",
        "Does training change the conditioning?",
        "Condition number at the start and after gradient descent at the best rate. A line that rises means that the "
        "conditioning becomes worse while the network learns.",
        made,
        Axis("when", "moment", ordinal=True),
        CONDITION,
        mark=Slope(),
        series="remedy",
        series_title="remedy",
    )


def _depths(rows: Sequence[dict[str, Any]]) -> Figure:
    return Figure(
        "depths",
        "Why is depth a problem?",
        "Condition number at the start against the number of hidden layers, for three networks. A straight line on "
        "this logarithmic axis means that each layer multiplies the condition number by the same factor.",
        [{**row, "condition": row["start"]["condition"]} for row in rows],
        Axis("depth", "hidden layers"),
        CONDITION,
        series="remedy",
        series_title="remedy",
    )


def _scales(rows: Sequence[dict[str, Any]]) -> Figure:
    return Figure(
        "scales",
        "How exact must the initial scale be?",
        "Condition number against the scale of the initial weights, relative to He's start. Smaller weights "
        "let signals die out, larger ones make the softmax saturate.",
        [{**row, "condition": row["start"]["condition"]} for row in rows],
        Axis("scale", "initial weights over He's", log=True),
        CONDITION,
        rules=[Rule(1.0, "He's start", upright=True)],
    )


def _words(rows: Sequence[dict[str, Any]]) -> Figure:
    made = [
        {"occurrences": count, "weight": weight, "optimizer": name, "seed": row["seed"], "part": part}
        for row in rows
        for name in OPTIMIZERS
        for part, (count, weight) in enumerate(zip(row["word_occurrences"], row["word_bins"][name], strict=True), 1)
    ]
    return Figure(
        "words",
        "Which optimizer learns rare words?",
        "Mean absolute weight that logistic regression gives to words, in tenths of the vocabulary from frequent to "
        "rare, each optimizer at the rate with the smallest training loss. All true weights have size 1, so a curve "
        "that falls neglects rare words.",
        made,
        Axis("part", "tenth of the vocabulary, frequent to rare"),
        Axis("weight", "mean absolute weight", zero=True),
        series="optimizer",
        series_title="optimizer",
        rules=[Rule(1.0, "true weights")],
        claims=("words-sgd", "words-adaptive", "words-condition"),
    )


def _rates(rows: Sequence[dict[str, Any]]) -> Figure:
    made = [
        {"rate": rate, "share": share, "optimizer": name, "seed": row["seed"]}
        for row in rows
        for name in OPTIMIZERS
        for rate, share in zip(WORD_RATES, row["word_ratios"][name], strict=True)
    ]
    return Figure(
        "word-rates",
        "Does the learning rate decide instead?",
        "Weight of the rarer half of all words over that of the most frequent tenth, against the learning rate. At 1 "
        "both get the same weight. No rate lets SGD reach 1; Adam needs a rate that is not too small.",
        made,
        Axis("rate", "learning rate", log=True),
        Axis("share", "weight of rare over frequent words", zero=True),
        series="optimizer",
        series_title="optimizer",
        rules=[Rule(1.0, "equal weight")],
        claims=("words-sgd", "words-adaptive"),
    )


def _numbers(nets: Sequence[dict[str, Any]]) -> Table:
    first = min((row["seed"] for row in nets), default=0)
    lines = [
        [row["remedy_name"], *(f"{row['start'][name]:.3g}" for name in ("largest", "condition", "condition_median",
         "effective_rank")), f"{row['loss']:.3g}" if "loss" in row else ""]
        for row in nets
        if row["seed"] == first
    ]  # fmt: skip
    return Table(
        "numbers",
        "Does the order depend on the definition?",
        "One seed: the largest eigenvalue, condition numbers by the n-th and by the median positive eigenvalue, the "
        "trace over the largest eigenvalue, and the loss after gradient descent.",
        ["remedy", "largest", "by the n-th", "by the median", "effective rank", "loss"],
        lines,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

STEPS, LONG, PLACE = 20, 30.0, (-4.0, 1.0)  # of gradient descent; curvatures 1 and 30


def demo(setting: Setting) -> dict[str, Any]:
    """Gradient descent on two quadratic bowls, at the largest stable rate of each, up to a tenth."""
    paths = {}
    for name, curvature in (
        ("condition number 30", np.array([1.0, LONG])),
        ("condition number 2", np.array([1.0, 2.0])),
    ):
        at, walk = np.array(PLACE), []
        for _ in range(STEPS + 1):
            walk.append([round(float(x), 4) for x in at])
            at = at - 1.9 / curvature.max() * curvature * at
        paths[name] = walk
    return {"paths": paths}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    rows = [{"x": x, "y": y, "bowl": name} for name, walk in record.get("paths", {}).items() for x, y in walk]
    if not rows:
        return []
    return [
        Figure(
            "bowl",
            "Why does conditioning matter?",
            "Gradient descent in two bowls, 20 steps each, at 95% of the largest stable rate. In the long bowl the "
            "sharp direction limits the rate, and the flat one then moves slowly. The bottom is at (0, 0).",
            rows,
            Axis("x", "flat direction"),
            Axis("y", "sharp direction"),
            Path(arrow=True),
            series="bowl",
            series_title="bowl",
            claims=("predicts-descent",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="condition",
    findings=(
        Finding(
            ("batch-norm-first", "strong-remedies"),
            "Batch norm conditions best: {0.mean} better than any other single remedy.",
            "Not every remedy conditions the network as trials did; see the table.",
            "Which remedy conditions the network best is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does the order of the remedies stay the same on MNIST?",
            "truerisk lab run conditioning --scale medium",
        ),
        Question(
            "How well conditioned is the same network on two moons, where inputs have two coordinates?",
            "truerisk lab run conditioning --data moons",
        ),
        Question(
            "Does better conditioning also mean that gradients reach the first layer?",
            "truerisk lab run vanishing-gradients",
        ),
    ),
    formulas=(
        Formula(
            r"G = \frac{1}{n} \sum_i J_i^\top ( \mathrm{diag}(p_i) - p_i p_i^\top ) J_i",
            "The Gauss-Newton matrix: the Hessian of the loss if the logits were linear in the weights, with Jacobians "
            "J and probabilities p.",
        ),
        Formula(
            r"\kappa = \lambda_1 / \lambda_n",
            "The condition number used here: the largest eigenvalue over the n-th largest, for n examples.",
        ),
        Formula(
            r"w = g \, v / \| v \|, \quad g = \| v \| \;\Rightarrow\; J_{(g, v)} J_{(g, v)}^\top = J_w J_w^\top",
            "Weight norm changes no eigenvalue where gains start as norms: its coordinates are orthonormal there.",
        ),
    ),
)
