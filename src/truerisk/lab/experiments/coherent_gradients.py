"""`coherent-gradients`: do the gradients of single examples agree? (Chatterjee 2020; Chatterjee and Zielinski 2020.)

A network with one hidden ReLU layer learns by plain SGD from true labels, from labels of which half were redrawn at
random, and from random labels only. On the way each run records, over all training examples:

    share          how much of the squared gradient comes from pristine examples (label true), and how much would come
                   from as many examples drawn at random (tags permuted)
    alignment      the cosine of one example's gradient with the sum of all
    m-coherence    squared norm of the sum over the sum of squared norms, whole and by layer
    from_new       the loss that a small step on one example removes from 1,000 new examples together, over what it
                   removes from its own. New examples have true, partly redrawn, or random labels like the training set

Half of the runs repeat at a fifth of the learning rate for five times as many epochs: what SGD shows because its steps
are large should then become smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from truerisk.data import Data
from truerisk.data.scaling import normalize
from truerisk.errors import TrueriskError
from truerisk.lab import coherent_effects as effects
from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper
from truerisk.lab.coherent_effects import FIFTH, FULL, HALF, RANDOM, REAL
from truerisk.lab.coherent_runs import run_coherent
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import ARPIT
from truerisk.lab.units import PLAIN, TIMES, at_least, at_most

COHERENT = "Coherent gradients: an approach to understanding generalization in gradient descent-based optimization"
CHATTERJEE = Paper("Chatterjee", 2020, COHERENT, "ICLR", arxiv="2002.10657")
NOTHING = "Making coherence out of nothing at all: measuring the evolution of gradient alignment"
ZIELINSKI = Paper("Chatterjee, Zielinski", 2020, NOTHING, arxiv="2008.01217")

SLOWER = 5  # the slower runs have as many times the epochs
STEP = 4.0  # of a user's data: learning rate times squared norm of an input


def task(setting: Setting) -> Record:
    """One network, looked at on its way."""
    return run_coherent(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(how: Setting, seeds: Sequence[int]) -> list[Setting]:
    full = {**how, "rate": FULL}
    slow = {**how, "rate": FIFTH, "lr": how["lr"] / SLOWER, "epochs": SLOWER * how["epochs"]}
    return product(full, noise=[HALF, REAL, RANDOM], seed=seeds) + product(slow, noise=[HALF, RANDOM], seed=seeds)


def smoke() -> list[Setting]:
    return _grid({"data": "digits", "n": 100, "n_test": 100, "hidden": 32, "batch": 20, "lr": 0.06, "epochs": 40}, [20])


def quick() -> list[Setting]:
    how = {"data": "digits", "n": 500, "n_test": 1000, "hidden": 128, "batch": 100, "lr": 0.06, "epochs": 600}
    return _grid(how, range(20, 25))


def medium() -> list[Setting]:
    how = {"data": "mnist", "n": 1000, "n_test": 5000, "hidden": 128, "batch": 100, "lr": 0.01, "epochs": 250}
    return _grid(how, range(20, 23))


def paper() -> list[Setting]:
    """All of MNIST and 2,048 units, as published; inputs are whitened, so the rate is a tenth of the published one."""
    how = {"data": "mnist", "n": 60_000, "n_test": 10_000, "hidden": 2048, "batch": 100, "lr": 0.01, "epochs": 170}
    return _grid({**how, "threads": 16}, range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """As many examples as there are, at the full rate, with three seeds and inputs that differ."""
    some = data.take(list(range(min(len(data), 500))))
    if not normalize(some, some)[0].X.any():
        raise TrueriskError(f"{data.name}: all inputs are alike after normalization; give inputs that differ.")
    if setting["seed"] > 22 or setting["rate"] != FULL:
        return None
    fitted = fit_sizes({**setting, "lr": min(0.06, STEP / math.prod(data.input_shape))}, data)
    return {**fitted, "batch": min(setting["batch"], fitted["n"])}


def cost(setting: Setting) -> float:
    return setting["epochs"] * setting["n"] * setting["hidden"] / 2e7


# ---- the claims ----------------------------------------------------------------------------------------------------


TRIAL = "Trials with seeds 0 to 3 on digits"
SHARE = "A share of the squared gradient, minus the share of as many examples drawn at random. Shares are not bounded."
SOURCE = "random data are learned more slowly, because less loss on this input need not mean less on the next"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "pristine-early",
        "In the first 5 epochs, pristine examples give more of the gradient than as many random examples would.",
        effects.early_share,
        at_least(0.1, PLAIN),
        CHATTERJEE.at("first experiment, label noise on MNIST"),
        "about 0.7 of the gradient comes from pristine examples early on, at 50% noise",
        every=("rate",),
        where={"noise": [HALF]},
        pilot=f"{TRIAL} saw 0.4 to 0.5 at the full rate.",
        note=SHARE,
    ),
    Claim(
        "corrupt-late",
        "While corrupt examples are being fitted, pristine ones give less of the gradient than random ones would.",
        effects.late_share,
        at_most(-0.05, PLAIN),
        CHATTERJEE.at("first experiment, label noise on MNIST"),
        "late in training corrupt examples give more of the gradient than pristine ones (no number)",
        every=("rate",),
        where={"noise": [HALF]},
        pilot=f"{TRIAL} saw -0.14 to -0.17 at the full rate, and -0.17 to -0.37 at the slow one.",
        note=f"{SHARE} Looks count while 20% to 95% of the corrupt examples are fitted.",
    ),
    Claim(
        "pristine-aligned",
        "Early on, gradients of pristine examples are better aligned with the sum than those of corrupt ones.",
        effects.early_alignment,
        at_least(0.05, PLAIN),
        OURS,
        where={"noise": [HALF]},
        pilot=f"{TRIAL} saw mean cosines of 0.12 and -0.01.",
        note="Mean cosine of pristine examples, minus that of corrupt ones.",
    ),
    Claim(
        "real-above-random",
        "In the first 5 epochs, m-coherence is higher for true labels than for random ones.",
        effects.coherence_ratio,
        at_least(2, TIMES),
        ZIELINSKI.at("abstract"),
        "m-coherence with random labels stays much smaller than with real ones",
        where={"noise": [REAL, RANDOM], "rate": FULL},
        pilot=f"{TRIAL} saw about 11 times.",
    ),
    Claim(
        "random-rises",
        "With random labels m-coherence rises again in mid-training.",
        effects.random_rises,
        at_least(2, TIMES),
        ZIELINSKI.at("abstract"),
        "it reaches the hundreds on ImageNet, where independent examples would leave it close to 1",
        where={"noise": [RANDOM]},
        pilot=f"{TRIAL} saw 6 to 10 times.",
        note="The largest value after a look, over the value at that look. It is at least 1 by definition, so the same "
        "number for true labels (real-falls) is its control.",
    ),
    Claim(
        "real-falls",
        "With true labels m-coherence does not rise again.",
        effects.real_rises,
        at_most(2, TIMES),
        ZIELINSKI.at("experiments on ImageNet"),
        "it falls from about 10,000 to about 1 on ImageNet (from memory)",
        where={"noise": [REAL], "rate": FULL},
        pilot=f"{TRIAL} saw 1.1 to 1.2 times.",
    ),
    Claim(
        "rise-needs-rate",
        "At a fifth of the learning rate, the rise with random labels is at most half as large.",
        effects.rise_ratio,
        at_least(2, TIMES),
        OURS,
        where={"noise": [RANDOM]},
        pilot=f"{TRIAL} saw 6 against 1.4 times.",
        note="If examples had found common patterns, small steps should show them too.",
    ),
    Claim(
        "new-real",
        "With true labels, a step on one example also lowers the loss of new examples.",
        effects.new_real,
        at_least(2, PLAIN),
        ARPIT.at("Section 3"),
        "the effect of an input on later loss differs between real and random data (no number)",
        where={"noise": [REAL], "rate": FULL},
        pilot=f"{TRIAL} saw about 14.",
        note="Loss removed from 1,000 new examples together, over the loss removed from the example itself.",
    ),
    Claim(
        "new-random",
        "With random labels, a step on one example does not lower the loss of new examples.",
        effects.new_random,
        at_most(1, PLAIN),
        OURS,
        SOURCE,
        where={"noise": [RANDOM]},
        pilot=f"{TRIAL} saw -0.6 to 0, and -1.9 on MNIST.",
        note="Loss removed from 1,000 new examples together, over the loss removed from the example itself.",
    ),
)


EXPERIMENT = Experiment(
    name="coherent-gradients",
    title="Do per-example gradients agree?",
    about=(
        "SGD follows the sum of per-example gradients. Where many of them agree, the sum is long and a step helps all "
        "of them; where each points elsewhere, a step helps its own example only. Chatterjee (2020) explains by this "
        "why networks learn what examples share before they memorize the rest. This experiment measures the agreement "
        "with true labels, with half of the labels redrawn, and with random labels."
    ),
    papers=(CHATTERJEE, ZIELINSKI, ARPIT),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
