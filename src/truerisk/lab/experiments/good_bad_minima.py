"""`good-bad-minima`: the same training error, any test error (Wu, Zhu and E 2017; Huang et al. 2019).

A network with room to spare also fits examples with wrong labels (poison). Its training error on the true examples is
0, as that of a network without poison, but it errs on new examples. Each run of the kind ``poison`` trains such
networks with several numbers of poisoned examples, and a control that fits as many further examples with their true
labels, and compares all of them at the same training loss: the size of their basins, measures, and bounds.

Runs of the kind ``starts`` count how often plain gradient descent on all examples at once, from many random starts,
ends at such a bad minimum without any poison. "Bad" means: every training label fitted, error on new examples at least
40%. Points of the plane have less noise than the usual toy data, so that poison and true labels can be fitted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.claim import OURS, AnyClaim, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.minima_effects import (
    bounds_say_nothing,
    descent_avoids,
    extra_error,
    extra_error_of_half,
    fits,
    flatness,
    hold_out_separates,
    kept_by_small_steps,
    margin,
    norms,
    sharper,
    smaller_basin,
    twin_is_sharper,
)
from truerisk.lab.minima_runs import FRESH, run_poison, run_starts
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.units import POINTS, TIMES, at_least, between

LANDSCAPES = "Towards understanding generalization of deep learning: perspective of loss landscapes"
WU = Paper("Wu, Zhu, E", 2017, LANDSCAPES, "ICML workshop", arxiv="1706.10239")
PICTURES = "Understanding generalization through visualizations"
HUANG = Paper("Huang, Emam, Goldblum, Fowl, Terry, Huang, Goldstein", 2019, PICTURES, arxiv="1906.03291")
SHARP = "Sharp minima can generalize for deep nets"
DINH = Paper("Dinh, Pascanu, Bengio, Bengio", 2017, SHARP, "ICML", arxiv="1703.04933")

POISON, STARTS = {"kind": "poison"}, {"kind": "starts"}
PLANE = ("moons", "spirals")
LEAST, FEWEST = 10, 44  # true training examples of a user's own data, and all its examples, at least


def task(setting: Setting) -> Record:
    """Networks with and without poison, or gradient descent from many random starts."""
    return run_poison(setting) if setting["kind"] == "poison" else run_starts(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------

PLANAR: Setting = {"noise": 0.15, "hidden": [64, 64, 64], "lr": 0.005, "steps": 1600, "n_test": 1000, "onward": 100}
SHARES = [0.5, 1.0, 2.0]  # poisoned examples for each training example
EACH: Setting = {**POISON, "until": 0.02, "shares": SHARES}
DIGITS: Setting = {"data": "digits", "n": 300, "n_test": 500, "hidden": [64, 64], "lr": 0.01, "steps": 1000}
SCALES = {1.0: 0.2, 4.0: 0.05, 8.0: 0.02}  # of the initial weights: the step size


def _starts(seeds: Sequence[int], starts: int, **other: Any) -> list[Setting]:
    how = {**STARTS, "data": "moons", "n": 30, "n_test": 1000, "noise": 0.15, "hidden": [32, 32], "until": 0.02}
    found = []
    for scale, lr in SCALES.items():
        found += product({**how, "scale": scale, "lr": lr, "steps": 1500, "starts": starts, **other}, seed=seeds)
    return found


def smoke() -> list[Setting]:
    planar = {**EACH, **PLANAR, "steps": 300, "onward": 20, "n_test": 200}
    moons = product({**planar, "data": "moons", "n": 10, "maps": True, "hidden": [16, 16]}, seed=[0])
    digits = product({**EACH, **DIGITS, "n": 30, "n_test": 100, "steps": 200, "onward": 20}, seed=[0])
    return moons + digits + _starts([0], 10, n_test=200, steps=300)


def quick() -> list[Setting]:
    seeds = range(20, 25)
    moons = product({**EACH, **PLANAR, "data": "moons", "n": 30, "maps": True, "onward": 800}, seed=seeds)
    spirals = product({**EACH, **PLANAR, "data": "spirals", "n": 40}, seed=seeds)
    digits = product({**EACH, **DIGITS, "onward": 100}, seed=seeds)
    return moons + spirals + digits + _starts(seeds, 150)


def medium() -> list[Setting]:
    how = {**EACH, "data": "mnist", "n": 1500, "n_test": 5000, "hidden": [128], "lr": 0.005, "steps": 500, "onward": 50}
    return product({**how, "shares": [0.5, 1.0, 2.0]}, seed=range(20, 23))


def paper() -> list[Setting]:
    """Wu et al. use larger networks on larger sets; all of MNIST with as many poisoned examples as true ones."""
    how = {**EACH, "data": "mnist", "n": 20_000, "n_test": 10_000, "hidden": [512], "lr": 0.002, "steps": 2000}
    return product({**how, "onward": 200, "shares": [0.5, 1.0, 2.0]}, seed=range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """A third of the training examples stay true, the others become poison; the runs on digits are taken as a model."""
    if setting["kind"] != "poison" or setting["data"] in PLANE or setting["seed"] > 22:
        return None
    if data.classes < 2:
        raise TrueriskError(
            f"{data.name} has {data.classes} class, but poison needs at least 2; give labeled examples."
        )
    fitted = fit_sizes({**setting, "n": 3 * setting["n"]}, data)
    if fitted["n"] < 3 * LEAST:
        raise TrueriskError(f"{data.name} has {len(data)} examples, but poison needs at least {FEWEST}; give more.")
    return {**fitted, "n": fitted["n"] // 3}


def cost(setting: Setting) -> float:
    if setting["kind"] == "starts":
        return setting["starts"] / 200
    return 4 * setting["n"] * sum(setting["hidden"]) / 5000


# ---- the claims ----------------------------------------------------------------------------------------------------

TRIAL = "trials with seeds 0 to 2"
ON: dict[str, Any] = {"every": ("data",), "where": POISON}
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "any-test-error",
        "With two poisoned examples for each true one, the network errs at least 40 points more on new examples.",
        extra_error,
        at_least(40, POINTS),
        HUANG.at("swiss roll"),
        "a network with 100% training accuracy and 8% test accuracy on two spirals",
        counted_on="n_test",
        pilot=f"{TRIAL} had 53 to 63 points",
        note="The published number is quoted from memory, and so is its place in the paper.",
        **ON,
    ),
    Claim(
        "half-the-poison",
        "One poisoned example for two true ones already adds at least 15 points.",
        extra_error_of_half,
        at_least(15, POINTS),
        OURS,
        counted_on="n_test",
        pilot=f"{TRIAL} had 22 to 35 points",
        **ON,
    ),
    Exact(
        "fits",
        "Networks with and without poison misclassify at most one training example.",
        fits,
        OURS,
        "at most one wrong training example in every run",
        where=POISON,
        pilot=f"{TRIAL} had one misclassified example in one network of eighteen",
    ),
    Claim(
        "smaller-basin",
        "A good network, or one with as many true labels, bears at least twice the relative noise on its weights.",
        smaller_basin,
        at_least(2, TIMES),
        WU.at("basins of attraction"),
        "good minima have larger basins than bad ones (no number that could be compared)",
        pilot=f"{TRIAL} had 3 times on digits and 8 to 23 times in the plane",
        **ON,
    ),
    Claim(
        "sharper",
        "At the same training loss, the Hessian of the bad network has the larger trace and top eigenvalue.",
        sharper,
        at_least(1, TIMES),
        WU.at("Hessian spectra"),
        "bad minima have larger eigenvalues than good ones",
        pilot=f"{TRIAL} had 1.3 to 300 times (trace) and 1.2 to 280 times (top eigenvalue), the smallest on digits",
        **ON,
    ),
    Claim(
        "invariant-flatness",
        "Flatness that no rescaling changes is at least twice as small at the bad network.",
        flatness,
        at_least(2, TIMES),
        OURS,
        pilot=f"{TRIAL} had at least 4 times",
        **ON,
    ),
    Claim(
        "norms",
        "The bad network has the larger path norm, spectral norms over margin, and distance from initialization.",
        norms,
        at_least(1, TIMES),
        OURS,
        pilot=f"{TRIAL} had at least 1.9 times",
        **ON,
    ),
    Claim(
        "margin-is-blind",
        "The median margins of good and bad networks differ by less than a factor of 4.",
        margin,
        between(0.25, 4, TIMES),
        OURS,
        pilot=f"{TRIAL} had 0.4 to 1.2 times; inverse margins at the 10th percentile had 0.9 to 14 times",
        note="Margins before any division by norms.",
        **ON,
    ),
    Exact(
        "sharp-twin",
        "A rescaled twin of the good network, with the same predictions, has a larger Hessian trace than the bad one.",
        twin_is_sharper,
        DINH.theorem("rescaling of hidden units"),
        "in every run",
        "the Hessian of an equivalent network can be made arbitrarily large",
        where=POISON,
        note="True by construction, for a factor large enough; here it is 100, for the first hidden layer.",
    ),
    Exact(
        "bounds-say-nothing",
        "No bound from the training examples alone is below 90%, even for the good network.",
        bounds_say_nothing,
        OURS,
        "the smallest of four bounds of a good network is at least 90%",
        where=POISON,
        pilot=f"{TRIAL} had PAC-Bayes bounds above 99.9%",
    ),
    Exact(
        "hold-out-separates",
        f"On {FRESH} fresh examples, the 95% intervals of the good and the bad network do not overlap.",
        hold_out_separates,
        OURS,
        "in every run",
        where=POISON,
        pilot=f"{TRIAL} had no overlap",
    ),
    Claim(
        "large-steps-leave",
        "On the true examples, descent in steps of 0.2 leaves the bad minimum; steps of 0.002 err 15 points more.",
        kept_by_small_steps,
        at_least(15, POINTS),
        OURS,
        where={**POISON, "data": "moons"},
        scales=("quick",),
        counted_on="n_test",
        pilot=f"{TRIAL} had 37 to 53 points after 500 or 1,000 steps; on spirals 2 to 45, on digits 2",
        note="In steps of 0.2, descent from random starts finds good minima. Sharp minima are unstable in large steps.",
    ),
    Exact(
        "descent-avoids",
        "Full-batch gradient descent from random starts ends at a bad minimum in less than 1% of cases.",
        descent_avoids,
        OURS,
        "the upper end of the exact 95% interval is at most 1%",
        "even with large batches, gradient descent avoids bad minima (a lecture by Ollion and Grisel, no number)",
        where=STARTS,
        scales=("quick",),
        pilot="trials with seeds 0 and 1 had none of 1,200 starts",
        note="Initial weights up to 8 times the usual size, on several draws of 30 points.",
    ),
)


EXPERIMENT = Experiment(
    name="good-bad-minima",
    title="Good and bad minima with the same training error",
    about="A network large enough to fit the training set can fit it in many ways, some of them useless on new "
    "examples. Training on further examples with wrong labels finds such bad minima on purpose. This experiment asks "
    "what tells them from good ones without new examples, and how often gradient descent finds one without poison.",
    papers=(WU, HUANG, DINH),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
    same=("1-453e71ca4efb8cc2",),  # before a field of records was renamed
)
