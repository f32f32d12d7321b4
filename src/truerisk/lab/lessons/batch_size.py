"""The lesson of `batch-size`: what a larger batch changes, what its rate undoes, and what sharpness cannot say."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from truerisk.lab.batch_pictures import demo, pictures
from truerisk.lab.figure import Axis, Exhibit, Figure, Linked, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line
from truerisk.lab.rows import Row, Rows
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT, TIMES

SAME, SCALED, EPOCHS = "one rate for all batches", "rate in proportion to the batch", "equal epochs"
ENDS = (Rule(0.0, "small batch", upright=True), Rule(1.0, "large batch", upright=True))
FACTOR = Axis("factor", "factor on the first layer", log=True)
BATCH = Axis("batch", "batch size", log=True)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    kinds = {kind: [row for row in rows.converged() if row["kind"] == kind] for kind in ("batches", "copies", "twins")}
    made = [{**row, "panel": _panel(row), "way": _way(row)} for row in kinds["batches"]]
    found: list[Exhibit] = [_hero(kinds["twins"]), _line(made), _sharpness(made), _errors(made), _table(made)]
    return [*found, _copies(kinds["copies"]), _twins(kinds["twins"]), _to_itself(kinds["twins"])]


def _panel(row: Row) -> str:
    net = ", convolutions" if row["net"] == "convnet" else ""
    return f"{spell(row['data'].rpartition('/')[2])}{net}"


def _way(row: Row) -> str:
    if row["stop"] == "epochs":
        return EPOCHS
    return SCALED if row["rate"] == "scaled" else SAME


def _hero(rows: Sequence[Row]) -> Linked:
    """One network, any sharpness: its section, its sharpness, and its error, moved by one slider."""
    runs = rows[:1]
    sections = [
        {"factor": factor, "t": t, "loss": loss}
        for run in runs
        for factor, losses in zip(run["factors"], run["sections"], strict=True)
        for t, loss in zip(run["section_at"], losses, strict=True)
    ]
    along = [
        {"at": factor, "keskar": keskar, "error": error}
        for run in runs
        for factor, keskar, error in zip(run["factors"], run["keskar"], run["test_errors"], strict=True)
    ]
    moved: dict[str, Any] = {
        "slider": Axis("factor", "factor on the first layer"), "starts_at": 10.0 if runs else None, "group": None
    }  # fmt: skip
    dots = [{**row, "factor": row["at"]} for row in along]
    at = Axis("at", "factor on the first layer", log=True)
    loss = Axis("loss", "training loss", log=True)
    return Linked(
        "one-function",
        "One function, any sharpness",
        "The first layer of a trained network is multiplied by a factor and its second divided by it; move the slider. "
        "Left: the loss along one random direction through the weights. The valley narrows, Keskar sharpness rises by "
        "orders of magnitude, and every prediction remains the same.",
        [
            Figure("section", "Loss around its weights", "", sections, Axis("t", "distance"), loss, Line(points=False),
                   **moved),
            Figure("keskar", "Its Keskar sharpness", "", along, at, Axis("keskar", "percent", log=True), dots=dots,
                   **moved),
            Figure("error", "Its error on new images", "", along, at, Axis("error", "error", PERCENT, zero=True),
                   dots=dots, **moved),
        ],
        shares=(4, 3, 3),
        claims=("twin-sharpness", "twin-function"),
    )  # fmt: skip


def _line(rows: Sequence[Row]) -> Figure:
    shown = [row for row in rows if row["stop"] == "loss" or row["net"] == "convnet"]
    return Figure(
        "line",
        "How does the loss rise around both networks?",
        "Training loss on the straight line through two networks from the same initial weights, trained with a small "
        "batch (at 0) and with a large one (at 1), and beyond both. A steeper rise on the right means that the minimum "
        "of the large batch is sharper along this line.",
        Rows(shown).unrolled(t="line_at", loss="line_train"),
        Axis("t", "place on the line"),
        Axis("loss", "training loss", log=True),
        Line(points=False),
        series="way",
        series_title="training",
        facet="panel",
        rules=ENDS,
        claims=("line-rises", "convnet-line"),
    )


def _sharpness(rows: Sequence[Row]) -> Figure:
    shown = Rows([row for row in rows if row["stop"] == "loss" or row["net"] == "convnet"])
    measures = {"Keskar": "keskar", "adaptive": "adaptive"}
    relative = shown.longer("values", measures, into="measure").having(
        ratios=lambda row: [value / row["values"][0] for value in row["values"]],
        where=lambda row: f"{row['panel']}, {row['measure']}",
    )
    return Figure(
        "sharpness",
        "Are minima of large batches sharper?",
        "Sharpness relative to that of the smallest batch, for Keskar's metric and for adaptive sharpness, which no "
        "rescaling changes. Fully connected networks stop at the same training loss. If the batch alone decided, the "
        "curve with a scaled rate would rise as well.",
        relative.unrolled(batch="batches", ratio="ratios"),
        BATCH,
        Axis("ratio", "sharpness, relative", TIMES, log=True),
        series="way",
        series_title="training",
        facet="where",
        rules=[Rule(1.0, "equal")],
        claims=("sharper", "sharper-adaptive", "scaled-sharpness", "convnet-sharper"),
    )


def _errors(rows: Sequence[Row]) -> Figure:
    return Figure(
        "errors",
        "Do large batches err more?",
        "Error on new examples against the batch size: after equal numbers of epochs, and at equal training loss with "
        "one rate or with a rate in proportion to the batch. A gap that closes at equal loss was training that had not "
        "ended.",
        Rows(rows).unrolled(batch="batches", error="test_errors"),
        BATCH,
        Axis("error", "error on new examples", PERCENT, zero=True, counted_on="n_test"),
        series="way",
        series_title="training",
        facet="panel",
        claims=("error-gap", "gap-at-equal-loss", "scaled-gap", "convnet-gap"),
    )


def _table(rows: Sequence[Row]) -> Table:
    cells: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        cells.setdefault((row["panel"], row["way"]), []).append(row["test_errors"][-1] - row["test_errors"][0])
    return Table(
        "effect-sizes",
        "How large is the gap, next to the spread over seeds?",
        "Test error with the largest batch minus that with the smallest, in points: mean and standard deviation over "
        "seeds, and their quotient. Below 1, the difference between two seeds usually hides the effect of the batch.",
        ["data", "training", "gap", "spread over seeds", "gap / spread"],
        [[panel, way, f"{100 * statistics.fmean(gaps):.2f}".replace("-", "\u2212"), *_noise(gaps)]
         for (panel, way), gaps in cells.items()],
    )  # fmt: skip


def _noise(gaps: Sequence[float]) -> tuple[str, str]:
    if len(gaps) < 2:
        return "one seed", "\u2013"
    spread = statistics.stdev(gaps)
    quotient = f"{abs(statistics.fmean(gaps)) / spread:.1f}" if spread else "\u2013"
    return f"{100 * spread:.2f}", quotient


def _copies(rows: Sequence[Row]) -> Figure:
    named = Rows(rows).having(
        way=lambda row: "full batch" if row["batch"] is None else f"batches of {row['batch']}",
        ratio=lambda row: [count / row["processed"][0] for count in row["processed"]],
    )
    return Figure(
        "copies",
        "What do copies of the examples change?",
        "Gradients of examples until a training loss is reached, relative to the training set without copies, with "
        "every example once, twice, and four times. A full batch repeats the same work for every copy. SGD has "
        "made its steps before it meets a copy.",
        named.having(times=lambda row: [str(k) for k in row["copies"]]).unrolled(copy="times", work="ratio"),
        Axis("copy", "copies of each example", ordinal=True),
        Axis("work", "gradients needed, relative", TIMES, zero=True),
        Bars(),
        series="way",
        series_title="gradient descent",
        claims=("copies-full-batch", "copies-sgd"),
    )


def _twins(rows: Sequence[Row]) -> Figure:
    measures = {"Keskar sharpness": "keskar", "adaptive sharpness": "adaptive"}
    relative = Rows(rows).longer("values", measures, into="measure").having(
        ratios=lambda row: [value / row["values"][row["factors"].index(1.0)] for value in row["values"]]
    )  # fmt: skip
    return Figure(
        "twins",
        "Which sharpness notices that nothing has changed?",
        "Sharpness of rescaled twins, which compute the same function, relative to that of the trained network. "
        "Keskar's box has a fixed part, so it is large for layers that were made small. The adaptive box moves with "
        "every weight.",
        relative.unrolled(factor="factors", ratio="ratios"),
        FACTOR,
        Axis("ratio", "sharpness, relative", TIMES, log=True),
        series="measure",
        series_title="measure",
        claims=("twin-sharpness", "twin-function"),
    )


def _to_itself(rows: Sequence[Row]) -> Figure:
    return Figure(
        "to-itself",
        "What lies between a network and its own twin?",
        "Training loss on the line from a trained network (at 0) to its twin with a factor of 10 (at 1). Both ends are "
        "the same function, with the same loss and the same errors. A barrier, a dip, or a steep side on such a line "
        "says how weights are scaled, not how well the function predicts.",
        Rows(rows).unrolled(t="line_at", loss="line_train"),
        Axis("t", "place on the line"),
        Axis("loss", "training loss", log=True),
        Line(points=False),
        rules=(Rule(0.0, "network", upright=True), Rule(1.0, "its twin", upright=True)),
        claims=("twin-function",),
    )


LESSON = Lesson(
    figures=figures,
    hero="one-function",
    findings=(
        Finding(
            ("twin-sharpness",),
            "Of twins with the same function, the sharpest is {0.mean} as sharp.",
            "The sharpest twin of a function is {0.mean} as sharp as the flattest.",
            "Of twins with the same function, the sharpest is about {0.mean} as sharp.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does a convolutional network with batch norm and Adam show the published gap on CIFAR-10?",
            "truerisk lab run batch-size --scale medium",
        ),
        Question(
            "On two noisy moons, does the batch matter at all?",
            "truerisk lab run batch-size --data moons",
        ),
        Question(
            "If sharpness can be changed at will, which complexity measures cannot be?",
            "truerisk measure --audit",
        ),
    ),
    formulas=(
        Formula(
            r"\phi_{\epsilon} = 100 \, \frac{\max_{|u_i| \leq \epsilon (|w_i| + 1)} f(w + u) - f(w)}{1 + f(w)}",
            "Keskar sharpness is the largest rise of the loss in a box around the weights, in percent; here epsilon is "
            "0.001.",
        ),
        Formula(
            r"s_{\rho} = \max_{|u_i| \leq \rho |w_i|} f(w + u) - f(w)",
            "Adaptive sharpness allows each weight a change in proportion to its size, so rescaling cannot change it.",
        ),
        Formula(
            r"(W_2 / \alpha) \, \mathrm{relu}(\alpha W_1 x) = W_2 \, \mathrm{relu}(W_1 x)",
            "Rescaled twins: for positive alpha, a ReLU layer passes the factor on, and the next layer removes it.",
        ),
    ),
)
