"""The lesson of `loss-sensitivity`: whether training depends on few examples, or on all of them."""

from __future__ import annotations

import numpy as np
import torch

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.loss_sensitivity import CLASSES, EXAMPLES
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Strip, Tile
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line, Map
from truerisk.lab.noise import NAMES, RAND_X, REAL, noisy_samples
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT
from truerisk.seeds import derive
from truerisk.training.unrolled import influence, initial_weights

ALIKE = "if all mattered alike"
TILES = 10  # of a strip
PLACES = 50  # steps of the drawn curve of shares
MOST = {"n": 1000, "epochs": 20}  # of the demo, whatever the scale


def figures(rows: Rows) -> list[Exhibit]:
    named = rows.having(data=lambda row: NAMES[row["noise"]])
    of_all = named.where(by=EXAMPLES, noise=[REAL, RAND_X])  # random labels have one seed
    return [_ginis(of_all), _classes(named.where(by=CLASSES)), _sharing(named.where(by=CLASSES))]


def _ginis(rows: Rows) -> Figure:
    return Figure(
        "gini",
        "Does training depend on few examples, or on all?",
        "Gini coefficient of the loss sensitivity of training examples, averaged up to each step, against steps of "
        "SGD. It is 0 if all examples matter alike, and near 1 if very few carry all the sensitivity. If the curve is "
        "higher for real data than for random inputs, a few real examples stand for many.",
        rows.having(shares=lambda row: [step / row["steps"][-1] for step in row["steps"]]).unrolled(
            share="shares", coefficient="gini"
        ),
        Axis("share", "share of all steps of SGD", PERCENT),
        Axis("coefficient", "Gini coefficient", zero=True),
        Line(),
        series="data",
        series_title="training data",
        facet="labels",
        claims=("gini", "gini-unique"),
    )


def _classes(rows: Rows) -> Figure:
    """Each seed's matrix relative to the mean of its diagonal, then the mean over seeds."""
    squares = []
    for (data,), some in Rows(rows.present).groups("data"):
        each = [np.array(row["class_sensitivity"]) for row in some]
        mean = np.mean([matrix / np.trace(matrix) * len(matrix) for matrix in each], axis=0)
        squares += [
            {"data": data, "of": i, "to": j, "relative": float(value)} for (i, j), value in np.ndenumerate(mean)
        ]
    return Figure(
        "class-sensitivity",
        "Which classes does the loss on a class depend on?",
        "Sensitivity of the loss on one class to training inputs of each class, relative to the mean of the diagonal; "
        "mean over all runs. If only the diagonal is strong, each class is learned on its own. Strong squares off the "
        "diagonal mean that classes share features.",
        squares,
        Axis("to", "class of the training example", ordinal=True),
        Axis("of", "class of the loss", ordinal=True),
        Map("relative", "relative sensitivity"),
        facet="data",
        claims=("class-sensitivity",),
    )


def _sharing(rows: Rows) -> Figure:
    return Figure(
        "off-diagonal",
        "How much do other classes matter?",
        "Mean sensitivity of the loss on a class to examples of other classes, as a percentage of its sensitivity to "
        "examples of its own class. At 0% each class is learned on its own; at 100% all classes matter alike. A higher "
        "bar for real data means that real classes share features.",
        rows,
        Axis("data", "training data", ordinal=True),
        Axis("off_diagonal", "sensitivity to other classes", PERCENT),
        Bars(),
        claims=("class-sensitivity",),
    )


def demo(setting: Setting) -> Record:
    """The training examples that matter most and least, and which share of the sensitivity the top ones carry."""
    kinds = {}
    for noise in (REAL, RAND_X):
        X, y, gradients = _sensitivities(setting, noise)
        norms = gradients.sum(axis=1)
        order = np.argsort(-norms, kind="stable")
        places = np.unique(np.linspace(0, len(norms), PLACES + 1).round().astype(int))
        carried = np.concatenate([[0.0], np.cumsum(norms[order])])[places] / norms.sum()
        kinds[noise] = {
            "places": (places / len(norms)).tolist(),
            "carried": carried.tolist(),
            **{
                which: [
                    {"pixels": pixels(X[i]), "where": pixels(gradients[i].reshape(X[i].shape).sum(axis=0)),
                     "label": int(y[i]), "times": float(norms[i] / norms.mean())}
                    for i in chosen
                ]
                for which, chosen in (("most", order[:TILES]), ("least", order[::-1][:TILES]))
            },
        }  # fmt: skip
    return {"kinds": kinds}


def _sensitivities(setting: Setting, noise: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels, and for each input the mean absolute derivative of later losses by each of its pixels."""
    seed, n = setting["seed"], min(setting["n"], MOST["n"])
    train, _ = noisy_samples(setting["data"], n, 1, noise, 1.0, seed, setting["pool"])
    X, y = torch.from_numpy(train.X).flatten(1), torch.from_numpy(train.y)
    order = torch.Generator().manual_seed(derive(seed, "demo order"))
    epochs = [torch.randperm(n, generator=order) for _ in range(min(setting["epochs"], MOST["epochs"]))]
    batches = [rows for epoch in epochs for rows in epoch.split(setting["batch"])]
    marks = [len(batches) * (i + 1) // setting["marks"] for i in range(setting["marks"])]
    weights = initial_weights([X.shape[1], *setting["hidden"], train.classes], derive(seed, "demo weights"))
    found = influence(X, y, weights, batches, setting["lr"], marks)
    return train.X, train.y, found[:, 0].double().abs().mean(dim=0).numpy()


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("kinds"):
        return []
    kinds = {noise: record["kinds"][noise] for noise in (REAL, RAND_X)}
    strips = []
    for noise, kind in kinds.items():
        for which in ("most", "least"):
            tiles = [Tile(one["pixels"], f"{one['label']}: {one['times']:.1f}\u00d7") for one in kind[which]]
            strips.append(Strip(f"{NAMES[noise]}, {which} sensitive", tiles))
            if (noise, which) == (REAL, "most"):
                strips.append(
                    Strip("sensitive pixels of the images above", [Tile(one["where"]) for one in kind[which]])
                )
    carried = [
        {"place": place, "carried": share, "data": NAMES[noise]}
        for noise, kind in kinds.items()
        for place, share in zip(kind["places"], kind["carried"], strict=True)
    ]
    alike = [{"place": place, "carried": place, "data": ALIKE} for place in kinds[REAL]["places"]]
    return [
        Images(
            "most-and-least",
            "Which training examples matter most?",
            "Training examples with the highest and the lowest loss sensitivity in one run; below each are its label "
            "and its sensitivity relative to the mean of all examples. Changing the bright pixels of the second row "
            "would change later losses most. Compare the factors of real data with those of random inputs.",
            strips,
            claims=("gini",),
        ),
        Figure(
            "carried",
            "Which share of the sensitivity do the top examples carry?",
            "Share of all loss sensitivity that the most sensitive training examples carry, in one run. On the "
            "diagonal all examples matter alike; the Gini coefficient is twice the area between a curve and the "
            "diagonal. A curve that rises steeply means that few examples matter.",
            [*carried, *alike],
            Axis("place", "training examples, most sensitive first", PERCENT),
            Axis("carried", "share of all sensitivity", PERCENT, zero=True),
            Line(points=False),
            series="data",
            series_title="training data",
            claims=("gini",),
            group=None,
        ),
    ]


LESSON = Lesson(
    figures=figures,
    hero="gini",
    findings=(
        Finding(
            ("gini",),
            reproduced="Training on real data leans on fewer examples: Gini coefficient {0.mean} above noise.",
            not_reproduced="Training on real data hardly leans on fewer examples: Gini difference {0.mean}.",
            no_verdict="Training on real data may lean on fewer examples: Gini difference {0.low} to {0.high}.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does longer training on MNIST settle whether few examples matter most?",
            "truerisk lab run loss-sensitivity --scale medium",
        ),
        Question(
            "How few training examples suffice if the training algorithm picks them?",
            "truerisk certify --method pick-to-learn",
        ),
        Question(
            "Do few examples matter on MNIST-1D, whose inputs are noisy curves instead of images?",
            "truerisk measure --data mnist1d --only loss-sensitivity-gini",
        ),
    ),
    formulas=(
        Formula(
            r"g_x = \frac{1}{T} \sum_{t=1}^{T} \left\| \frac{\partial L_t}{\partial x} \right\|_1",
            "The loss sensitivity of x: how much the loss after t steps of SGD would change with x, averaged over t.",
        ),
        Formula(
            r"G = \frac{2 \sum_{i=1}^{n} i \, g_{(i)}}{n \sum_{i=1}^{n} g_{(i)}} - \frac{n + 1}{n}",
            "The Gini coefficient of the sensitivities in ascending order: 0 if all are equal, near 1 if one is alone.",
        ),
    ),
)
