"""An experiment of your own: the error of 1-nearest-neighbour against the examples.

Run it with: truerisk lab run examples/neighbours.py
"""

import numpy as np

from truerisk.lab import Axis, Claim, Experiment, Figure, Outcome, Rows
from truerisk.lab.samples import samples


def grid() -> list[dict]:
    sizes = (50, 100, 200, 400, 800)
    return [{"n": n, "seed": seed} for n in sizes for seed in range(3)]


def task(setting: dict) -> dict:
    """A pure function: everything it depends on is in the setting."""
    train, test = samples("digits", setting["n"], 797, setting["seed"])
    X, Z = train.X.reshape(len(train), -1), test.X.reshape(len(test), -1)
    distances = (Z**2).sum(1)[:, None] - 2 * Z @ X.T + (X**2).sum(1)
    return {"error": float(np.mean(train.y[distances.argmin(axis=1)] != test.y))}


def halves(rows: Rows) -> Outcome:
    few, many = rows.where(n=50).mean("error"), rows.where(n=800).mean("error")
    told = f"{100 * few:.1f}% with 50 examples, {100 * many:.1f}% with 800"
    return Outcome(many < few / 2, told)


EXPERIMENT = Experiment(
    name="neighbours",
    title="The error of the nearest neighbour",
    about="1-nearest-neighbour fits every training label and still generalizes.",
    papers=("Cover and Hart 1967, Nearest neighbor pattern classification",),
    grids={"quick": grid},
    task=task,
    claims=(
        Claim(
            name="falls",
            statement="More examples make the nearest neighbour better.",
            source="Cover and Hart 1967",
            published="the error tends to at most twice the Bayes risk",
            threshold="less than half the error with sixteen times the examples",
            check=halves,
        ),
    ),
    figures=lambda rows: [
        Figure(
            name="error",
            title="Error against examples",
            caption="Each point is one sample of training examples.",
            rows=[{"n": row["n"], "error": row["error"]} for row in rows],
            x=Axis("n", "training examples", log=True),
            y=Axis("error", "test error", percent=True, zero=True),
            mark="points",
        )
    ],
)
