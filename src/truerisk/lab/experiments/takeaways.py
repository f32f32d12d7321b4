"""`takeaways`: which practical advice on training networks is worth its cost?

The advice that a course on deep learning ends with. Each is a recipe and a control that differs in the advice alone.
The baseline is a plain network with two hidden layers, trained by SGD with a constant rate:

    wide           256 units in each layer, not 64          narrow      8 units, not 64
    skips          8 layers with skips and batch norm       robust      Adam, not SGD, on badly scaled features
    small-batches  batches of 20, not 500                   large-rate  ten times the learning rate
    anneal         the rate falls to 0 along a cosine       stop        early stopping on held-out training examples
    decay          AdamW with weight decay, not without     decoupled   AdamW, not Adam with L2 in its gradients
    shift          random shifts of the inputs              augment     random shifts, four times as long
    dropout        20% of the units, four times as long     longer      four times as long, nothing else
    noise          80% of the units dropped: too much

The gain is the test error of the control minus that of the recipe, in percentage points. The cost is counted in
operations (`lab.takeaway_runs`), not in seconds. The unit is points per doubling of the cost: gain / log2(cost of the
recipe / cost of the control). Advice that costs the same or less is free, and its gain stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from truerisk.data import Data
from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper, Source
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.takeaway_runs import run
from truerisk.lab.units import PERCENT, POINTS, TIMES, Region, at_least, at_most, between

DECOUPLED = "Decoupled weight decay regularization"
LOSHCHILOV = Paper("Loshchilov, Hutter", 2019, DECOUPLED, "ICLR", arxiv="1711.05101")
RESIDUAL = "Deep residual learning for image recognition"
HE = Paper("He, Zhang, Ren, Sun", 2016, RESIDUAL, "CVPR", arxiv="1512.03385")
BATCHES = "On large-batch training for deep learning: generalization gap and sharp minima"
KESKAR = Paper("Keskar, Mudigere, Nocedal, Smelyanskiy, Tang", 2017, BATCHES, "ICLR", arxiv="1609.04836")

BASE: Setting = {
    "width": 64, "depth": 2, "norm": False, "skip": False, "dropout": 0.0, "optimizer": "sgd", "lr": 1.0, "batch": 100,
    "epochs": 60, "anneal": False, "decay": 0.0, "shift": 0, "stop": False, "spread": 1,
}  # fmt: skip
DEEP, SCALED, ADAM = {"depth": 8}, {"spread": 100}, {"optimizer": "adam", "lr": 0.01}
RECIPES: dict[str, Setting] = {
    "baseline": {},
    "wide": {"width": 256},
    "narrow": {"width": 8},
    "deep": {**DEEP, "lr": 0.3},
    "skips": {**DEEP, "lr": 0.1, "norm": True, "skip": True},
    "scaled": {**SCALED, "lr": 0.3},
    "robust": {**SCALED, **ADAM},
    "large-batches": {"batch": 500},
    "small-batches": {"batch": 20, "lr": 0.3},
    "small-rate": {"lr": 0.1},
    "anneal": {"anneal": True},
    "stop": {"stop": True},
    "adam": ADAM,
    "decay": {**ADAM, "optimizer": "adamw", "decay": 1.0},
    "l2": {**ADAM, "decay": 0.01},
    "longer": {"epochs": 4},
    "shift": {"shift": 3},
    "augment": {"epochs": 4, "shift": 3},
    "dropout": {"epochs": 4, "dropout": 0.2},
    "noise": {"lr": 0.3, "dropout": 0.8},
}
# advice -> (recipe, control)
ADVICE = {
    "wide": ("wide", "baseline"),
    "narrow": ("narrow", "baseline"),
    "skips": ("skips", "deep"),
    "robust": ("robust", "scaled"),
    "small-batches": ("small-batches", "large-batches"),
    "large-rate": ("baseline", "small-rate"),
    "anneal": ("anneal", "baseline"),
    "stop": ("stop", "baseline"),
    "decay": ("decay", "adam"),
    "decoupled": ("decay", "l2"),
    "shift": ("shift", "baseline"),
    "augment": ("augment", "baseline"),
    "dropout": ("dropout", "baseline"),
    "longer": ("longer", "baseline"),
    "noise": ("noise", "baseline"),
}
TOO_MUCH = "too much gradient variance can prevent training completely"
FREE = 1.1  # times the cost of the control: advice below that counts as free


def task(setting: Setting) -> Record:
    return run(setting)


def grid(how: Setting, seeds: Sequence[int], slower: float = 1.0, **base: int) -> list[Setting]:
    """All recipes; ``slower`` divides all rates of SGD, and numbers of epochs in recipes are multiples of the base."""
    found = []
    for name, recipe in RECIPES.items():
        own = {**BASE, **base, **recipe}
        own["epochs"] = recipe.get("epochs", 1) * base.get("epochs", BASE["epochs"])
        if own["optimizer"] == "sgd":
            own["lr"] = round(own["lr"] / slower, 6)
        found += product({"recipe": name, **how, **own}, seed=seeds)
    return found


def smoke() -> list[Setting]:
    return grid({"data": "digits", "n": 80, "n_test": 100}, [20], epochs=2)


def quick() -> list[Setting]:
    return grid({"data": "mnist1d", "n": 1000, "n_test": 2000}, range(20, 25))


def medium() -> list[Setting]:
    """MNIST has 20 times as many inputs of the same size, so gradients are larger."""
    return grid({"data": "mnist", "n": 1000, "n_test": 5000}, range(20, 23), slower=10)


def paper() -> list[Setting]:
    """No size is published: the advice is a list on a slide. All of MNIST."""
    return grid({"data": "mnist", "n": 60_000, "n_test": 10_000}, range(20, 23), slower=10)


def cost(setting: Setting) -> float:
    size = 8 if setting["data"] == "mnist" else 1
    return setting["epochs"] * setting["n"] * setting["depth"] * setting["width"] * size / 1e7


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Shifts make sense for images alone."""
    return None if setting["shift"] and len(data.input_shape) != 3 else fit_sizes(setting, data)


# ---- the claims ----------------------------------------------------------------------------------------------------


def gain(runs: Rows, advice: str) -> float:
    """Test error of the control minus that of the recipe."""
    recipe, control = ADVICE[advice]
    return float(runs.where(recipe=control).one("test_error") - runs.where(recipe=recipe).one("test_error"))


def cost_ratio(runs: Rows, advice: str) -> float:
    recipe, control = ADVICE[advice]
    return float(runs.where(recipe=recipe).one("cost") / runs.where(recipe=control).one("cost"))


def per_doubling(runs: Rows, advice: str) -> float:
    """Gain for each doubling of the cost."""
    times = cost_ratio(runs, advice)
    if times < FREE:
        raise IncompleteError(f"{advice} takes {times:.2g} times as long, so nothing is doubled")
    return gain(runs, advice) / math.log2(times)


def train_error(runs: Rows, recipe: str) -> float:
    return float(runs.where(recipe=recipe).one("train_error"))


def only(*advice: str) -> dict[str, list[str]]:
    """The runs that some advice is judged by."""
    return {"recipe": sorted({recipe for name in advice for recipe in ADVICE[name]})}


def worth(
    name: str, says: str, wants: Region, trial: str, whose: Source = OURS, published: str = "", note: str = ""
) -> Claim:
    """A claim about the gain of advice: per doubling where it takes longer than its control."""
    return Claim(
        name,
        says,
        partial(per_doubling if name in LONGER else gain, advice=name),
        wants,
        whose,
        published,
        where=only(name),
        counted_on="n_test",
        pilot=f"one trial with seed 0 had {trial} on MNIST-1D",
        note=note,
    )


LONGER = ("augment", "longer", "dropout", "wide")
CLAIMS: tuple[AnyClaim, ...] = (
    worth(
        "augment",
        "Random shifts gain at least 2 points for each doubling of the training time.",
        at_least(2, POINTS),
        "6.3 points per doubling",
    ),
    worth(
        "longer",
        "Training four times as long, with nothing else, changes the error by at most 1 point per doubling.",
        between(-1, 1, POINTS),
        "-0.4 points per doubling",
    ),
    worth("shift", "Random shifts gain at least 2 points in the same time.", at_least(2, POINTS), "8.0 points"),
    worth("dropout", "Dropout gains with each doubling of the time.", at_least(0, POINTS), "0.9 per doubling"),
    worth("wide", "Four times as many units do not raise the error.", at_least(0, POINTS), "0.2 points per doubling"),
    worth(
        "skips",
        "Skips and batch norm gain at least 10 points in a network of 8 layers in the same time.",
        at_least(10, POINTS),
        "36 points",
        HE.at("Section 4.1"),
        "without skips, 34 layers err more than 18, in training too; with skips they err less (place from memory)",
        note="The rate of each network is the best of 0.1, 0.3, and 1 in a trial; without skips SGD does not start.",
    ),
    worth(
        "robust",
        "On badly scaled features, Adam gains at least 1 point on SGD in the same time.",
        at_least(1, POINTS),
        "3.6 points",
    ),
    worth(
        "small-batches",
        "Batches of 20 gain at least 2 points on batches of 500 in the same time.",
        at_least(2, POINTS),
        "6.6 points",
        KESKAR.at("abstract"),
        "large batches generalize worse than small ones (up to 5 points; from memory)",
        note="In equal time batches of 500 get 25 times fewer updates and do not fit all training examples.",
    ),
    worth(
        "large-rate",
        "Ten times the rate gains at least 2 points in the same time.",
        at_least(2, POINTS),
        "5.8 points",
    ),
    worth("anneal", "A rate that falls to 0 gains in the same time.", at_least(0, POINTS), "-0.8 points"),
    worth(
        "stop",
        "Early stopping on held-out examples gains.",
        at_least(0, POINTS),
        "-3.7 points",
        note="It trains on 20% fewer examples.",
    ),
    Claim(
        "stop-saves",
        "Early stopping takes at most 0.8 times the operations.",
        partial(cost_ratio, advice="stop"),
        at_most(0.8, TIMES),
        OURS,
        "a course states that early stopping is mostly useful to avoid wasting compute (no number)",
        where=only("stop"),
        pilot="one trial with seed 0 had 0.64 times on MNIST-1D",
    ),
    worth(
        "decay",
        "Decoupled weight decay (AdamW) gains at least 0.5 points on none in the same time.",
        at_least(0.5, POINTS),
        "3.7 points",
    ),
    worth(
        "decoupled",
        "AdamW errs less than Adam with the same idea in its gradients (L2), each with its best strength.",
        at_least(0, POINTS),
        "-3.5 points",
        LOSHCHILOV.at("abstract"),
        "decoupled weight decay substantially improves Adam's generalization (no number)",
        note="The strengths are the best of 0.1, 0.3, 1, 3 (AdamW) and 0.001, 0.01, 0.03 (L2) in a trial.",
    ),
    *(
        Claim(
            f"{name}-untrained",
            f"{words} at least {least}% of the training examples misclassified.",
            partial(train_error, recipe=name),
            at_least(least, PERCENT),
            OURS,
            f"a course states that {published} (no number)",
            where={"recipe": name},
            counted_on="n",
            pilot=f"one trial with seed 0 had {trial}% on MNIST-1D",
        )
        for name, words, least, published, trial in (
            (
                "narrow",
                "Too narrow: 8 units in each layer leave",
                20,
                "reducing width can cause optimization issues",
                50,
            ),
            ("noise", "Too much noise: dropping 80% of the units leaves", 30, TOO_MUCH, 63),
        )
    ),
)

EXPERIMENT = Experiment(
    name="takeaways",
    title="Which advice on training is worth its time?",
    about="Courses end with advice: use wide networks, skips, normalization, robust optimizers, small batches, "
    "annealing, early stopping, weight decay, augmentation, dropout. Some of it takes no extra time, some multiplies "
    "the training time. This experiment measures how many points of test error each gains.",
    papers=(LOSHCHILOV, HE, KESKAR),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
