"""The lesson of `normalization`: what each norm changes, over initial scales, batch sizes, and architectures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.normalization import BATCH, DATA, GROUP, LAYER, NONE, SCALED, STANDARDIZED, WEIGHT
from truerisk.lab.figure import Axis, Exhibit, Figure
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Histogram, Line, Slope
from truerisk.lab.normalization_runs import KINDS
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import PERCENT
from truerisk.nets.deep import convnet_of
from truerisk.nets.normalization import rescale_weights, start_from_data
from truerisk.seeds import derive, seeded_globals

SHORT = {  # norms as the axes show them
    NONE: "none",
    BATCH: "batch norm",
    LAYER: "layer norm",
    GROUP: "group norm",
    WEIGHT: "weight norm",
    DATA: "weight norm, data",
    STANDARDIZED: "group norm + WS",
    SCALED: "scaled WS",
}
ERROR = Axis("test_error", "error on new examples", PERCENT, zero=True, counted_on="n_test")


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = [dict(row, name=SHORT[row["norm"]]) for row in rows]
    kinds = {kind: [row for row in named if row["kind"] == kind] for kind in ("scales", "rates", "batches")}
    better = _better(kinds["rates"])
    found: list[Exhibit] = [_scales(kinds["scales"]), _all_scales(kinds["scales"]), _paths(better)]
    return [*found, _families(better), _architectures(better), _batches(kinds["batches"])]


def _better(runs: Sequence[Row]) -> list[Row]:
    """Of each norm, network, and seed the run at the rate with the smaller training loss."""
    found: dict[tuple[str, str, int], Row] = {}
    for run in runs:
        key = (run["net"], run["norm"], run["seed"])
        if key not in found or run["loss"] < found[key]["loss"]:
            found[key] = run
    return list(found.values())


def _scales(runs: Sequence[Row]) -> Figure:
    return Figure(
        "scales",
        "How much does the start decide?",
        "Training error after a fixed number of steps against the scale of the initial weights of all hidden layers "
        "(1 is He's start), with batch norm and without. The other norms are in the next figure. A flat curve does not "
        "depend on the start.",
        [run for run in runs if run["norm"] in (NONE, BATCH)],
        Axis("scale", "initial weights over He's", log=True),
        Axis("train_error", "training error", PERCENT, zero=True, counted_on="n"),
        mark=Line(),
        series="name",
        series_title="norm",
        claims=("scale-matters", "batch-norm-steadier"),
    )


def _all_scales(runs: Sequence[Row]) -> Figure:
    first = min((run["seed"] for run in runs), default=0)
    shown = (BATCH, LAYER, GROUP, DATA, STANDARDIZED, SCALED)
    return Figure(
        "all-scales",
        "Do other norms make the start matter less?",
        "Training loss of one network of each kind against the scale of its initial weights. Norms make the network "
        "compute the same function at every scale, but the same step is larger relative to smaller weights.",
        [run for norm in shown for run in runs if run["norm"] == norm and run["seed"] == first],
        Axis("scale", "initial weights over He's", log=True),
        Axis("loss", "training loss", log=True),
        mark=Line(),
        series="name",
        series_title="norm",
        claims=("batch-norm-steadier",),
    )


def _paths(runs: Sequence[Row]) -> Figure:
    shown = (NONE, BATCH, LAYER, GROUP, WEIGHT, SCALED)
    made = [
        {"name": run["name"], "seed": run["seed"], "share": k / max(1, len(run["path"]) - 1), "loss": loss}
        for run in runs
        if run["norm"] in shown and run["net"] == "convolutional"
        for k, loss in enumerate(run["path"])
    ]
    return Figure(
        "paths",
        "Which norm learns fastest?",
        "Loss of the current batch against the share of training, for convolutional networks, each norm at the better "
        "of two rates. Lower is faster.",
        made,
        Axis("share", "share of training", PERCENT),
        Axis("loss", "loss of the batch", log=True),
        mark=Line(points=False),
        series="name",
        series_title="norm",
        claims=("batch-norm-faster",),
    )


def _families(runs: Sequence[Row]) -> Figure:
    order = {norm: place for place, norm in enumerate(KINDS)}
    some = sorted((run for run in runs if run["net"] == "convolutional"), key=lambda run: order[run["norm"]])
    return Figure(
        "families",
        "Do normalized weights replace normalized activations?",
        "Training loss of the convolutional network with each norm, at the better of two rates. WS is weight "
        "standardization; scaled WS normalizes no activation. Compare it with batch norm, and weight norm "
        "with its start from data.",
        some,
        Axis("name", "norm", ordinal=True),
        Axis("loss", "training loss", zero=True),
        mark=Bars(),
        claims=("data-start", "standardization-helps", "no-activations-needed"),
    )


def _architectures(runs: Sequence[Row]) -> Figure:
    some = [run for norm in (NONE, LAYER, BATCH) for run in runs if run["norm"] == norm]
    return Figure(
        "architectures",
        "Is layer norm for transformers, batch norm for convolutions?",
        "Error on new examples of a small convolutional network and of a small transformer with no norm, layer norm, "
        "and batch norm, each at the better of two rates. If the folklore holds at this size, the order of layer norm "
        "and batch norm differs between the panels.",
        some,
        Axis("name", "norm", ordinal=True),
        ERROR,
        mark=Bars(),
        facet="net",
        claims=("layer-norm-convolutions", "layer-norm-transformers", "batch-norm-transformers"),
    )


def _batches(runs: Sequence[Row]) -> Figure:
    made = sorted(runs, key=lambda run: run["batch"])
    return Figure(
        "batches",
        "Do tiny batches hurt batch norm?",
        "Error on new examples after as many training examples in batches of 2, 4, and 32, with rates proportional to "
        "the batch size. Batch norm takes its statistics from the batch, group norm does not. Small batches take more "
        "steps, so compare the two norms at the same batch size.",
        [{**run, "size": f"batches of {run['batch']}"} for run in made],
        Axis("size", "batch size", ordinal=True),
        ERROR,
        mark=Slope(),
        series="name",
        series_title="norm",
        claims=("tiny-batches-hurt", "group-norm-at-two", "group-norm-at-four"),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

WIDTH, IMAGES, DEMO_SCALES = 8, 64, (0.25, 1.0, 4.0)


@torch.no_grad()
def demo(setting: Setting) -> dict[str, Any]:
    """What the last hidden layer says of random images, before its ReLU, with three norms and three initial scales."""
    found: dict[str, dict[str, list[float]]] = {}
    for norm in (NONE, BATCH, DATA):
        found[norm] = {}
        for scale in DEMO_SCALES:
            with seeded_globals(derive(setting["seed"], "demo", norm)):
                net = convnet_of((1, 8, 8), 10, WIDTH, KINDS[norm])
                X = torch.randn(IMAGES, 1, 8, 8)
            assert isinstance(net, torch.nn.Sequential)
            rescale_weights(net[:-1], scale)
            if norm == DATA:
                start_from_data(net[:-1], X)
            out = net[:-4].train()(X)  # without ReLU, mean, flattening, and the linear map
            found[norm][str(scale)] = [round(float(value), 4) for value in out.flatten()[:400]]
    return {"outputs": found}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    rows = [
        {"norm": SHORT[norm], "scale": float(scale), "value": max(-6.0, min(6.0, value))}
        for norm, scales in record.get("outputs", {}).items()
        for scale, values in scales.items()
        for value in values
    ]
    if not rows:
        return []
    return [
        Figure(
            "outputs",
            "What does a norm hold in place?",
            "Sums of the units of the last hidden layer before the ReLU, for random images at the start; values beyond "
            "6 are counted at 6. Move the slider to rescale all initial weights. Without a norm the histogram "
            "collapses or spreads.",
            rows,
            Axis("value", "sum before the ReLU"),
            Axis("share", "share of sums", PERCENT),
            Histogram(48),
            series="norm",
            series_title="norm",
            slider=Axis("scale", "initial weights over He's"),
            starts_at=1.0,
            group=None,
            claims=("scale-matters",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="scales",
    findings=(
        Finding(
            ("batch-norm-steadier",),
            "Batch norm makes the start matter less: {0.mean} less spread in training error.",
            "Batch norm does not make the start matter clearly less: {0.mean} less spread.",
            "Whether batch norm makes the start matter less is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does layer norm still lose in the transformer on color images?",
            "truerisk lab run normalization --scale medium",
        ),
        Question(
            "Why does batch norm help: is the loss better conditioned with it?",
            "truerisk lab run conditioning",
        ),
        Question(
            "Batch norm rescues deep networks, but what do gradients do in them at the start?",
            "truerisk lab run vanishing-gradients",
        ),
    ),
    formulas=(
        Formula(
            r"\mathrm{BN}(a W u) = \mathrm{BN}(W u), \quad "
            r"\nabla_{aW} \, \mathrm{BN}(a W u) = \frac{1}{a} \nabla_W \, \mathrm{BN}(W u)",
            "Batch norm ignores the scale of weights, and larger weights get smaller gradients.",
        ),
        Formula(
            r"g = 1 / \sigma[t], \quad b = - \mu[t] / \sigma[t], \quad t = v^\top x / \| v \|",
            "Weight norm that starts from data: each unit begins with mean 0 and variance 1 on one batch.",
        ),
        Formula(
            r"\hat W_{ij} = \gamma_i \, \frac{W_{ij} - \mu_i}{\sigma_i \sqrt{N}}",
            "Scaled weight standardization: each unit's N weights get mean 0 and norm 1, times a learned gain.",
        ),
    ),
)
