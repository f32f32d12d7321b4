"""`normalization`: what does each normalization change, and where does it hurt?

Small convolutional networks (four layers of 3 x 3, all with the same initial weights of He et al. 2015) and small
transformers, whose tokens are the rows of an image, learn for a fixed number of examples. Three kinds of runs:

    rates     each normalization at two learning rates; the one with the smaller training loss counts
    scales    the weights of all hidden layers start 1/16 to 16 times as large, at the lower rate
    batches   batch norm and group norm with batches of 2, 4, and 32, rates proportional to the batch size

Norms are applied before each ReLU (convolutions), or before attention and mlp (transformers). Convolutional networks
learn by SGD with momentum, transformers by Adam; both rates follow a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from truerisk.data import Data
from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.normalization_runs import KINDS, run
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import POINTS, TIMES, at_least, at_most

SHIFT = "Batch normalization: accelerating deep network training by reducing internal covariate shift"
IOFFE = Paper("Ioffe, Szegedy", 2015, SHIFT, "ICML", arxiv="1502.03167")
BA = Paper("Ba, Kiros, Hinton", 2016, "Layer normalization", arxiv="1607.06450")
WU = Paper("Wu, He", 2018, "Group normalization", "ECCV", arxiv="1803.08494")
SPEED = "Weight normalization: a simple reparameterization to accelerate training of deep neural networks"
SALIMANS = Paper("Salimans, Kingma", 2016, SPEED, "NeurIPS", arxiv="1602.07868")
MICRO = "Micro-batch training with batch-channel normalization and weight standardization"
QIAO = Paper("Qiao, Wang, Liu, Shen, Yuille", 2019, MICRO, arxiv="1903.10520")
SIGNAL = "Characterizing signal propagation to close the performance gap in unnormalized ResNets"
BROCK = Paper("Brock, De, Smith", 2021, SIGNAL, "ICLR", arxiv="2101.08692")

NONE, BATCH, LAYER, GROUP = "none", "batch norm", "layer norm", "group norm"
WEIGHT, DATA = "weight norm", "weight norm, data start"
STANDARDIZED, SCALED = "weight standardization, group norm", "scaled weight standardization"
SCALES = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)


def task(setting: Setting) -> Record:
    return run(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(how: Setting, examples: int, few: int, seeds: Sequence[int]) -> list[Setting]:
    """All seeds where claims look: all norms at two rates, none and batch norm over scales, and batches."""
    conv = {"net": "convolutional", "width": 16, **how, "batch": 32, "examples": examples, "scale": 1.0}
    found = product({"kind": "rates", **conv}, norm=list(KINDS), lr=(0.05, 0.2), seed=seeds)
    tokens = {**conv, "net": "transformer", "width": 32}
    found += product({"kind": "rates", **tokens}, norm=(NONE, BATCH, LAYER), lr=(0.005, 0.02), seed=seeds)
    scaled = {"kind": "scales", **conv, "lr": 0.05}
    found += product(scaled, norm=(NONE, BATCH), scale=SCALES, seed=seeds)
    found += product(scaled, norm=[norm for norm in KINDS if norm not in (NONE, BATCH)], scale=SCALES, seed=seeds[:1])
    for batch in (2, 4, 32):
        own = {"kind": "batches", **conv, "batch": batch, "examples": few, "lr": 0.1 * batch / 32}
        found += product(own, norm=(BATCH, GROUP), seed=seeds)
    return found


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 60, "n_test": 40, "side": 14, "width": 8}
    return _grid(how, 64, 16, [20])


def quick() -> list[Setting]:
    return _grid({"data": "digits", "n": 500, "n_test": 1000, "side": 14}, 2560, 1200, range(20, 25))


def medium() -> list[Setting]:
    """CIFAR-10, averaged over blocks of 2 x 2 pixels."""
    return _grid({"data": "cifar-10", "n": 4000, "n_test": 4000, "side": 16}, 16_000, 4000, range(20, 23))


def paper() -> list[Setting]:
    """All of CIFAR-10 for ten epochs; the published networks learned ImageNet."""
    how = {"data": "cifar-10", "n": 50_000, "n_test": 10_000, "side": 32, "width": 64, "threads": 8}
    return _grid(how, 500_000, 500_000, range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Images of at least 8 x 8 pixels; three seeds."""
    if len(data.input_shape) != 3 or min(data.input_shape[1:]) < 8 or setting["seed"] > 22:
        return None
    return fit_sizes(setting, data)


def cost(setting: Setting) -> float:
    return float(setting["examples"] / setting["batch"] * (2 if setting["net"] == "transformer" else 1))


# ---- the claims ----------------------------------------------------------------------------------------------------


def best(runs: Rows, norm: str, net: str = "convolutional") -> Row:
    """The run of a norm at the rate with the smaller training loss."""
    return min(runs.where(norm=norm, net=net).complete("rates"), key=lambda row: row["loss"])


def loss_ratio(runs: Rows, norm: str, rival: str) -> float:
    """The training loss of a rival over that of a norm, each at its better rate."""
    return float(best(runs, rival)["loss"] / best(runs, norm)["loss"])


def error_gap(runs: Rows, norm: str, rival: str, net: str = "convolutional") -> float:
    """The test error of a rival minus that of a norm, each at its better rate."""
    return float(best(runs, rival, net)["test_error"] - best(runs, norm, net)["test_error"])


def spread(runs: Rows, norm: str) -> float:
    """The largest minus the smallest training error over initial scales."""
    errors = runs.where(norm=norm).column("train_error")
    return float(max(errors) - min(errors))


def steadier(runs: Rows) -> float:
    return spread(runs, NONE) - spread(runs, BATCH)


def tiny_batches(runs: Rows, batch: int) -> float:
    """The test error of batch norm minus that of group norm."""
    some = runs.where(batch=batch)
    return float(some.where(norm=BATCH).one("test_error") - some.where(norm=GROUP).one("test_error"))


def rise(runs: Rows) -> float:
    """How much more test error batch norm has with batches of 2 than with its better of 4 and 32."""
    errors = {row["batch"]: row["test_error"] for row in runs.where(norm=BATCH).complete("batches")}
    return float(errors[2] - min(errors[4], errors[32]))


RATES, SCALED_RUNS, BATCHES = ({"kind": kind} for kind in ("rates", "scales", "batches"))
TRIAL = "trials with seeds 1 and 2 on digits"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "scale-matters",
        "Without norms, the training error differs by at least 60 points between initial scales of 1/16 and 16.",
        partial(spread, norm=NONE),
        at_least(60, POINTS),
        OURS,
        where=SCALED_RUNS,
        counted_on="n",
        pilot=f"{TRIAL} had 90 and 86 points: all scales but 1 fail",
    ),
    Claim(
        "batch-norm-steadier",
        "Batch norm lowers this spread by at least 25 points.",
        steadier,
        at_least(25, POINTS),
        IOFFE.at("Section 3.3"),
        "training is more resilient to the scale of the parameters: BN(a W u) = BN(W u) (no number)",
        where=SCALED_RUNS,
        counted_on="n",
        pilot=f"{TRIAL} had 51 and 56 points",
        note="The function at the start is the same for all scales by construction; how far it learns is not.",
    ),
    Claim(
        "batch-norm-faster",
        "Batch norm ends at a smaller training loss than no norm, each at its better rate.",
        partial(loss_ratio, norm=BATCH, rival=NONE),
        at_least(1, TIMES),
        IOFFE.at("abstract"),
        "the same accuracy with 14 times fewer training steps (ImageNet)",
        where={**RATES, "net": "convolutional"},
        pilot=f"{TRIAL} had 2.7 and 8.8 times; one with seed 0, other rates, and more steps 0.5 times",
    ),
    Claim(
        "layer-norm-convolutions",
        "In the convolutional network, layer norm errs more on new examples than batch norm.",
        partial(error_gap, norm=BATCH, rival=LAYER),
        at_least(0, POINTS),
        BA.at("Section 6.7"),
        "layer norm speeds up convolutional networks, but batch norm outperforms it",
        where={**RATES, "net": "convolutional"},
        counted_on="n_test",
        pilot=f"{TRIAL} had 3.6 and 3.8 points",
        note="The section is quoted from memory.",
    ),
    Claim(
        "layer-norm-transformers",
        "In the transformer, layer norm errs less on new examples than no norm.",
        partial(error_gap, norm=LAYER, rival=NONE, net="transformer"),
        at_least(0, POINTS),
        OURS,
        "layer norm is said to suit transformers and recurrent networks",
        where={**RATES, "net": "transformer"},
        counted_on="n_test",
        pilot=f"{TRIAL} had -0.6 and -4.7 points: a failure is expected in networks as shallow as these",
    ),
    Claim(
        "batch-norm-transformers",
        "In the transformer, layer norm errs less on new examples than batch norm.",
        partial(error_gap, norm=LAYER, rival=BATCH, net="transformer"),
        at_least(0, POINTS),
        OURS,
        "layer norm is said to suit transformers and recurrent networks",
        where={**RATES, "net": "transformer"},
        counted_on="n_test",
        pilot=f"{TRIAL} had -1.5 and -6.3 points: a failure is expected",
    ),
    Claim(
        "tiny-batches-hurt",
        "With batches of 2, batch norm errs more than with its better batch size of 4 or 32.",
        rise,
        at_least(0, POINTS),
        WU.at("abstract and Figure 1"),
        "the error of batch norm increases rapidly as batches become smaller",
        where=BATCHES,
        counted_on="n_test",
        pilot="trials with seeds 0 to 2 had 5.0, 6.7, and 4.2 points",
    ),
    Claim(
        "group-norm-at-two",
        "With batches of 2, group norm errs less than batch norm.",
        partial(tiny_batches, batch=2),
        at_least(0, POINTS),
        WU.at("abstract"),
        "10.6 points less (ResNet-50, ImageNet, batches of 2)",
        10.6,
        where={**BATCHES, "batch": 2},
        counted_on="n_test",
        pilot="trials with seeds 0 to 2 had 3.7, 7.0, and 1.7 points",
    ),
    Claim(
        "group-norm-at-four",
        "With batches of 4, group norm errs less than batch norm.",
        partial(tiny_batches, batch=4),
        at_least(0, POINTS),
        WU.at("Figure 1"),
        "group norm errs less with batches of 4 as well",
        where={**BATCHES, "batch": 4},
        counted_on="n_test",
        pilot="trials with seeds 0 to 2 had -2.0, -0.9, and -6.2 points: a failure is expected",
    ),
    Claim(
        "data-start",
        "Weight norm ends at a smaller training loss if gains and biases start from data.",
        partial(loss_ratio, norm=DATA, rival=WEIGHT),
        at_least(1, TIMES),
        SALIMANS.at("Section 3"),
        "a data-dependent start is proposed and used throughout (no number)",
        where={**RATES, "net": "convolutional"},
        pilot=f"{TRIAL} had 1.1 and 2.3 times",
    ),
    Claim(
        "standardization-helps",
        "Weight standardization lowers the training loss of group norm.",
        partial(loss_ratio, norm=STANDARDIZED, rival=GROUP),
        at_least(1, TIMES),
        QIAO.at("abstract"),
        "weight standardization accelerates training and improves group norm",
        where={**RATES, "net": "convolutional"},
        pilot=f"{TRIAL} had 1.8 and 20 times",
    ),
    Claim(
        "no-activations-needed",
        "Scaled weight standardization alone errs at most 1 point more on new examples than batch norm.",
        partial(error_gap, norm=BATCH, rival=SCALED),
        at_most(1, POINTS),
        BROCK.at("abstract"),
        "networks without normalized activations match those with batch norm (ImageNet)",
        where={**RATES, "net": "convolutional"},
        counted_on="n_test",
        pilot=f"{TRIAL} had 2.1 and -0.4 points",
    ),
)

EXPERIMENT = Experiment(
    name="normalization",
    title="Which normalization helps where?",
    about=(
        "Normalization layers are said to speed up training and to make it depend less on initial weights. Batch norm "
        "needs large batches, layer norm is said to suit transformers but not convolutions, and newer methods "
        "normalize weights instead of activations. This experiment compares eight of them on the same small networks."
    ),
    papers=(IOFFE, BA, WU, SALIMANS, QIAO, BROCK),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
