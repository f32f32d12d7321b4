"""Which regularizer takes the memory away (Arpit et al. 2017, Section 5)?

For each regularizer and strength, two networks: one trained on random labels (randY), whose final training accuracy is
its memory, and one trained on real data, whose best test accuracy shows how well it still learns. A good regularizer
lowers the first and leaves the second. Regularizers are compared where the memory is halved: at a training accuracy of
50% on random labels, between two strengths on a straight line. A rival that never halves it is compared at the lowest
memory that it reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from truerisk.lab.claim import OURS, Claim
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.figure import percent
from truerisk.lab.networks import GaussianNoise, build, halving_sgd
from truerisk.lab.noise import RAND_Y, REAL, noisy_samples
from truerisk.lab.papers import ARPIT
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import PERCENT, POINTS, at_least, at_most
from truerisk.measures.critical_samples import search
from truerisk.seeds import derive
from truerisk.training.learn import learn

NONE, DROPOUT, ADVERSARIAL, DECAY = "none", "dropout", "dropout and adversarial", "weight decay"
AT_INPUT: dict[str, Callable[[float], nn.Module]] = {"input dropout": nn.Dropout, "input noise": GaussianNoise}
AFTER_RELU: dict[str, Callable[[float], nn.Module]] = {
    DROPOUT: nn.Dropout, ADVERSARIAL: nn.Dropout, "hidden noise": GaussianNoise,
}  # fmt: skip
HALF = 0.5  # of the training accuracy on random labels: about half way between chance and a perfect memory
CHOSEN = 0.85  # the "well chosen" dropout rate

# Published ranges: dropout and input dropout 0 to 0.9, input noise 0 to 5, hidden noise 0 to 0.3, weight decay 0 to 1.
# The ReLU outputs of a whitened digit are not those of a CIFAR image behind batch norm: hidden noise goes further here.
SMALL: dict[str, list[float]] = {
    DROPOUT: [0.25, 0.5, 0.75, CHOSEN, 0.9],
    "input dropout": [0.25, 0.5, 0.75, 0.9],
    "input noise": [0.25, 0.5, 1.0, 2.0, 5.0],
    "hidden noise": [0.3, 1.0, 2.0, 4.0],
    DECAY: [0.003, 0.01, 0.03, 0.1],
    ADVERSARIAL: [0.1, 0.25, 0.5, 0.75, CHOSEN, 0.9],
}
STRENGTHS: dict[str, dict[str, list[float]]] = {
    "smoke": {DROPOUT: [0.5, CHOSEN], DECAY: [0.1], ADVERSARIAL: [0.5], "input noise": [1.0]},
    "quick": SMALL,
    "medium": SMALL,
    "paper": {
        DROPOUT: [0.1, 0.25, 0.5, 0.75, CHOSEN, 0.9],
        "input dropout": [0.1, 0.25, 0.5, 0.75, 0.9],
        "input noise": [0.1, 0.25, 0.5, 1.0, 2.0, 5.0],
        "hidden noise": [0.05, 0.1, 0.2, 0.3],
        DECAY: [0.0001, 0.001, 0.01, 0.1, 1.0],
        ADVERSARIAL: [0.03, 0.1, 0.25, 0.5],
    },
}
BASE: Setting = {"data": "digits", "n": 500, "n_test": 1000, "net": "mlp", "hidden": [256], "batch": 50, "lr": 0.05,
                 "halve_every": None, "epochs": 100, "every": 4, "radius": 0.1, "search": 2}  # fmt: skip
SIZES: dict[str, Setting] = {
    "smoke": {"n": 100, "n_test": 100, "hidden": [32], "epochs": 4},
    "quick": {},
    "medium": {"data": "mnist", "n": 1000, "n_test": 2000, "hidden": [512]},
    "paper": {"data": "cifar-10", "n": 45000, "n_test": 5000, "net": "cnn", "hidden": [], "batch": 128, "lr": 0.01,
              "halve_every": 15, "radius": 0.3 / 255 / 0.25, "search": 10},
}  # fmt: skip
SEEDS = {"smoke": range(20, 21), "quick": range(20, 25), "medium": range(20, 23), "paper": range(20, 23)}


def grid(scale: str) -> list[Setting]:
    points = [(NONE, 0.0), *((name, value) for name, values in STRENGTHS[scale].items() for value in values)]
    return [
        # half of each batch is adversarial; the published share is 0.2 to 0.7
        {**BASE, **SIZES[scale], "share": 0.5 if name == ADVERSARIAL else 0.0, "regularizer": name, "strength": value,
         "noise": noise, "seed": seed}
        for name, value in points for noise in (REAL, RAND_Y) for seed in SEEDS[scale]
    ]  # fmt: skip


def task(setting: Setting) -> Record:
    seed, name, strength = setting["seed"], setting["regularizer"], setting["strength"]
    train, test = noisy_samples(setting["data"], setting["n"], setting["n_test"], setting["noise"], 1.0, seed)
    module = build(
        setting["net"],
        train.input_shape,
        train.classes,
        setting["hidden"],
        derive(seed, "weights"),
        at_input=AT_INPUT[name](strength) if name in AT_INPUT else None,
        after_relu=AFTER_RELU[name](strength) if name in AFTER_RELU else None,
    )
    plan = halving_sgd(setting, weight_decay=strength if name == DECAY else 0.0)
    share = setting["share"]
    augment = adversarial(module, share, setting["radius"], setting["search"]) if share else None
    curve = learn(module, train, test, plan, until_error=None, every=setting["every"], augment=augment)
    return {
        "train_accuracy": 1 - curve.train_error[-1],
        "best_accuracy": 1 - curve.best_test_error,
        "diverged": curve.diverged,
    }


def adversarial(module: nn.Module, share: float, radius: float, steps: int) -> Callable[[Tensor], Tensor]:
    """Batches in which each input is, with probability ``share``, the end point of an adversarial search from it.

    The expected loss is (1 - share) times that on plain inputs plus share times that on adversarial ones.
    """

    def augment(X: Tensor) -> Tensor:
        module.eval()
        ends, _ = search(module, X, radius, steps)
        module.train()
        chosen = torch.rand(len(X)) < share
        return torch.where(chosen.view(-1, *[1] * (X.ndim - 1)), ends, X)

    return augment


def curve_of(runs: Rows, name: str) -> list[tuple[float, float]]:
    """(memory, best test accuracy on real data) of a regularizer, from none to its greatest strength."""
    points = []
    for (strength,), some in runs.where(regularizer=[NONE, name]).groups("strength"):
        memory = some.where(noise=RAND_Y).one("train_accuracy")
        points.append((strength, memory, some.where(noise=REAL).one("best_accuracy")))
    return [(memory, accuracy) for _, memory, accuracy in sorted(points)]


def kept(curve: list[tuple[float, float]], memory: float) -> float:
    """The accuracy at which a curve, in order of strength, first falls to a memory that it reaches.

    >>> kept([(1.0, 0.9), (0.8, 0.9), (0.2, 0.6)], memory=0.5)
    0.75
    """
    if curve[0][0] <= memory:
        return curve[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x0 > memory >= x1:
            return y0 + (y1 - y0) * (x0 - memory) / (x0 - x1)
    raise ValueError(f"no strength lowers the memory to {memory}")


def advantage(runs: Rows, name: str, aside: tuple[str, ...] = ()) -> dict[str, float]:
    """How much more test accuracy a regularizer keeps than each other one, where both halve the memory."""
    mine, found = curve_of(runs, name), {}
    lowest = min(memory for memory, _ in mine)
    if lowest > HALF:
        raise IncompleteError(f"{name} never halves the memory for random labels; the lowest is {percent(lowest)}")
    for rival in runs.values("regularizer"):
        if rival not in (NONE, name, *aside):
            other = curve_of(runs, rival)
            memory = max(HALF, min(memory for memory, _ in other))
            found[rival] = kept(mine, memory) - kept(other, memory)
    return found


def memory_at(runs: Rows, strength: float) -> float:
    """Final training accuracy on random labels with dropout of this strength; 0 is no regularizer."""
    return float(runs.where(noise=RAND_Y, strength=strength).one("train_accuracy"))


def change_of_accuracy(runs: Rows) -> float:
    """Best test accuracy on real data with the chosen dropout, minus that without."""
    real = runs.where(noise=REAL)
    return float(real.where(strength=CHOSEN).one("best_accuracy") - real.where(strength=0.0).one("best_accuracy"))


BEST = (
    "Best test accuracy is the best of all epochs, as in the paper, for a regularizer and its rivals alike. The "
    "margin of half a point is the noise of two seeds. Since 2026-11-18 dropout also gets the rate 0.85 (with "
    "adversarial training below paper scale), because its memory falls steeply between 0.75 and 0.9. Where the "
    "claimed regularizer never halves the memory, there is no verdict; until 2026-11-18 the claim failed. A rival that "
    "never halves it is compared at its lowest memory; until 2026-11-18 it was left out."
)
TRIAL = (
    "a trial on digits at dropout 0.85 found a training accuracy of 30% on random labels, and a test accuracy on real "
    "data of 96.8% against 96.3% without dropout"
)
CHANGED = "The rate is 0.85, fixed beforehand; until 2026-11-18 the best of all rates counted."
PLAIN_AND_CHOSEN = {"regularizer": [NONE, DROPOUT], "strength": [0.0, CHOSEN]}
CLAIMS = (
    Claim(
        "dropout-best",
        "Where the memory for random labels is halved, dropout keeps as much test accuracy as its rivals.",
        partial(advantage, name=DROPOUT, aside=(ADVERSARIAL,)),
        at_least(-0.5, POINTS),
        ARPIT.at("Section 5 and Figure 10"),
        "the flattest curve of all; no number",
        counted_on="n_test",
        pilot=TRIAL,
        note=f"Dropout with adversarial training is left aside. {BEST}",
    ),
    Claim(
        "dropout-adversarial",
        "Where the memory is halved, dropout with adversarial training keeps as much test accuracy as its rivals.",
        partial(advantage, name=ADVERSARIAL),
        at_least(-0.5, POINTS),
        ARPIT.at("Section 5 and Figure 10"),
        "the best curve together with that of dropout alone; no number",
        counted_on="n_test",
        pilot=TRIAL,
        note=BEST,
    ),
    Claim(
        "memory-without",
        "Without a regularizer the network memorizes random labels.",
        partial(memory_at, strength=0.0),
        at_least(90, PERCENT),
        OURS,
        where=PLAIN_AND_CHOSEN,
        counted_on="n",
        note="A check that there is a memory to take away. Until 2026-11-18 it was part of dropout-free.",
    ),
    Claim(
        "dropout-memory",
        "Well-chosen dropout takes away most of the memory for random labels.",
        partial(memory_at, strength=CHOSEN),
        at_most(50, PERCENT),
        ARPIT.at("Section 5"),
        "dropout is best at hindering memorization; no number",
        where=PLAIN_AND_CHOSEN,
        counted_on="n",
        pilot=TRIAL,
        note=f"{CHANGED} The claim was part of dropout-free until that date.",
    ),
    Claim(
        "dropout-free",
        "Well-chosen dropout, which takes away the memory, does not harm test accuracy on real data.",
        change_of_accuracy,
        at_least(-1, POINTS),
        ARPIT.at("abstract and Section 5"),
        "no harm to generalization on real data; no number",
        where=PLAIN_AND_CHOSEN,
        counted_on="n_test",
        pilot=TRIAL,
        note=CHANGED,
    ),
)


EXPERIMENT = Experiment(
    name="memory-regularizers",
    title="Which regularizer takes the memory away?",
    about=(
        "Real data do not need a memory for random labels, so taking it away need not harm learning. Arpit et al. "
        "train networks with six regularizers at several strengths, on random labels and on real data. They find that "
        "dropout lowers the memory with the least harm to learning."
    ),
    papers=(ARPIT,),
    grids={scale: partial(grid, scale) for scale in SIZES},
    task=task,
    claims=CLAIMS,
    cost=lambda setting: 3.0 if setting["share"] else 1.0,
)
