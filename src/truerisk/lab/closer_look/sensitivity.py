"""Which training examples matter (Arpit et al. 2017, section 3.2): the part of the experiment that unrolls SGD.

On real data few examples should carry most of the loss sensitivity (a high Gini coefficient); on noise every example
has to be learned by itself, and all of them should matter alike. The paper trains two hidden layers of 16 units on 1000
images, and repeats it with a class of its own for every example, where there is nothing left but to memorize.
"""

from __future__ import annotations

import numpy as np
import torch

from truerisk.lab.closer_look.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.closer_look.unrolled import gini, influence, initial_weights
from truerisk.lab.experiment import Claim, Outcome, Record, Setting
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure
from truerisk.lab.rows import Rows
from truerisk.seeds import derive

GINI, CLASSES = "loss sensitivity", "loss sensitivity of classes"
TRUE, UNIQUE = "true classes", "one class per example"
SOURCE = "Arpit et al. 2017, section 3.2"

_QUICK: Setting = {"data": "digits", "n": 1000, "n_test": 100, "pool": 1, "hidden": [16, 16], "batch": 50, "lr": 0.1,
          "epochs": 20}  # fmt: skip
_SMOKE = {**_QUICK, "n": 100, "epochs": 5, "batch": 20}
_MEDIUM = {**_QUICK, "data": "mnist", "pool": 2, "epochs": 40}
_PAPER = {**_MEDIUM, "epochs": 100}


def sensitivity_grid(scale: str) -> list[Setting]:
    base = {"smoke": _SMOKE, "quick": _QUICK, "medium": _MEDIUM, "paper": _PAPER}[scale]
    seeds = {"smoke": 1, "quick": 3, "medium": 3, "paper": 10}[scale]
    kinds = [(REAL, TRUE), (RAND_X, TRUE), (RAND_Y, TRUE), (REAL, UNIQUE), (RAND_X, UNIQUE)]
    # The loss of a thousand classes starts flat: at the other runs' rate and length it would not move at all.
    longer = {"lr": 5 * base["lr"], "epochs": 2 * base["epochs"]}
    class_seeds = min(seeds, 2)  # a backward pass for each class: fewer seeds and marks
    return [
        {
            "part": GINI,
            **base,
            **(longer if labels == UNIQUE else {}),
            "marks": 10,
            "noise": noise,
            "labels": labels,
            "seed": seed,
        }
        for seed in range(seeds)
        for noise, labels in kinds
    ] + [
        {"part": CLASSES, **base, "marks": 5, "noise": noise, "labels": TRUE, "seed": seed}
        for seed in range(class_seeds)
        for noise in (REAL, RAND_X)
    ]


def sensitivity_task(setting: Setting) -> Record:
    """Gini coefficients of the sensitivities averaged up to each mark; for classes, the averages gbar_ij."""
    seed, n = setting["seed"], setting["n"]
    train, _ = noisy_samples(setting["data"], n, setting["n_test"], setting["noise"], 1.0, seed, setting["pool"])
    X, labels = torch.from_numpy(train.X).flatten(1), torch.from_numpy(train.y)
    unique = setting["labels"] == UNIQUE
    y, classes = (torch.arange(n), n) if unique else (labels, train.classes)
    order = torch.Generator().manual_seed(derive(seed, "order"))
    batches = [
        rows for _ in range(setting["epochs"]) for rows in torch.randperm(n, generator=order).split(setting["batch"])
    ]
    marks = [len(batches) * (i + 1) // setting["marks"] for i in range(setting["marks"])]
    weights = initial_weights([X.shape[1], *setting["hidden"], classes], derive(seed, "weights"), torch.float32)
    groups = y if setting["part"] == CLASSES else None
    gradients = influence(X, y, weights, batches, setting["lr"], marks, groups).double()
    norms = gradients.abs().sum(dim=3).numpy()  # (marks, groups, examples)
    if setting["part"] == CLASSES:
        mean = norms.mean(axis=0)
        return {
            "class_sensitivity": [[float(mean[i, train.y == j].mean()) for j in range(classes)] for i in range(classes)]
        }
    running = np.cumsum(norms[:, 0], axis=0) / np.arange(1, len(marks) + 1)[:, None]
    return {"steps": marks, "gini": [gini(values) for values in running], "final_gini": gini(running[-1])}


def _ginis(rows: Rows, labels: str) -> dict[str, float]:
    return {noise: rows.where(part=GINI, noise=noise, labels=labels).mean("final_gini") for noise in (REAL, RAND_X)}


def _few_matter(rows: Rows, labels: str) -> Outcome:
    value = _ginis(rows, labels)
    return Outcome(
        value[REAL] >= value[RAND_X] + 0.1,
        f"a Gini coefficient of {value[REAL]:.2f} on real data and of {value[RAND_X]:.2f} on random inputs",
    )


def off_diagonal(matrix: np.ndarray) -> float:
    """The mean entry off the diagonal over the mean entry on it.

    >>> off_diagonal(np.array([[2.0, 1.0], [1.0, 2.0]]))
    0.5
    """
    n, trace = len(matrix), float(np.trace(matrix))
    return (float(matrix.sum()) - trace) / (n * n - n) / (trace / n)


def _classes_share(rows: Rows) -> Outcome:
    value = {
        noise: float(
            np.mean(
                [off_diagonal(np.array(m)) for m in rows.where(part=CLASSES, noise=noise).column("class_sensitivity")]
            )
        )
        for noise in (REAL, RAND_X)
    }
    return Outcome(
        value[REAL] >= 1.2 * value[RAND_X],
        f"a ratio of {value[REAL]:.2f} on real data and of {value[RAND_X]:.2f} on random inputs",
    )


# The paper shows curves and matrices, no numbers; 0.1 is a tenth of the range of the Gini coefficient, 1.2 a visible
# difference in a matrix.
SENSITIVITY_CLAIMS = (
    Claim(
        "gini",
        "On real data few examples carry most of the loss sensitivity; on noise nearly all examples matter.",
        SOURCE,
        "a clearly higher Gini coefficient for real data throughout training (figure 3, left)",
        "a Gini coefficient higher by at least 0.1 on real data",
        lambda rows: _few_matter(rows, TRUE),
    ),
    Claim(
        "gini-unique",
        "The same holds when every example is a class of its own, so that there is nothing left but to memorize.",
        SOURCE,
        "a clearly higher Gini coefficient for real data throughout training (figure 3, right)",
        "a Gini coefficient higher by at least 0.1 on real data",
        lambda rows: _few_matter(rows, UNIQUE),
    ),
    Claim(
        "class-sensitivity",
        "On noise a class's loss depends mostly on examples of that class; on real data on those of others too.",
        SOURCE,
        "high values only on the diagonal for noise, many off the diagonal for real data (figure 4)",
        "a ratio of off-diagonal to diagonal sensitivity that is a fifth higher on real data",
        _classes_share,
    ),
)


def sensitivity_figures(rows: Rows) -> list[Exhibit]:
    curves: list[dict[str, Cell]] = []
    for (labels, noise), some in rows.where(part=GINI).groups("labels", "noise"):
        values = np.array([row["gini"] for row in some])
        if len(values):
            steps = some.present[0]["steps"]
            curves += [
                {"step": step, "gini": mean, "low": low, "high": high, "noise": NAMES[noise], "labels": labels}
                for step, mean, low, high in zip(
                    steps, values.mean(0).tolist(), values.min(0).tolist(), values.max(0).tolist(), strict=True
                )
            ]
    squares: list[dict[str, Cell]] = []
    for row in rows.where(part=CLASSES, seed=0):
        matrix = np.array(row["class_sensitivity"])
        matrix = matrix / matrix.max()
        squares += [
            {"of": i, "to": j, "share": float(matrix[i, j]), "noise": NAMES[row["noise"]]}
            for i in range(len(matrix))
            for j in range(len(matrix))
        ]
    return [
        Figure(
            "gini",
            "Do few examples matter, or all of them?",
            "The Gini coefficient of the loss sensitivity over the training examples, as training goes on (mean and "
            "range over seeds): 0 if all examples matter alike, near 1 if very few do. On the right-hand panel every "
            "example is a class of its own. Compare real data with random inputs.",
            curves,
            Axis("step", "steps of SGD"),
            Axis("gini", "Gini coefficient", zero=True),
            series="noise",
            series_title="training data",
            facet="labels",
            low="low",
            high="high",
        ),
        Figure(
            "class-sensitivity",
            "Whose examples does a class's loss depend on?",
            "Row i, column j: how strongly the loss on class i reacts to training inputs of class j, relative to the "
            "largest entry of its panel. A diagonal that stands alone means that classes are learned separately; "
            "bright squares beside it mean that they share features.",
            squares,
            Axis("to", "class of the training example", ordinal=True),
            Axis("of", "class of the loss", ordinal=True),
            mark="heat",
            series="share",
            series_title="relative sensitivity",
            facet="noise",
        ),
    ]
