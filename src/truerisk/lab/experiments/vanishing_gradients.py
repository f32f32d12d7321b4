"""`vanishing-gradients`: how much of a gradient arrives at the first layer, or at the first time step?

Five kinds of runs:

    gradients   networks with 2 to 32 hidden layers at their start: the gradient of the first hidden layer over that of
                the last, for activation functions, initial weights, skips, and norms (`ARMS` of `depth_runs`)
    deep        30 hidden layers that learn for a fixed number of steps
    plain       convolutional networks of 18 and 34 layers, all with batch norm, with shortcuts or without
    state       recurrent cells: the norm of d h_T / d h_0 against T
    memory      recurrent cells that must remember the first of 50 inputs

The networks of He et al. (2016) are thin here: 4 channels (published: 64), small images, few steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.data import Data
from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper
from truerisk.lab.depth_effects import (
    LONG,
    SHORT,
    TRAINED,
    forgotten,
    kept_signals,
    longer_memory,
    memory_gain,
    norm_ratio,
    per_layer,
    plain_gap,
    reach,
    removed_gap,
    residual_gap,
    skip_weights,
    small_starts,
    start_ratio,
)  # fmt: skip
from truerisk.lab.depth_runs import ARMS, CELLS, RUNS
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.units import PLAIN, POINTS, TIMES, at_least, at_most, between

BENGIO = Paper(
    "Bengio, Simard, Frasconi",
    1994,
    "Learning long-term dependencies with gradient descent is difficult",
    "IEEE Transactions on Neural Networks 5",
)
DELVING = "Delving deep into rectifiers: surpassing human-level performance on ImageNet classification"
HE15 = Paper("He, Zhang, Ren, Sun", 2015, DELVING, "ICCV", arxiv="1502.01852")
RESIDUAL = "Deep residual learning for image recognition"
HE16 = Paper("He, Zhang, Ren, Sun", 2016, RESIDUAL, "CVPR", arxiv="1512.03385")
FIELD = "A mean field theory of batch normalization"
YANG = Paper("Yang, Pennington, Rao, Sohl-Dickstein, Schoenholz", 2019, FIELD, "ICLR", arxiv="1902.08129")


def task(setting: Setting) -> Record:
    return RUNS[setting["kind"]](setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(
    how: Setting, seeds: Sequence[int], depths: Sequence[int], deep: Setting, plain: Setting, memory: Setting
) -> list[Setting]:
    """All seeds where claims look; one seed for short sequences."""
    gradients = {"kind": "gradients", **how, "n": min(how["n"], 100), "width": 32, "depths": list(depths)}
    found = product(gradients, arm=list(ARMS), seed=seeds)
    found += product({"kind": "deep", **how, "width": 32, "lr": 0.01, "batch": 32, **deep}, arm=TRAINED, seed=seeds)
    plain = {"kind": "plain", **how, "lr": 0.1, "batch": 32, **plain}
    found += product(plain, depth=(18, 34), residual=(False, True), seed=seeds)
    found += product({"kind": "state", "hidden": memory["hidden"]}, cell=list(CELLS), seed=[10 + s for s in seeds])
    memory = {"kind": "memory", "lr": 0.01, "batch": 32, **memory}
    found += product({**memory, "length": LONG}, cell=list(CELLS), seed=seeds)
    return found + product({**memory, "length": SHORT}, cell=list(CELLS), seed=seeds[:1])


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 40, "side": 14}
    plain = {"n_test": 40, "width": 2, "steps": 2}
    return _grid(how, [20], (2, 8), {"depth": 8, "steps": 5}, plain, {"hidden": 8, "steps": 3})


def quick() -> list[Setting]:
    how = {"data": "digits", "n": 500, "side": 14}
    plain = {"n_test": 1000, "width": 4, "steps": 130}
    return _grid(
        how, range(20, 25), (2, 4, 8, 16, 32), {"depth": 30, "steps": 250}, plain, {"hidden": 32, "steps": 150}
    )


def medium() -> list[Setting]:
    """CIFAR-10, averaged over blocks of 2 x 2 pixels; 8 channels."""
    how = {"data": "cifar-10", "n": 2000, "side": 16}
    plain = {"n_test": 2000, "width": 8, "steps": 500}
    return _grid(
        how, range(20, 23), (2, 4, 8, 16, 32, 64), {"depth": 30, "steps": 1000}, plain, {"hidden": 64, "steps": 400}
    )


def paper() -> list[Setting]:
    """All of CIFAR-10 and 64 channels; the published networks of 18 and 34 layers learned ImageNet."""
    how = {"data": "cifar-10", "n": 50_000, "side": 32, "threads": 16}
    plain = {"n_test": 10_000, "width": 64, "steps": 30_000, "batch": 128}
    return _grid(
        how, range(20, 23), (2, 4, 8, 16, 32, 64), {"depth": 30, "steps": 30_000}, plain, {"hidden": 128, "steps": 2000}
    )


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Sequences have data of their own; convolutions need images of at least 8 x 8 pixels."""
    if setting["kind"] in ("state", "memory"):
        return None
    if setting["kind"] == "plain" and (len(data.input_shape) != 3 or min(data.input_shape[1:]) < 8):
        return None
    fitted = fit_sizes({"n_test": 1, **setting}, data)
    return fitted if "n_test" in setting else {name: value for name, value in fitted.items() if name != "n_test"}


def cost(setting: Setting) -> float:
    each = {"gradients": 0.001, "deep": 0.004, "plain": 0.0005, "state": 0.3, "memory": 0.004}[setting["kind"]]
    return float(each * setting.get("steps", 1) * (setting.get("depth", 1) if setting["kind"] == "plain" else 1))


# ---- the claims ----------------------------------------------------------------------------------------------------


GRADIENTS, DEEP, PLAIN_NETS, STATE = ({"kind": kind} for kind in ("gradients", "deep", "plain", "state"))
TRIAL = "trials with seeds 0 and 1 on digits"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "small-starts-vanish",
        "With sigmoids or small initial weights, the first hidden layer gets at most 0.001 of the last one's gradient.",
        small_starts,
        at_most(0.001, TIMES),
        OURS,
        where=GRADIENTS,
        pilot=f"{TRIAL}, 32 layers, had 2e-7 for tanh, 3e-11 for ReLU, and 2e-19 for sigmoids",
        note="Gradients of the weight matrices between hidden layers, at the greatest depth of the grid.",
    ),
    Claim(
        "scaled-starts-keep",
        "Xavier's start for tanh and He's for ReLU keep the signal within a factor of 30 over all layers.",
        kept_signals,
        between(1 / 30, 30, TIMES),
        HE15.at("Section 2.2"),
        "initial weights of variance 2 / fan_in keep the variance of backpropagated signals (ReLU)",
        where=GRADIENTS,
        pilot=f"{TRIAL} had 0.07 to 0.15 for tanh, 0.3 to 0.4 for ReLU",
    ),
    Claim(
        "xavier-halves",
        "With ReLU and Xavier's start the signal shrinks by a factor of 0.6 to 0.8 in each layer.",
        per_layer,
        between(0.6, 0.8, TIMES),
        HE15.at("Section 2.2"),
        "0.71: its variance is halved in each layer",
        0.707,
        where={**GRADIENTS, "arm": "ReLU, Xavier"},
        pilot=f"{TRIAL} had 0.68 and 0.69",
    ),
    Claim(
        "batch-norm-explodes",
        "With batch norm and no skips, gradients explode: the signal grows by 1.1 to 1.3 times in each layer.",
        per_layer,
        between(1.1, 1.3, TIMES),
        YANG.at("abstract and ReLU case"),
        "1.21: its variance grows by pi / (pi - 1) in each layer (wide ReLU networks, large batches)",
        1.211,
        where={**GRADIENTS, "arm": "ReLU, He, batch norm"},
        pilot=f"{TRIAL} had 1.22",
        note="The rate is quoted from memory; the abstract says that gradients explode whatever the initial weights.",
    ),
    Claim(
        "skips-restore",
        "Skips raise the first layer's share of the gradient at least 1,000-fold at the same small start.",
        skip_weights,
        at_least(1000, TIMES),
        OURS,
        where=GRADIENTS,
        pilot=f"{TRIAL} had over 1e9 times",
    ),
    Claim(
        "he-start-learns",
        "With 30 ReLU layers, Xavier's start ends at a training loss at least 1.1 times as large as He's start.",
        start_ratio,
        at_least(1.1, TIMES),
        HE15.at("Figure 3"),
        "a network of 30 layers converges with the new start and stalls with Xavier's",
        where=DEEP,
        pilot=f"{TRIAL} had 2.9 and 1.25 times",
    ),
    Claim(
        "norm-and-skips-learn",
        "With 30 layers, batch norm and skips end at a training loss at most a fifth of that of He's start alone.",
        norm_ratio,
        at_least(5, TIMES),
        OURS,
        where=DEEP,
        pilot=f"{TRIAL} had 12 and 27 times",
    ),
    Claim(
        "plain-degrades",
        "Without shortcuts, 34 layers have a training error at least 5 points above that of 18 layers.",
        plain_gap,
        at_least(5, POINTS),
        HE16.at("Figure 4 and Table 2"),
        "higher training error throughout; 28.5% against 27.9% of ImageNet's validation images (0.6 points)",
        where=PLAIN_NETS,
        counted_on="n",
        pilot="trials with seeds 0 to 2 on digits had 31 to 49 points",
        note="Few steps and thin networks make the gap larger than the published one.",
    ),
    Claim(
        "residual-gains",
        "With shortcuts, 34 layers have no higher training error than 18 layers.",
        residual_gap,
        at_most(0, POINTS),
        HE16.at("Figure 4 and Table 2"),
        "lower training error; 25.0% against 27.9% of ImageNet's validation images (-2.9 points)",
        -2.85,
        where=PLAIN_NETS,
        counted_on="n",
        pilot="trials with seeds 0 to 2 on digits had 10, 9, and, with a larger rate and more steps, -0.2 points",
    ),
    Claim(
        "shortcuts-close-gap",
        "Shortcuts lower the difference between 34 and 18 layers by at least 10 points of training error.",
        removed_gap,
        at_least(10, POINTS),
        OURS,
        where=PLAIN_NETS,
        counted_on="n",
        pilot="trials with seeds 0 to 2 on digits had 27 to 39 points",
    ),
    Claim(
        "not-vanishing",
        "Gradients of the plain network with 34 layers do not vanish: those of the first block are the larger ones.",
        reach,
        at_least(1, TIMES),
        HE16.at("Section 4.1"),
        "the difficulty is unlikely to be caused by vanishing gradients, because of batch norm",
        where=PLAIN_NETS,
        pilot="a trial with seed 2 had 77 times",
    ),
    Claim(
        "state-vanishes",
        "In a tanh cell with torch's start, the state after 32 steps depends on the first by at most 0.001.",
        forgotten,
        at_most(0.001, PLAIN),
        BENGIO.at("Section IV"),
        "where a state is stored robustly, its derivatives by earlier states vanish exponentially",
        where=STATE,
        pilot=f"{TRIAL} had 1e-6 and 5e-6",
        note="The section is quoted from memory.",
    ),
    Claim(
        "longer-memory",
        "Orthogonal weights and LSTMs raise that derivative at least 1,000-fold.",
        longer_memory,
        at_least(1000, TIMES),
        OURS,
        where=STATE,
        pilot=f"{TRIAL} had 1,700 times for the LSTM and more for the others",
    ),
    Claim(
        "gates-remember",
        "An LSTM with open forget gates errs at least 30 points less than a tanh cell on the first of 50 inputs.",
        memory_gain,
        at_least(30, POINTS),
        OURS,
        where={"kind": "memory", "length": LONG},
        counted_on=1000,
        pilot=f"{TRIAL} had 50 points; orthogonal weights succeeded once in two",
    ),
)

EXPERIMENT = Experiment(
    name="vanishing-gradients",
    title="Do gradients reach the first layer, and the first step?",
    about=(
        "Backpropagation multiplies one factor for each layer and each time step, so gradients vanish or explode "
        "exponentially unless the factors are near 1. This experiment measures how much arrives, and whether networks "
        "learn where little does. It also asks whether vanishing gradients are why very deep plain networks fail."
    ),
    papers=(BENGIO, HE15, HE16, YANG),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
