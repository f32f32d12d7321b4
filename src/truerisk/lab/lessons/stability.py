"""The lesson of `stability`: twins that differ in one training example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from truerisk.bounds import uniform_stability
from truerisk.lab.experiments.stability import CONVEX_DECAYS, RATES
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Slope
from truerisk.lab.rows import Row, Rows
from truerisk.lab.twin_bounds import DELTA, estimated, needed, proven
from truerisk.lab.twin_effects import CONVEX_RATES, RANDOM, TRUE
from truerisk.lab.twin_pictures import demo, pictures

ARMS = ("network", "decay", "labels", "sizes", "softmax", "softmax-decay", "softmax-sizes")
NEEDED = "needed for a bound below 1"
EPOCHS = Axis("epoch", "epochs of training", log=True)
LABELS = {TRUE: "true labels", RANDOM: "random labels"}
KNOWN_RATE, SHOWN_RATE, SHOWN_DECAY = CONVEX_RATES[2], RATES[2], CONVEX_DECAYS[2]
CASES = ("softmax regression: proven", "with weight decay: proven", "network: constants estimated")
COLUMNS = ["examples", "training loss", "test loss", "stability, measured", "stability, proven", "bound on true loss"]
BOUND, MEASURED = "bound of the theorem", "largest measured"


def figures(rows: Rows) -> list[Exhibit]:
    done = rows.converged()
    arms: dict[str, list[Row]] = {name: [row for row in done if row["arm"] == name] for name in ARMS}
    return [
        _distance(arms["network"]),
        _gap(arms["network"]),
        _length(arms["network"]),
        _theorems(arms),
        _labels(arms["labels"]),
        _identity(arms["labels"]),
        _needed(arms),
        _decay(arms["decay"]),
        _layers(arms["network"]),
        _numbers(arms),
    ]


def over_epochs(rows: Iterable[Row], name: str, field: str = "rates") -> list[dict[str, Any]]:
    """A number of each arm after each watched epoch, one row for each."""
    return [
        {"epoch": epoch, "value": value, "arm": arm, "length": epoch * row["rates"][k], "seed": row["seed"], "k": k}
        for row in rows
        for k, arm in enumerate(row[field])
        for epoch, value in zip(row["epochs_watched"], row[name][k], strict=True)
    ]


def _distance(runs: Sequence[Row]) -> Figure:
    return Figure(
        "distance",
        "How far apart are twins that differ in one example?",
        "Relative distance between the weights of two networks whose training sets differ in one example, against "
        "epochs, for five step sizes; mean over twin pairs. All twins start at distance 0. If one example mattered in "
        "proportion to the step, lines would start evenly spaced.",
        over_epochs(runs, "distance"),
        EPOCHS,
        Axis("value", "distance of the twins", log=True),
        series="arm",
        series_title="step size",
        claims=("distance-halves",),
    )


def _gap(runs: Sequence[Row]) -> Figure:
    caption = (
        "Gap in cross-entropy, test minus training, against epochs, for five step sizes. Steps differ by factors of 2. "
        "If halving the step halved the gap, each line would run at half the height of the next."
    )
    return _gaps("gap", "Do smaller steps generalize better?", caption, runs, EPOCHS, "gap-halves")


def _length(runs: Sequence[Row]) -> Figure:
    caption = (
        "The gap in cross-entropy against step size times epochs: how far training has gone. If the lines fall "
        "together, a smaller step has the effect of fewer epochs, and nothing else."
    )
    x = Axis("length", "step size times epochs", log=True)
    return _gaps("length", "Smaller steps, or less training?", caption, runs, x, "length-decides")


def _gaps(name: str, title: str, caption: str, runs: Sequence[Row], x: Axis, claim: str) -> Figure:
    y = Axis("value", "gap in cross-entropy", zero=True)
    rows = over_epochs(runs, "gap_ce")
    return Figure(name, title, caption, rows, x, y, series="arm", series_title="step size", claims=(claim,))


def _theorems(arms: dict[str, list[Row]]) -> Figure:
    made: list[dict[str, Any]] = []
    for name, case, field, value in (
        ("softmax", CASES[0], "rates", KNOWN_RATE),
        ("softmax-decay", CASES[1], "decays", SHOWN_DECAY),
        ("network", CASES[2], "rates", SHOWN_RATE),
    ):
        for row in arms[name]:
            if value not in row[field]:
                continue
            k = row[field].index(value)
            bound = estimated(row, k) if name == "network" else proven(row)["worst"][k].tolist()
            for what, values in ((BOUND, bound), (MEASURED, row["worst"][k])):
                made += [
                    {"epoch": epoch, "value": one, "what": what, "case": case, "seed": row["seed"]}
                    for epoch, one in zip(row["epochs_watched"], values, strict=True)
                ]
    return Figure(
        "theorems",
        "What do the theorems say, and what happens?",
        "Largest difference between twins in a loss from 0 to 1, over pairs, inputs, and labels, and its bound, "
        "against epochs. Bounds of 1 or more are vacuous: they say nothing. The network's constants are lower "
        "estimates, so its true bound is larger still.",
        made,
        EPOCHS,
        Axis("value", "difference in loss", log=True, bound=True),
        series="what",
        series_title="",
        facet="case",
        rules=[Rule(1.0, "vacuous", shaded=True)],
        claims=("convex-bound", "tight-early", "loose-late"),
        observed=(MEASURED,),
    )


def _labels(runs: Sequence[Row]) -> Figure:
    rows = [{**one, "labels": LABELS[row["labels"]]} for row in runs for one in over_epochs([row], "distance")]
    return Figure(
        "labels",
        "Do twins notice random labels?",
        "Relative distance of twins that learn the same images with true and with random labels, until they fit all of "
        "them. Uniform stability is a worst case over all labels, so it has one value for both lines.",
        rows,
        EPOCHS,
        Axis("value", "distance of the twins", log=True),
        series="labels",
        series_title="training with",
        claims=("random-labels-less-stable",),
    )


def _identity(runs: Sequence[Row]) -> Figure:
    ways = {"new examples": "gap", "mean of twins": "by_twins", "worst case of twins": "worst"}
    rows = [
        {"by": shown, "value": row[name][0][-1], "labels": LABELS[row["labels"]], "seed": row["seed"]}
        for row in runs
        for shown, name in ways.items()
    ]
    return Figure(
        "identity",
        "What do twins know about generalization?",
        "Gap in a loss from 0 to 1 by new examples, by twins (mean loss on an example without training on it, minus "
        "loss with it), and the largest difference of any twins. The first two have equal expectations. Where the "
        "third is equal for both labels, uniform stability cannot tell them apart.",
        rows,
        Axis("by", "measured by", ordinal=True),
        Axis("value", "gap in loss", zero=True),
        mark=Slope(),
        series="labels",
        series_title="training with",
        claims=("twins-measure-gap", "no-uniform-bound"),
    )


def _needed(arms: dict[str, list[Row]]) -> Figure:
    rows = []
    for row in [*arms["sizes"], *arms["softmax-sizes"]]:
        here, net = {"n": row["n"], "seed": row["seed"]}, row["arm"] == "sizes"
        name = "network, measured" if net else "softmax regression, measured"
        rows.append({**here, "who": name, "value": row["worst"][0][-1]})
        if not net:
            rows.append({**here, "who": "softmax regression, proven", "value": float(proven(row)["worst"][0, -1])})
        limit = needed(row["n"])
        if limit is not None and not any(r["who"] == NEEDED and r["n"] == row["n"] for r in rows):
            rows.append({"n": row["n"], "seed": 0, "who": NEEDED, "value": limit})
    return Figure(
        "needed",
        "How stable would training have to be for a bound below 1?",
        "Change of a loss from 0 to 1 by one training example, against the number of examples. Above the needed line, "
        "the bound of Bousquet and Elisseeff is 1 or more even with training loss 0. Measured values are "
        "lower estimates: above that line no such bound exists.",
        rows,
        Axis("n", "training examples", log=True),
        Axis("value", "stability", log=True, bound=True),
        series="who",
        series_title="stability",
        claims=("too-unstable",),
        observed=("network, measured", "softmax regression, measured", NEEDED),
    )


def _decay(runs: Sequence[Row]) -> Figure:
    parts = {"gap in cross-entropy": "gap_ce", "distance of the twins": "distance"}
    rows = [
        {"decay": f"{decay:g}", "of": shown, "value": row[name][k][-1] / row[name][0][-1], "seed": row["seed"]}
        for row in runs
        for shown, name in parts.items()
        for k, decay in enumerate(row["decays"])
        if row[name][0][-1] > 0
    ]
    return Figure(
        "decay",
        "What does weight decay change?",
        "Gap in cross-entropy and relative distance of the twins after the last epoch, over the same without weight "
        "decay. If decay worked through stability alone, both would fall.",
        rows,
        Axis("decay", "weight decay", ordinal=True),
        Axis("value", "relative to no decay"),
        mark=Bars(),
        facet="of",
        rules=[Rule(1.0, "no change")],
        claims=("decay-lowers-gap", "decay-keeps-distance"),
    )


def _layers(runs: Sequence[Row]) -> Figure:
    names = ("first layer", "second layer", "third layer")
    rows = [
        {"layer": names[i] if i < last else "all weights", "value": value, "rate": rate, "seed": row["seed"]}
        for row in runs
        for rate, layers in zip(row["rates"], row["layers"], strict=True)
        for last in [len(layers) - 1]
        for i, value in enumerate(layers)
    ]
    return Figure(
        "layers",
        "In which layer do twins differ?",
        "Relative distance of the twins after the last epoch, for each layer, against the step size. Lines that run in "
        "parallel say that a larger step moves all layers apart alike.",
        rows,
        Axis("rate", "step size", log=True),
        Axis("value", "distance of the twins", log=True),
        series="layer",
        series_title="weights",
    )


def _numbers(arms: dict[str, list[Row]]) -> Table:
    """The bound of Bousquet and Elisseeff for softmax regression, of the first seed."""
    rows, first = [], min((row["seed"] for row in arms["softmax-sizes"]), default=0)
    for row in arms["softmax-sizes"]:
        if row["seed"] == first:
            stability, loss = float(proven(row)["worst"][0, -1]), row["train_loss"][0][-1]
            bound = uniform_stability(loss, stability, row["n"], DELTA)
            cells = f"{loss:.3f}", f"{loss + row['gap'][0][-1]:.3f}", f"{row['worst'][0][-1]:.2g}", f"{stability:.2g}"
            rows.append([f"{row['n']:,}", *cells, f"{np.ceil(1000 * bound) / 1000:.3f}"])
    return Table(
        "numbers",
        "A bound by stability with all constants",
        "Softmax regression after one epoch whose steps sum to 10: mean of the loss 1 - p(label), and its bound, which "
        "holds with probability 95% (rounded up). Guessing among ten classes has loss 0.9.",
        COLUMNS,
        rows,
    )


LESSON = Lesson(
    figures=figures,
    hero="distance",
    findings=(
        Finding(
            ("distance-halves",),
            "Half the step size leaves twins {0.mean} as far apart after one epoch.",
            "Halving the step does not halve the distance of the twins.",
            "Whether half the step leaves twins half as far apart is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question("Are twins as close on one-dimensional signals?", "truerisk lab run stability --data mnist1d"),
        Question("Does halving the step halve the gap on MNIST?", "truerisk lab run stability --scale medium"),
        Question(
            "Which bounds on a network's true risk do hold, if not those by stability?",
            "truerisk certify --data digits",
        ),
    ),
    formulas=(
        Formula(
            r"| \ell(A(S), z) - \ell(A(S^i), z) | \le \varepsilon \quad \text{for all } S, S^i, z",
            "Uniform stability: replacing one training example changes no loss by more than epsilon.",
        ),
        Formula(
            r"\varepsilon \le \frac{2 L^2}{n} \sum_t \alpha_t",
            "SGD on convex losses with gradients of norm at most L is stable if its steps are few and small.",
        ),
        Formula(
            r"R \le \hat R + \varepsilon + (2 n \varepsilon + 1) \sqrt{\frac{\ln (1/\delta)}{2n}}",
            "A stable learner generalizes with high probability; the bound is below 1 only if epsilon is well below "
            "one over the root of n.",
        ),
    ),
)
