"""The lesson of `optimizers`: fewer updates to the same training loss say little about errors on new examples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch

from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.optimizers import PACED
from truerisk.lab.figure import Axis, Exhibit, Figure
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Path, Points, Slope
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, STEPS
from truerisk.training.optimizers import make_optimizer

NAMES = {
    "sgd": "SGD",
    "momentum": "momentum",
    "adagrad": "AdaGrad",
    "rmsprop": "RMSProp",
    "adadelta": "AdaDelta",
    "adam": "Adam",
    "adamw": "AdamW",
    "l-bfgs": "L-BFGS",
    "k-fac": "K-FAC",
    "shampoo": "Shampoo",
}
ADAPTIVE = "AdaGrad, RMSProp, AdaDelta, Adam, AdamW"
FAMILIES = {
    **dict.fromkeys(("adagrad", "rmsprop", "adadelta", "adam", "adamw"), ADAPTIVE),
    **dict.fromkeys(("sgd", "momentum"), "SGD, momentum"),
}
SOME = ("momentum", "adagrad", "adam", "l-bfgs", "k-fac", "shampoo")  # as many as share a panel
ARMS = {"plain": "plain features", "scaled": "features scaled by 1 to 100", "random": "random labels"}
ERROR = Axis("error", "error on new examples", PERCENT, counted_on="n_test")
OPTIMIZER = Axis("name", "optimizer", ordinal=True)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = rows.converged().having(
        name=lambda row: NAMES[row["optimizer"]],
        family=lambda row: FAMILIES.get(row["optimizer"], NAMES[row["optimizer"]]),
        panel=lambda row: ARMS[row["arm"]],
    )
    ends = Rows(row for row in named if row["reached"])
    ends = ends.having(
        error=lambda row: row["test_errors"][-1],
        count=lambda row: row["updates"][-1],
        work=lambda row: row["passes"][-1],
    )
    tuned = Rows(row for row in ends if row["pace"] == "tuned")
    true = Rows(row for row in tuned if row["arm"] != "random")
    along = Rows(row for row in named if row["pace"] == "tuned" and row["arm"] != "random")
    return [_hero(true), _along(along), _updates(tuned), _work(tuned), _pace(ends), _sharpness(true), _distance(true)]


def _hero(rows: Rows) -> Figure:
    """One point for each optimizer, at the mean of its updates over seeds."""
    places: dict[tuple[str, str], float] = {}
    for (arm, name), some in rows.groups("arm", "optimizer"):
        place = math.exp(statistics.fmean(math.log(count) for count in some.column("count")))
        while place in (other for (panel, _), other in places.items() if panel == arm):
            place *= 1.01  # two optimizers of a family at one place would be drawn as one
        places[arm, name] = place
    return Figure(
        "speed-and-error",
        "Does the optimizer that needs fewer updates err less?",
        "Error on new examples against updates until the same training loss, one point for each optimizer with its "
        "fastest rate; on scaled features the problem is ill-conditioned. If a stronger optimizer were a stronger "
        "learner, points would rise to the right.",
        rows.having(at=lambda row: places[row["arm"], row["optimizer"]]),
        Axis("at", "updates until the training loss is reached", STEPS, log=True),
        ERROR,
        mark=Points(),
        series="family",
        series_title="optimizer",
        facet="panel",
        claims=("fewest-updates-scaled", "fewest-updates-plain", "no-order", "wilson", "adam-scaled-error"),
    )


def _along(rows: Rows) -> Figure:
    some = Rows(row for row in rows if row["optimizer"] in SOME)
    return Figure(
        "along-the-way",
        "At which training loss do optimizers part?",
        "Error on new examples against the training loss on the way down (read from right to left), for six "
        "optimizers. If the training loss alone decided the error, all curves would be one.",
        some.unrolled(level="levels", error="test_errors"),
        Axis("level", "training loss (cross-entropy)", log=True),
        Axis("error", "error on new examples", PERCENT, log=True, counted_on="n_test"),
        mark=Line(),
        series="name",
        series_title="optimizer",
        facet="panel",
        claims=("fewest-updates-scaled", "no-order"),
    )


def _updates(rows: Rows) -> Figure:
    return Figure(
        "updates",
        "How many updates does each optimizer need?",
        "Updates until the training loss is 0.01 (0.1 for random labels), with the fastest of five rates. On plain "
        "features a tuned rate leaves little to gain. Check on scaled features which optimizers slow down most.",
        rows,
        OPTIMIZER,
        Axis("count", "updates until the loss is reached", STEPS, log=True),
        mark=Points(),
        series="panel",
        series_title="problem",
        claims=("adam-plain", "adam-scaled", "k-fac-scaled", "shampoo-scaled", "random-slower"),
    )


def _work(rows: Rows) -> Figure:
    return Figure(
        "gradients",
        "How much work is behind an update?",
        "Gradients until the training loss is reached, in passes over the training set. K-FAC computes two gradients "
        "for each update, and L-BFGS those of all examples, several times in a line search. Few updates are not little "
        "work.",
        rows,
        OPTIMIZER,
        Axis("work", "passes over the training set", log=True),
        mark=Points(),
        series="panel",
        series_title="problem",
        claims=("l-bfgs-work",),
    )


def _pace(rows: Rows) -> Figure:
    paces = {"tuned": "fastest rate", "slow": "a tenth of it"}
    some = Rows(row for row in rows if row["optimizer"] in PACED and row["arm"] == "plain")
    return Figure(
        "pace",
        "Is it the optimizer, or its rate?",
        "Error on new examples at the same training loss, with the fastest rate and with a tenth of it, on plain "
        "features. A line that falls means that the rate, not the optimizer, made the error: speed was bought with it.",
        some.having(rate=lambda row: paces[row["pace"]]),
        Axis("rate", "learning rate", ordinal=True),
        ERROR,
        mark=Slope(),
        series="name",
        series_title="optimizer",
        claims=("slow-errs-less",),
    )


def _sharpness(rows: Rows) -> Figure:
    return Figure(
        "sharpness",
        "Which optimizer ends in a sharp place?",
        "Adaptive sharpness (rise of the training loss if every weight may change by 1% of itself) of the networks of "
        "the first figure, all at the same training loss. Compare with their errors.",
        rows,
        OPTIMIZER,
        Axis("sharpness", "adaptive sharpness", log=True),
        mark=Points(),
        series="panel",
        series_title="problem",
        claims=("l-bfgs-sharpness",),
    )


def _distance(rows: Rows) -> Figure:
    return Figure(
        "distance",
        "How far does each optimizer travel?",
        "Distance of the weights from their initial values, over the norm of the initial weights, at the same training "
        "loss. If the distance decided the error, optimizers would have the same order in both figures.",
        rows.having(travel=lambda row: row["distance"] / row["initial_norm"]),
        OPTIMIZER,
        Axis("travel", "distance from the initial weights, relative", zero=True),
        mark=Points(),
        series="panel",
        series_title="problem",
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

CURVES, START, STEPS_SHOWN = (1.0, 100.0), (-3.0, 0.6), 40
VALLEY = {"sgd": 0.018, "momentum": 0.003, "adagrad": 0.5, "adam": 0.1, "l-bfgs": 1.0, "shampoo": 0.5}


def demo(setting: Setting) -> dict[str, Any]:
    """Walks of optimizers down a narrow valley: x^2 / 2 + 100 y^2 / 2. They have no randomness."""
    return {"walks": {name: _walk(name, lr) for name, lr in VALLEY.items()}}


def _walk(name: str, lr: float) -> list[list[float]]:
    w = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    options = (
        {"max_iter": 1}
        if name == "l-bfgs"
        else {"every": 1, "graft": False, "momentum": 0.0}
        if name == "shampoo"
        else {}
    )
    optimizer = make_optimizer(name, [w], lr, **options)
    places = [w.tolist()]

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (torch.tensor(CURVES, dtype=torch.float64) * w**2).sum() / 2
        loss.backward()
        return loss

    for _ in range(STEPS_SHOWN):
        optimizer.step(closure)
        places.append(w.tolist())
    return [[round(x, 5) for x in place] for place in places]


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    steps = [
        {"x": x, "y": y, "name": NAMES[name]} for name, places in record.get("walks", {}).items() for x, y in places
    ]
    walks = Figure(
        "valley",
        "What does preconditioning do in a narrow valley?",
        "The first 40 updates of six optimizers from the same point of a valley that is 100 times as steep across as "
        "along; its lowest point is (0, 0). SGD zigzags between the walls and creeps along the bottom. Preconditioned "
        "optimizers divide by the steepness, so they advance along the valley from the first update.",
        steps,
        Axis("x", "along the valley"),
        Axis("y", "across the valley"),
        Path(arrow=True),
        series="name",
        series_title="optimizer",
        group=None,
        claims=("adam-scaled",),
    )
    return [walks] if steps else []


LESSON = Lesson(
    figures=figures,
    hero="speed-and-error",
    findings=(
        Finding(
            ("fewest-updates-scaled",),
            "On scaled features, the optimizer with fewest updates errs {0.mean} above the median.",
            "On scaled features, fewest updates mean only {0.mean} more error than the median.",
            "On scaled features, fewest updates mean about {0.mean} more error than the median.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Ten times slower, does each optimizer err less? Which figure says so?",
            "truerisk lab run optimizers",
        ),
        Question(
            "MNIST has 784 features, many of them nearly constant. Who needs preconditioning there?",
            "truerisk lab run optimizers --scale medium",
        ),
        Question(
            "Two features and two classes: is there anything left to precondition?",
            "truerisk lab run optimizers --data moons",
        ),
    ),
    formulas=(
        Formula(
            r"w \leftarrow w - \eta \, \frac{\hat{m}}{\sqrt{\hat{v}} + \epsilon}",
            "Adam divides a moving average of the gradient by the root of one of its squares, weight by weight.",
        ),
        Formula(
            r"W \leftarrow W - \eta \, (G + \lambda I)^{-1} \, \nabla_W L \, (A + \lambda I)^{-1}",
            "K-FAC multiplies the gradient of a layer by the inverse moments of its inputs (A) and output slopes (G).",
        ),
        Formula(
            r"W \leftarrow W - \eta \, P^{-1/4} D \, Q^{-1/4}, \quad P = \sum D D^T, \quad Q = \sum D^T D",
            "Shampoo takes roots of summed products of the gradients D of a layer, for its rows and for its columns.",
        ),
    ),
)
