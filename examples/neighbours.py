"""An experiment of your own: the error of 1-nearest-neighbor against the examples.

Run it with: truerisk lab run examples/neighbours.py
"""

import numpy as np

from truerisk.lab import (
    OURS,
    PERCENT,
    TIMES,
    Axis,
    Claim,
    Experiment,
    Figure,
    Finding,
    Lesson,
    Paper,
    Rows,
    at_most,
    product,
)
from truerisk.lab.samples import samples

COVER = Paper("Cover, Hart", 1967, "Nearest neighbor pattern classification")


def grid() -> list[dict]:
    return product(n=(50, 100, 200, 400, 800), seed=range(5))


def task(setting: dict) -> dict:
    """A pure function: everything it depends on is in the setting."""
    train, test = samples("digits", setting["n"], 797, setting["seed"])
    X, Z = train.X.reshape(len(train), -1), test.X.reshape(len(test), -1)
    distances = (Z**2).sum(1)[:, None] - 2 * Z @ X.T + (X**2).sum(1)
    return {"error": float(np.mean(train.y[distances.argmin(axis=1)] != test.y))}


def shrinks(runs: Rows) -> float:
    """The effect, for the runs of one seed: the error with 800 examples relative to that with 50."""
    return runs.where(n=800).one("error") / runs.where(n=50).one("error")


FINDING = Finding(
    ("falls",),
    reproduced="Sixteen times the examples leave {0.mean} the error of the nearest neighbor.",
    not_reproduced="Sixteen times the examples still leave {0.mean} the error of the nearest neighbor.",
    no_verdict="Sixteen times the examples leave {0.mean} the error: too close to call.",
)


def figures(rows: Rows) -> list[Figure]:
    """Raw rows, one per run; `Figure` averages over seeds."""
    return [
        Figure(
            name="error",
            title="Error against examples",
            caption="The share of 797 new digits whose nearest training example is another digit.",
            rows=rows,
            x=Axis("n", "training examples", log=True),
            y=Axis("error", "test error", PERCENT, zero=True, counted_on=797),
            claims=("falls",),
        )
    ]


EXPERIMENT = Experiment(
    name="neighbours",
    title="The error of the nearest neighbor",
    about="1-nearest-neighbor fits every training label and still generalizes.",
    papers=(COVER,),
    grids={"quick": grid},
    task=task,
    claims=(
        Claim(
            name="falls",
            says="Sixteen times the examples at least halve the error of the nearest neighbor.",
            effect=shrinks,
            wants=at_most(0.5, TIMES),
            whose=OURS,  # the paper has a limit, at most twice the Bayes risk, but no rate
        ),
    ),
    lesson=Lesson(figures, findings=(FINDING,)),
)
