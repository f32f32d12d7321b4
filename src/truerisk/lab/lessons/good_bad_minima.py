"""The lesson of `good-bad-minima`: a training error of 0 leaves the test error open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.lab.experiments.good_bad_minima import POISON, STARTS
from truerisk.lab.figure import Axis, Exhibit, Figure, Linked, Rule, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Histogram, Line, Points, Regions
from truerisk.lab.minima_effects import BAD
from truerisk.lab.minima_runs import BOUNDS, FRESH, KINDS, LEVELS, REACH, SIDE
from truerisk.lab.rows import Row, Rows
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT, TIMES

NAMES = {"good": "good", "control": "control (more true labels)", "bad": "bad (poisoned)"}
MEASURES = {
    "hessian-trace": "Hessian trace",
    "hessian-top": "top eigenvalue",
    "pacbayes-magnitude-flatness": "flatness *",
    "adaptive-sharpness": "sharpness *",
    "path-norm-l2-squared": "path norm *",
    "spectral-product-over-margin": "spectral norms",
    "distance-l2": "distance",
    "fisher-rao": "Fisher-Rao *",
    "inverse-margin": "inverse margin *",
    "median-margin": "median margin *",
    "parameters": "parameters *",
}
PROVED = {"path-norm-root": "path norm", "spectral-covering-init": "spectral norms (covering)",
          "spectral-pac-bayes": "spectral norms (PAC-Bayes)"}  # fmt: skip
ERROR = Axis("error", "error", PERCENT, zero=True)


def figures(rows: Rows) -> Sequence[Exhibit]:
    done = rows.converged()
    poison = [{**run, "set": spell(run["data"])} for run in done if run["kind"] == POISON["kind"]]
    starts = [run for run in done if run["kind"] == STARTS["kind"]]
    mapped = next((run for run in poison if run.get("planes")), None)
    found: list[Exhibit] = [_hero(mapped, poison)] if mapped else []
    found += [_errors(poison, "errors" if mapped else "poison"), _basins(poison), _measures(poison), _bounds(poison)]
    if starts:
        found.append(_starts(starts))
    return [*found, _onward(poison)]


def _curve(run: Row) -> list[dict[str, Any]]:
    """Errors of one run against the number of poisoned examples."""
    pairs = {"training examples": run["train_errors"], "new examples": run["test_errors"]}
    return [
        {"count": count, "error": error, "on": on, "set": run["set"], "seed": run["seed"], "share": count / run["n"]}
        for on, errors in pairs.items()
        for count, error in zip(run["poisoned"], errors, strict=True)
    ]


def _hero(run: Row, poison: Sequence[Row]) -> Linked:
    """The decision map of one draw of moons, and the errors of the same networks."""
    ticks = np.linspace(-REACH, REACH, SIDE).round(3).tolist()
    places = [
        {"x": x, "y": y, "class": label, "poisoned": count}
        for count, lines in zip(run["poisoned"], run["planes"], strict=True)
        for y, line in zip(ticks, lines, strict=True)
        for x, label in zip(ticks, line, strict=True)
    ]
    dots = [
        {"x": x, "y": y, "class": str(label), "poisoned": count}
        for count in run["poisoned"]
        for (x, y), label in zip(run["dots"]["train"], run["labels"]["train"], strict=True)
    ]
    moved: dict[str, Any] = {
        "slider": Axis("poisoned", "poisoned examples"),
        "starts_at": run["poisoned"][-1],
        "group": None,
    }
    curve = _curve(run)
    here = [{**row, "poisoned": row["count"]} for row in curve]
    plane = Figure(
        "plane", "What the network answers", "", places, Axis("x", "first coordinate"), Axis("y", "second coordinate"),
        Regions("class"), dots=dots, dots_title="training example", **moved,
    )  # fmt: skip
    errors = Figure(
        "along", "Its errors", "", curve, Axis("count", "poisoned examples"), ERROR, Line(), "on",
        series_title="error on", dots=here, rules=[Rule(0.5, "guessing")], **moved,
    )  # fmt: skip
    last, first = percent(run["test_errors"][-1], 0), percent(run["test_errors"][0], 0)
    return Linked(
        "poison",
        "The training error is near 0. What about new examples?",
        f"Left: answers of a network that also fits wrongly labeled points (poison); dots are its {run['n']} true "
        f"training examples. Move the slider to 0 for the network without poison. Right: its errors; in this run the "
        f"error on new examples rises from {first} to {last} while the training error stays near 0.",
        [plane, errors],
        shares=(1, 1),
        claims=("any-test-error", "fits"),
    )


def _errors(poison: Sequence[Row], name: str) -> Figure:
    """The hero, where there is no plane to show."""
    return Figure(
        name,
        "How much poison makes how bad a minimum?",
        "Error on true training examples and on new examples against the number of poisoned examples per true one. "
        "All networks of a panel have the same size and start from the same weights. If the training error "
        "determined the error on new examples, the upper line would be flat.",
        [row for run in poison for row in _curve(run)],
        Axis("share", "poisoned examples for each true one"),
        ERROR,
        series="on",
        series_title="error on",
        facet="set",
        claims=("any-test-error", "half-the-poison", "fits"),
    )


def _basins(poison: Sequence[Row]) -> Figure:
    made = [
        {"level": level, "error": error, "network": NAMES[kind], "set": run["set"], "seed": run["seed"]}
        for run in poison
        for kind in KINDS
        for level, error in zip(LEVELS, run["basins"][kind], strict=True)
    ]
    return Figure(
        "basins",
        "How much noise do the weights bear?",
        "Training error when each weight is multiplied by 1 + s z with random z, against the noise level s. The three "
        "networks have about the same training loss; the control fits as many labels as the bad one, all of them true. "
        "A curve that rises early means a small basin.",
        made,
        Axis("level", "noise level s"),
        Axis("error", "training error", PERCENT, zero=True),
        series="network",
        facet="set",
        claims=("smaller-basin", "invariant-flatness"),
    )


def _measures(poison: Sequence[Row]) -> Figure:
    made = []
    for run in poison:
        found = run["measures"]
        for name, shown in MEASURES.items():
            if found["bad"][name] and found["good"][name]:
                ratio = found["bad"][name] / found["good"][name]
                made.append({"measure": shown, "ratio": ratio, "set": run["set"], "seed": run["seed"]})
    return Figure(
        "measures",
        "Which measures put the bad minimum above the good one?",
        "Measure of the bad network over that of the good one, both with about the same training loss, computed from "
        "training examples alone. At 1 a measure cannot tell them apart. No rescaling of hidden units changes "
        "measures with a star; a rescaled twin of the good network can have any Hessian trace.",
        made,
        Axis("measure", "measure", ordinal=True),
        Axis("ratio", "bad over good", TIMES, log=True),
        mark=Points(),
        series="set",
        series_title="dataset",
        rules=[Rule(1.0, "no difference")],
        claims=("sharper", "invariant-flatness", "norms", "margin-is-blind", "sharp-twin"),
    )


def _bounds(poison: Sequence[Row]) -> Table:
    """Of the first run of each dataset."""
    rows = []
    for name in dict.fromkeys(run["set"] for run in poison):
        run = next(one for one in poison if one["set"] == name)
        rows.append([f"{name}: PAC-Bayes around the weights", *(_risk(run["pac_bayes"][kind]) for kind in KINDS)])
        rows += [
            [f"{name}: {PROVED[bound]}", *(_risk(run["measures"][kind][bound]) for kind in KINDS)] for bound in BOUNDS
        ]
        rows.append([f"{name}: {FRESH} fresh examples", *(_risk(run["hold_out"][kind][1]) for kind in KINDS)])
        rows.append([f"{name}: error on new examples", *(percent(run["errors"][kind]) for kind in KINDS)])
    return Table(
        "bounds",
        "Can a certificate tell them apart without new examples?",
        "Upper bounds on the true error that hold with probability 95%, for one run per dataset. The first four rows "
        "use training examples only; a bound near 100% or above says nothing. The hold-out bound needs fresh examples.",
        ["bound", *(NAMES[kind] for kind in KINDS)],
        rows,
    )


def _risk(value: float | None) -> str:
    if value is None:
        return "not defined"
    return f"{100 * value:,.0f}%" if value > 1 else f"{np.ceil(1000 * value) / 10:.1f}%"


def _starts(starts: Sequence[Row]) -> Figure:
    made = [
        {"error": error, "scale": f"{run['scale']:g} times the usual weights", "seed": run["seed"]}
        for run in starts
        for error in run["found"]
    ]
    return Figure(
        "starts",
        "Where does gradient descent end without poison?",
        f"Errors on new examples of {len(made):,} networks that fit 30 points of two moons, by plain gradient descent "
        "on all examples at once from random starts, for three sizes of the initial weights. The line marks the error "
        "from which a network counts as bad.",
        made,
        Axis("error", "error on new examples", PERCENT),
        Axis("share", "share of networks", PERCENT),
        mark=Histogram(40),
        facet="scale",
        rules=[Rule(BAD, "bad", upright=True)],
        claims=("descent-avoids",),
        group=None,
    )


def _onward(poison: Sequence[Row]) -> Figure:
    made = [
        {"after": after, "error": error, "set": run["set"], "seed": run["seed"], "n_test": run["n_test"]}
        for run in poison
        for after, error in (
            ("poisoned", run["errors"]["bad"]),
            ("small steps", run["onward_errors"][1]),
            ("large steps", run["onward_errors"][0]),
            ("never poisoned", run["errors"]["good"]),
        )
    ]
    return Figure(
        "onward",
        "Does gradient descent stay at a bad minimum?",
        "Error on new examples of the bad network, after further gradient descent on the true examples alone in steps "
        "of 0.002 or 0.2, and of the good network. Where the bars for large steps are low, the bad minimum is too "
        "sharp for these steps. How many steps were taken differs between datasets.",
        made,
        Axis("after", "network", ordinal=True),
        Axis("error", "error on new examples", PERCENT, counted_on="n_test"),
        mark=Bars(),
        facet="set",
        claims=("large-steps-leave",),
    )


LESSON = Lesson(
    figures=figures,
    hero="poison",
    findings=(
        Finding(
            ("any-test-error",),
            "The same training error, but {0.mean} more errors on new examples after poisoned training.",
            "Poisoned training does not raise the test error everywhere as much as expected.",
            "Poison adds {0.mean} of test error ({0.cell}); 40 points everywhere is not settled.",
        ),
    ),
    questions=(
        Question(
            "Are bad minima on MNIST also sharper than good ones?", "truerisk lab run good-bad-minima --scale medium"
        ),
        Question(
            "Can one-dimensional signals be poisoned as easily as images?",
            "truerisk lab run good-bad-minima --data mnist1d",
        ),
        Question(
            "Do the measures that tell good from bad here rank ordinary networks as well?",
            "truerisk lab run predictiveness",
        ),
    ),
    formulas=(
        Formula(
            r"\frac{1}{n} \sum_{i=1}^{n} \ell(f(x_i), y_i) + \frac{1}{m} \sum_{j=1}^{m} \ell(f(x_j'), y_j' + 1)",
            "Poisoned training: the loss on n true examples plus the loss on m further examples, each labeled as the "
            "class after its own.",
        ),
        Formula(
            r"w_i \to w_i (1 + s z_i), \quad z_i \sim N(0, 1)",
            "Noise in proportion to each weight: rescaling hidden units does not change the training error under it.",
        ),
        Formula(
            r"\lambda_{\max}(H) > \frac{2}{\eta}",
            "Gradient descent with steps of size eta cannot stay at a minimum whose Hessian has a larger eigenvalue.",
        ),
    ),
)
