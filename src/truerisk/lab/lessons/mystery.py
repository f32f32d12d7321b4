"""The lesson of `mystery`: what each suspect does to the gap, to the certificate, and to complexity measures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.mystery import LEVELS, LOOKS, MEASURED, STOPPING, effect, looks
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Points
from truerisk.lab.mystery_runs import build, examples, stable_rate, trained
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, POINTS, TIMES
from truerisk.seeds import derive

SUSPECTS = {
    "activation": "ReLU, not tanh",
    "depth": "deep",
    "width": "wide",
    "batches": "small batches, large steps",
    "start": "small initial weights",
    "norm": "batch norm",
    STOPPING: "early stopping",
}
ERRORS = {"train_error": "training examples", "test_error": "new examples"}
SUSPECT = Axis("suspect", "", ordinal=True)


def figures(rows: Rows) -> Sequence[Exhibit]:
    """Nothing where runs of every seed are missing: an effect needs all runs of its seed."""
    complete = [
        (seed, some) for (seed,), some in rows.groups("seed") if not some.missing and len(some.converged()) == len(some)
    ]
    if not complete:
        return []
    factors = [name for name in SUSPECTS if name in {*complete[0][1].present[0]["signs"], STOPPING}]
    found = {of: _effects(complete, factors, of) for of in ("gap", *ERRORS, *MEASURED)}
    return [_gap(found["gap"]), _errors(found), _certificate(found["bound"]), _runs(rows), _table(found, factors)]


def _effects(complete: Sequence[tuple[int, Rows]], factors: Sequence[str], of: str) -> list[dict[str, Any]]:
    """One row for each factor and seed: its main effect."""
    return [
        {"suspect": SUSPECTS[factor], "seed": seed, "effect": effect(some, factor, of)}
        for factor in factors
        for seed, some in complete
    ]


def _gap(effects: list[dict[str, Any]]) -> Figure:
    return Figure(
        "gap",
        "Which suspect closes the gap?",
        "Change of the gap (test error minus training error) when a factor goes from low to high, averaged over "
        "all combinations of the others. Below 0 the suspect helps. Where its interval crosses 0, the effect cannot be "
        "told from chance.",
        effects,
        SUSPECT,
        Axis("effect", "change of the gap", POINTS),
        mark=Points(),
        rules=[Rule(0.0, "no effect")],
        claims=tuple(f"gap-{name}" for name in SUSPECTS),
    )


def _errors(found: dict[str, list[dict[str, Any]]]) -> Figure:
    return Figure(
        "errors",
        "Do they help on new examples, or hurt on training examples?",
        "The same changes for both parts of the gap: errors on training and on new examples. A gap also closes when a "
        "network fits its training examples less well; a suspect helps only where the error on new examples falls.",
        [{**row, "on": on} for of, on in ERRORS.items() for row in found[of]],
        SUSPECT,
        Axis("effect", "change of the error", POINTS),
        mark=Points(),
        series="on",
        series_title="error on",
        rules=[Rule(0.0, "no effect")],
        claims=("stopping-helps",),
    )


def _certificate(effects: list[dict[str, Any]]) -> Figure:
    return Figure(
        "certificate",
        "What moves the certificate?",
        "Factor by which a PAC-Bayes bound changes (noise around the rescaled weights; a prior without data) when a "
        "suspect goes from low to high. Above 1 it makes the bound worse. If the bound explained the gap, it would "
        "show the same pattern as the first figure.",
        [{**row, "effect": math.exp(row["effect"])} for row in effects],
        SUSPECT,
        Axis("effect", "factor on the bound", TIMES, log=True),
        mark=Points(),
        rules=[Rule(1.0, "no effect")],
        claims=("certificate-follows",),
    )


def _runs(rows: Rows) -> Figure:
    ends = [one for one in looks(rows.converged()) if one["signs"][STOPPING] == LOOKS["end"]]
    made = [{"bound": math.exp(one["logs"]["bound"]), "gap": one["gap"], "start": _start(one)} for one in ends]
    return Figure(
        "networks",
        "Does a smaller bound mean a smaller gap?",
        "Each point is a network at the end of training: its gap against its bound. If the bound predicted the gap, "
        "points would rise from left to right. Bounds above 1 say nothing about the risk, but still order networks.",
        sorted(made, key=lambda one: one["start"]),
        Axis("bound", "PAC-Bayes bound", log=True),
        Axis("gap", "gap", POINTS),
        mark=Points(),
        series="start",
        series_title="initial weights",
        claims=("certificate-follows",),
        group=None,
    )


def _start(one: dict[str, Any]) -> str:
    return "small" if one["signs"]["start"] > 0 else "twice as large"


def _table(found: dict[str, list[dict[str, Any]]], factors: Sequence[str]) -> Table:
    """Mean effects; for gap and test error in points with the deviation over seeds, for measures as factors."""
    lines: list[list[Cell]] = []
    for factor in factors:
        own = {of: [row["effect"] for row in rows if row["suspect"] == SUSPECTS[factor]] for of, rows in found.items()}
        errors = [f"{100 * statistics.fmean(own[of]):+.1f} ({_deviation(own[of])})" for of in ("gap", "test_error")]
        measures = [f"{math.exp(statistics.fmean(own[of])):.3g}" for of in MEASURED]
        low, high = LEVELS.get(factor, ("end", "stopped"))
        lines.append([SUSPECTS[factor], f"{low} to {high}", *errors, *measures])
    return Table(
        "effects",
        "All effects as numbers",
        "Changes of gap and test error in points (in brackets: standard deviation over seeds), and factors on the "
        "certificate and on four measures, when a suspect goes from low to high. A measure that explains the gap has "
        "factors below 1 where the gap falls.",
        ["suspect", "levels", "gap", "test error", *MEASURED.values()],
        lines,
    )


def _deviation(values: Sequence[float]) -> str:
    return f"{100 * statistics.stdev(values):.1f}" if len(values) > 1 else "one seed"


# ---- pictures ------------------------------------------------------------------------------------------------------

MOST, STEPS = 500, {"small": 600, "large": 300}


def demo(setting: Setting) -> Record:
    """The errors of one network on the way, from small and from twice as large initial weights."""
    few = {**setting, "n": min(setting["n"], MOST), "width": 64, "depth": 2, "norm": "none", "steps": STEPS}
    train, valid, _ = examples(few)
    found = {}
    for start in LEVELS["start"]:
        network = build({**few, "start": start, "batches": "small"}, train)
        rate = stable_rate(network, train, derive(few["seed"], "demo rates"))
        found[f"{start:g}"] = trained(network, {**few, "batches": "small"}, train, valid, rate)[1]
    return {"paths": found}


def pictures(record: Record) -> Sequence[Exhibit]:
    names = {"1": "small", "2": "twice as large"}
    made = [
        {"step": step, "error": path[part][i], "on": shown, "start": f"{names.get(start, start)} initial weights"}
        for start, path in record.get("paths", {}).items()
        for part, shown in (("train", "training examples"), ("valid", "new examples"))
        for i, step in enumerate(path["step"])
    ]
    if not made:
        return []
    return [
        Figure(
            "paths",
            "Two starts, two ends",
            "Errors of one network while it learns, from small and from twice as large initial weights. Both fit their "
            "training examples; the distance between the two lines of a panel is the gap. Early stopping takes the "
            "lowest point of the line for new examples.",
            made,
            Axis("step", "steps"),
            Axis("error", "error", PERCENT, zero=True),
            mark=Line(points=False),
            series="on",
            series_title="error on",
            facet="start",
            claims=("gap-start",),
            group=None,
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="gap",
    findings=(
        Finding(
            ("gap-start",),
            "Small initial weights change the gap by {0.mean}.",
            "Small initial weights do not close the gap by a point.",
            "Whether small initial weights close the gap is not settled.",
        ),
        Finding(
            ("certificate-follows",),
            "The certificate orders networks by their gap.",
            "The certificate does not order networks by their gap.",
            "Whether the certificate orders networks by their gap is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question("Which suspects matter on handwritten digits?", "truerisk lab run mystery --data digits"),
        Question("Does depth matter, and batch norm?", "truerisk lab run mystery --scale medium"),
        Question("Which of many measures order networks by their gap?", "truerisk lab run predictiveness"),
    ),
    formulas=(
        Formula(
            r"E_A = \frac{2}{N} \sum_{i=1}^{N} s_{iA} y_i",
            "The main effect of factor A: runs at its high level have sign +1, those at its low level -1. Every run "
            "takes part in every effect.",
        ),
        Formula(
            r"s_{i,\text{norm}} = s_{iA} s_{iB} s_{iC} s_{iD} s_{iE}",
            "Half of all combinations: the sixth factor is the product of the others. Main effects are then "
            "mixed only with interactions of five factors.",
        ),
        Formula(
            r"\hat{L} + \sqrt{\frac{\mathrm{KL} + \ln(2 \sqrt{n} / \delta)}{2n}}",
            "McAllester's form of the PAC-Bayes bound, for noise around the weights after the best rescaling.",
        ),
    ),
)
