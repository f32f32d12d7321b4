"""The lesson of `norm-capacity`: as networks grow, every hidden unit has less to learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.norm_capacity import AT_RANDOM, NOISY, RANDOM, RIVALS, TRUE
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Table, Tile
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Histogram, Slope
from truerisk.lab.rows import Row, Rows
from truerisk.lab.two_layer_run import BOUND, COUNT, OTHERS, learned, tensors, trained
from truerisk.lab.units import PERCENT

LABELS = {TRUE: "true labels", NOISY: "5% random labels", RANDOM: "random labels"}
WIDTH = Axis("width", "hidden units", log=True)
OWN = "unit capacity (2019)"
TERMS = {"unit_wise": OWN, **RIVALS}
MOVES = {"distance": "distance of all units", "capacity": "mean unit capacity", "impact": "mean unit impact"}


def figures(rows: Rows) -> list[Exhibit]:
    done = rows.converged()
    runs = Rows(run for run in done if "init" not in run).having(labels=lambda run: LABELS[run["noise"]])
    true, noisy = ([run for run in runs if run["noise"] == noise] for noise in (TRUE, NOISY))
    both, larger = Rows([*true, *noisy]), [run for run in done if "init" in run]
    found: list[Exhibit] = [_terms("terms", "Which capacity term falls as networks grow?", true, LABELS[TRUE])]
    found += [_errors(both), _moves(both), _bounds(true)]
    if noisy:
        found.insert(2, _terms("terms-noise", "Which term falls with 5% random labels?", noisy, LABELS[NOISY]))
    if larger:
        title = "Which term falls from larger initial weights?"
        found.append(_terms("terms-start", title, larger, "true labels, six times the initial variance"))
    if any(run["noise"] == RANDOM for run in runs):
        found.append(_random(runs))
    return [*found, _units(true), _numbers(true)]


def _fitted(runs: Sequence[Row], seed: int) -> list[Row]:
    """Runs of a seed that reached the target loss, from the reference on, the narrowest first."""
    mine = (run for run in runs if run["seed"] == seed and run["width"] >= run["reference"] and run["reached"])
    return sorted(mine, key=lambda run: run["width"])


def _first(runs: Sequence[Row]) -> int:
    return min((run["seed"] for run in runs), default=0)


def _terms(name: str, title: str, runs: Sequence[Row], says: str) -> Figure:
    """Each term over that of the narrowest network of the same seed."""
    rows = []
    for seed in sorted({run["seed"] for run in runs}):
        fitted = _fitted(runs, seed)
        for run in fitted:
            here = {"width": run["width"], "seed": seed}
            rows += [{**here, "term": shown, "relative": run[own] / fitted[0][own]} for own, shown in TERMS.items()]
    widths = [row["width"] for row in rows] or [1]
    caption = (
        f"Capacity terms of five bounds, over the margin and relative to {min(widths):,} hidden units, against width; "
        f"all networks fit their training set ({says}). A bound whose term rises predicts that wider networks "
        f"err more. The number of weights, a sixth term, grows by a factor of {max(widths) / min(widths):,.0f}."
    )
    return Figure(
        name,
        title,
        caption,
        rows,
        WIDTH,
        Axis("relative", "capacity term (first width = 1)", log=True),
        series="term",
        series_title="bound",
        rules=[Rule(1.0, "no change")],
        claims=("larger-start-reverses",) if name == "terms-start" else ("own-term-falls", "rivals-rise"),
    )


def _errors(runs: Rows) -> Figure:
    return Figure(
        "errors",
        "Do errors rise once the training error is 0?",
        "Training and test error against width. Where the training error is 0, further units only add capacity, as "
        "counted by weights. If that capacity mattered, the test error would rise from there on.",
        runs.longer("error", {"training examples": "train_error", "new examples": "test_error"}, into="on"),
        WIDTH,
        Axis("error", "error", PERCENT, zero=True, counted_on="n_test"),
        series="on",
        series_title="error on",
        facet="labels",
        claims=("errors-fall", "fits"),
    )


def _moves(runs: Rows) -> Figure:
    return Figure(
        "moves",
        "How far does training move the weights?",
        "Distance of the first layer from its initialization (Frobenius norm), mean unit capacity (how far a unit's "
        "incoming weights moved), and mean unit impact (norm of its outgoing weights), against width. If "
        "the first curve falls, the network as a whole moves less; the others then fall faster.",
        runs.longer("size", {shown: name for name, shown in MOVES.items()}, into="of"),
        WIDTH,
        Axis("size", "norm", log=True),
        series="of",
        series_title="norm",
        facet="labels",
        claims=("distance-falls", "units-do-less"),
    )


def _bounds(runs: Sequence[Row]) -> Figure:
    names = {BOUND: OWN, **OTHERS, COUNT: "VC dimension"}
    made = [
        {"width": run["width"], "seed": run["seed"], "bound": run["bounds"][name], "by": shown}
        for run in runs
        if run["reached"]
        for name, shown in names.items()
    ]
    return Figure(
        "bounds",
        "What do the bounds say, with all constants?",
        "Upper bounds on the true error with all constants and union bounds, against width (true labels). Bounds of 1 "
        "or more are vacuous: they say nothing. Norms are rounded up to powers of 2, which makes steps. A bound "
        "that explains the errors must not grow.",
        made,
        WIDTH,
        Axis("bound", "bound on the true error", log=True, bound=True),
        series="by",
        series_title="bound",
        rules=[Rule(1.0, "says nothing above", shaded=True)],
        claims=("smallest-bound",),
    )


def _random(runs: Rows) -> Figure:
    made = runs.where(width=list(AT_RANDOM)).having(units=lambda run: f"{run['width']:,} hidden units")
    return Figure(
        "random-labels",
        "How much more do random labels need?",
        "The term of Theorem 1 for networks that fit the same inputs with true, partly random, and all random labels. "
        "The number of weights is the same along each line. If the term measures what was learned, it rises.",
        sorted(made, key=lambda run: run["noise"]),
        Axis("labels", "training labels", ordinal=True),
        Axis("unit_wise", "term of Theorem 1", log=True),
        mark=Slope(),
        series="units",
        series_title="width",
        claims=("random-labels-need-more",),
    )


def _units(runs: Sequence[Row]) -> Figure:
    """Units of one seed; those that never moved have no logarithm."""
    mine = [run for run in runs if run["seed"] == _first(runs)]
    made = [{"width": run["width"], "beta": beta} for run in mine for beta in run["unit_capacities"] if beta > 0]
    return Figure(
        "units",
        "How far does each hidden unit move?",
        "Distribution of unit capacity, the distance that training moved a unit's incoming weights, in one network; "
        "move the slider to add hidden units. If the histogram moves left, each unit has less to learn.",
        made,
        Axis("beta", "unit capacity", log=True),
        Axis("share", "share of units", PERCENT),
        mark=Histogram(40),
        slider=Axis("width", "hidden units"),
        claims=("units-do-less",),
        group=None,
    )


def _numbers(runs: Sequence[Row]) -> Table:
    fitted = _fitted(runs, _first(runs))
    ends = [fitted[0], fitted[-1]] if fitted else []
    shown = {**TERMS, "weights": "number of weights", **MOVES, "margin": "margin (5th percentile)"}
    return Table(
        "numbers",
        "The terms as numbers",
        "Terms over the margin, norms, and margins of one network of each of two widths (true labels). Terms of "
        "different bounds have different constants, so compare columns, not rows.",
        ["term", *(f"{run['width']:,} hidden units" for run in ends)],
        [[name, *(_number(run[field]) for run in ends)] for field, name in shown.items()] if ends else [],
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


# ---- pictures ------------------------------------------------------------------------------------------------------

NARROW, WIDE, TILES, EXAMPLES, RATE = 16, 1024, 10, 500, 0.005


def demo(setting: Setting) -> Record:
    """What training added to the incoming weights of the units that moved most, in a narrow and in a wide network."""
    few = {**setting, "n": min(setting["n"], EXAMPLES), "noise": TRUE, "lr": max(setting["lr"], RATE)}
    train, _ = learned(few)
    if not is_images(train):
        return {}
    found = {}
    for width in (NARROW, WIDE):
        start, end = trained({**few, "width": width}, train)
        found[width] = (end.network.U - start.U).reshape(width, *train.input_shape), end, start
    X, y = tensors(train)
    high = float(found[NARROW][0].abs().amax())
    zoom = high / float(found[WIDE][0].abs().amax())
    strips = [
        _strip(found[NARROW][0], high, f"{NARROW} hidden units"),
        _strip(found[WIDE][0], high, f"{WIDE:,} hidden units"),
    ]
    strips.append(_strip(found[WIDE][0], high / zoom, f"{WIDE:,}, contrast times {zoom:.0f}"))
    fits = [int((end.network(X).argmax(dim=1) == y).sum()) for _, end, _ in found.values()]
    return {"strips": strips, "fits": fits, "examples": len(train)}


def _strip(moves: torch.Tensor, high: float, name: str) -> dict[str, Any]:
    sizes = moves.flatten(1).norm(dim=1)
    largest = sizes.argsort(descending=True)[:TILES]
    return {"name": name, "tiles": [[pixels(moves[j].numpy(), -high, high), f"{float(sizes[j]):.2g}"] for j in largest]}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("strips"):
        return []
    strips = [Strip(each["name"], [Tile(image, under) for image, under in each["tiles"]]) for each in record["strips"]]
    return [
        Images(
            "unit-moves",
            "What training adds to the hidden units",
            "Change of the incoming weights of the ten units that moved most, as images with the unit capacity below. "
            f"Gray is no change. Both networks learned the same {record['examples']:,} examples; they fit "
            f"{record['fits'][0]:,} and {record['fits'][1]:,} of them. The last row magnifies the wide network.",
            strips,
            claims=("distance-falls", "units-do-less"),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="terms",
    findings=(
        Finding(
            ("own-term-falls", "rivals-rise"),
            "Terms of 2019 fall with width, to {0.mean} or less; others end larger.",
            "Not as published: some capacity terms do not change with width as reported.",
            "Whether only the terms of 2019 fall with width is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Do the same terms fall and rise on one-dimensional signals?",
            "truerisk lab run norm-capacity --data mnist1d",
        ),
        Question(
            "Does the order of the terms stay the same on 5,000 color images?",
            "truerisk lab run norm-capacity --scale medium",
        ),
        Question(
            "Does any of these norms predict which of many networks generalizes best?",
            "truerisk lab run predictiveness",
        ),
    ),
    formulas=(
        Formula(
            r"\alpha_j = \| v_j \|, \quad \beta_j = \| u_j - u_j^0 \|",
            "Impact and capacity of hidden unit j: the norm of its outgoing weights, and how far training moved its "
            "incoming weights.",
        ),
        Formula(
            r"\frac{2 \sqrt{2c} + 2}{\gamma m} \sum_j \alpha_j ( \beta_j \| X \|_F + \| u_j^0 X \| )",
            "Theorem 1 bounds the Rademacher complexity at margin gamma for m examples and c classes; units that stay "
            "where they started count only through their initial response.",
        ),
        Formula(
            r"\frac{\| U \|_F \| V \|_F}{\gamma}",
            "An earlier term: it grows with the square root of the width, because random initial weights already do.",
        ),
    ),
)
