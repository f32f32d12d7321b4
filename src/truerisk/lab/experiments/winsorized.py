"""`winsorized`: does SGD memorize less if no few examples may move a weight? (Chatterjee 2020, winsorized SGD.)

A fully connected ReLU network learns from labels of which some were redrawn at random. Methods:

    c = 0              plain SGD
    c = 1, 2, 4, 8     winsorized SGD: of each weight's per-example gradients, the c smallest and the c largest of a
                       batch of 100 are pulled in to the next ones before they are averaged
    M3, RM3            the median of three means, for each weight: of three parts of the batch, or of the last three
                       batches (Zielinski, Krishnan and Chatterjee 2020)

    overfit = training accuracy - [noise / classes + (1 - noise) x test accuracy]

In brackets is the accuracy on training labels that the network would have if it treated training examples like new
ones. Two controls for a method that is slow to memorize: plain SGD that stops where validation accuracy (with labels as
noisy as in training) is highest, and plain SGD at the same training accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from truerisk.data import Data
from truerisk.data.scaling import normalize
from truerisk.errors import TrueriskError
from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Row, Rows
from truerisk.lab.units import POINTS, at_least, at_most, between
from truerisk.lab.winsorized_runs import M3, RM3, count, run_winsorized, winsorized

COHERENT = "Coherent gradients: an approach to understanding generalization in gradient descent-based optimization"
CHATTERJEE = Paper("Chatterjee", 2020, COHERENT, "ICLR", arxiv="2002.10657")
WEAK = "Weak and strong gradient directions: explaining memorization, generalization, and hardness of examples at scale"
ZIELINSKI = Paper("Zielinski, Krishnan, Chatterjee", 2020, WEAK, arxiv="2003.07422")

CLEAN, HALF = 0.0, 0.5  # probabilities of a random training label
PLAIN, SOME, MOST = winsorized(0), winsorized(4), winsorized(8)
STEP = 13.0  # of a user's data: learning rate times squared norm of an input


def task(setting: Setting) -> Record:
    """One network: its accuracies on the way, and its overfit."""
    return run_winsorized(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _claimed(how: Setting, seeds: Sequence[int]) -> list[Setting]:
    noisy = product({**how, "noise": HALF}, method=[PLAIN, SOME, MOST, M3, RM3], seed=seeds)
    return noisy + product({**how, "noise": CLEAN}, method=[PLAIN, MOST], seed=seeds)


def smoke() -> list[Setting]:
    sizes = {"n": 100, "n_test": 100, "n_validation": 50, "hidden": [16], "batch": 50, "lr": 0.2, "epochs": 10}
    return _claimed({"data": "digits", **sizes}, [20])


def quick() -> list[Setting]:
    sizes = {"n": 400, "n_test": 1000, "n_validation": 250, "hidden": [64], "batch": 100, "lr": 0.2, "epochs": 200}
    how = {"data": "digits", **sizes}
    others = product({**how, "seed": 20}, noise=[0.25, 0.75], method=[PLAIN, SOME, MOST])
    return _claimed(how, range(20, 25)) + others + [{**how, "noise": HALF, "method": winsorized(2), "seed": 20}]


def medium() -> list[Setting]:
    sizes = {"n": 1000, "n_test": 5000, "n_validation": 500, "hidden": [32, 32], "batch": 100, "lr": 0.02}
    return _claimed({"data": "mnist", **sizes, "epochs": 200}, range(20, 23))


def paper() -> list[Setting]:
    """All of MNIST, 3 layers of 256 units, 60,000 steps, as published; the rate is our choice for whitened inputs."""
    sizes = {"n": 60_000, "n_test": 9000, "n_validation": 1000, "hidden": [256] * 3, "batch": 100, "lr": 0.02}
    how = {"data": "mnist", **sizes, "epochs": 100, "threads": 16}
    methods = [winsorized(c) for c in (0, 1, 2, 4, 8)]
    others = product({**how, "seed": 20}, noise=[0.25, 0.75, 1.0], method=methods)
    return _claimed(how, range(20, 23)) + others


def own_data(setting: Setting, data: Data) -> Setting | None:
    """As many examples as there are, three seeds, and methods that the batches of the data set allow."""
    some = data.take(list(range(min(len(data), 500))))
    if not normalize(some, some)[0].X.any():
        raise TrueriskError(f"{data.name}: all inputs are alike after normalization; give inputs that differ.")
    fitted = fit_sizes({**setting, "n_test": setting["n_test"] + setting["n_validation"]}, data)
    validation = min(setting["n_validation"], fitted["n_test"] // 3)
    batch = min(setting["batch"], fitted["n"])
    smallest = fitted["n"] // math.ceil(fitted["n"] / batch)
    if setting["seed"] > 22 or 2 * (count(setting["method"]) or 0) >= smallest:
        return None
    rate = min(0.2, STEP / math.prod(data.input_shape))
    sizes = {"n_test": fitted["n_test"] - validation, "n_validation": validation, "batch": batch}
    return {**fitted, **sizes, "lr": rate}


def cost(setting: Setting) -> float:
    work = {M3: 1.5, RM3: 0.8, PLAIN: 1.0}.get(setting["method"], 2.5)
    return work * setting["epochs"] * setting["n"] * setting["hidden"][0] / 5e6


# ---- the claims ----------------------------------------------------------------------------------------------------


def of(runs: Rows, method: str) -> Row:
    found = runs.where(method=method).complete("accuracies")
    if len(found) != 1:
        raise IncompleteError(f"{len(found)} runs match where one was meant")
    return found[0]


def overfit_falls(runs: Rows) -> dict[str, float]:
    plain, some, most = (of(runs, method)["overfit"] for method in (PLAIN, SOME, MOST))
    return {"c from 0 to 4": plain - some, "c from 4 to 8": some - most}


def overfit_saved(runs: Rows, method: str) -> float:
    return float(of(runs, PLAIN)["overfit"] - of(runs, method)["overfit"])


def accuracy_gain(runs: Rows) -> float:
    """Final test accuracy of c = 8 minus that of plain SGD."""
    return float(of(runs, MOST)["test_accuracy"] - of(runs, PLAIN)["test_accuracy"])


def accuracy_loss(runs: Rows) -> float:
    return -accuracy_gain(runs)


def stopping_gain(runs: Rows) -> float:
    """Test accuracy of plain SGD that stops early minus the final one of c = 8."""
    return float(of(runs, PLAIN)["stopped_accuracy"] - of(runs, MOST)["test_accuracy"])


def best_difference(runs: Rows) -> float:
    return float(of(runs, MOST)["best_accuracy"] - of(runs, PLAIN)["best_accuracy"])


def same_fit(runs: Rows) -> float:
    """Final test accuracy of c = 8 minus that of plain SGD where it first has the same training accuracy."""
    plain, most = of(runs, PLAIN), of(runs, MOST)
    return float(most["test_accuracy"] - test_at(plain, most["train_accuracies"][-1]))


def test_at(row: Row, fitted: float) -> float:
    """Test accuracy where training accuracy first reaches a value, interpolated between looks."""
    train, test = row["train_accuracies"], row["test_accuracies"]
    after = next((place for place, value in enumerate(train) if value >= fitted), None)
    if after is None:
        raise IncompleteError(f"plain SGD never reached a training accuracy of {100 * fitted:.1f}%")
    before = max(0, after - 1)
    return float(np.interp(fitted, [train[before], train[after]], [test[before], test[after]]))


test_at.__test__ = False  # type: ignore[attr-defined]
TRIAL = "Trials with seeds 0 to 3 on digits"
NOISY: dict[str, object] = {"noise": [HALF]}
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "overfit-falls",
        "With 50% noise, overfit falls from c = 0 to c = 4, and from c = 4 to c = 8.",
        overfit_falls,
        at_least(5, POINTS),
        CHATTERJEE.at("second experiment, winsorized SGD"),
        "overfit falls as c grows, at every level of noise (figure; no number)",
        where=NOISY,
        counted_on="n",
        pilot=f"{TRIAL} saw 19 to 24 points from 0 to 4, and 15 to 26 points from 4 to 8.",
    ),
    Claim(
        "clean-cost",
        "Without noise, c = 8 loses at most 4 points of test accuracy.",
        accuracy_loss,
        at_most(4, POINTS),
        CHATTERJEE.at("second experiment, winsorized SGD"),
        "large c fits less of the training set (no number for test accuracy)",
        where={"noise": [CLEAN]},
        counted_on="n_test",
        pilot=f"{TRIAL} saw losses of 1 to 3 points.",
    ),
    Claim(
        "final-accuracy",
        "With 50% noise, c = 8 ends with a higher test accuracy than plain SGD.",
        accuracy_gain,
        at_least(0, POINTS),
        OURS,
        where=NOISY,
        counted_on="n_test",
        pilot=f"{TRIAL} saw gains of 4 to 17 points.",
    ),
    Claim(
        "early-stopping",
        "With 50% noise, plain SGD that stops early is better than c = 8 at the end.",
        stopping_gain,
        at_least(5, POINTS),
        OURS,
        where=NOISY,
        counted_on="n_test",
        pilot=f"{TRIAL} saw 12 to 23 points.",
        note="It stops where accuracy is highest on validation examples, whose labels are as noisy as training labels.",
    ),
    Claim(
        "same-best",
        "With 50% noise, the best test accuracy on the way is the same for c = 8 and for plain SGD.",
        best_difference,
        between(-5, 5, POINTS),
        OURS,
        where=NOISY,
        counted_on="n_test",
        pilot=f"{TRIAL} saw differences of 0 to -4 points.",
        note="The best epoch is chosen on test examples, for both alike.",
    ),
    Claim(
        "same-fit",
        "With 50% noise, c = 8 is at most 5 points better than plain SGD at the same training accuracy.",
        same_fit,
        at_most(5, POINTS),
        OURS,
        where=NOISY,
        counted_on="n_test",
        pilot=f"{TRIAL} saw -21 and 4 points.",
        note="If so, winsorizing delays memorization, but what it has learned by then is no better.",
    ),
    Claim(
        "m3",
        "With 50% noise, overfit is smaller with the median of three parts of a batch (M3) than with plain SGD.",
        partial(overfit_saved, method=M3),
        at_least(5, POINTS),
        ZIELINSKI.at("abstract"),
        "M3 greatly reduces overfitting, for ResNet, Inception, and VGG on ImageNet (no number)",
        where=NOISY,
        counted_on="n",
        pilot=f"{TRIAL} saw -2 to 2 points.",
    ),
    Claim(
        "rm3",
        "With 50% noise, overfit is smaller with the median of the last three batches (RM3) than with plain SGD.",
        partial(overfit_saved, method=RM3),
        at_least(5, POINTS),
        ZIELINSKI.at("abstract"),
        "RM3 greatly reduces overfitting, for ResNet, Inception, and VGG on ImageNet (no number)",
        where=NOISY,
        counted_on="n",
        pilot=f"{TRIAL} saw 0 to 13 points.",
    ),
)


EXPERIMENT = Experiment(
    name="winsorized",
    title="Does SGD memorize less if few examples cannot move a weight?",
    about=(
        "A wrong label is learned because one example can move a weight alone. Winsorized SGD (Chatterjee 2020) pulls "
        "in the largest and the smallest per-example gradients of each weight before it averages them, so that only "
        "directions that many examples share count in full. This experiment checks how much less is memorized, and "
        "whether stopping early would do as well."
    ),
    papers=(CHATTERJEE, ZIELINSKI),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
