"""`optimizers`: is a stronger optimizer a stronger learner?

Ten optimizers train the same network from the same initial weights until its training loss is the same. Three arms:

    plain     true labels, features as they are (centered, mean square 1)
    scaled    the features multiplied by factors from 1 to 100: an ill-conditioned problem
    random    all training labels random

Each run counts updates and gradients until the loss is reached (`lab.optimizer_runs`), and looks at the network there:
test error, distance from the initial weights, sharpness. The rate of each optimizer is the one that needs the fewest
updates among five, half a decade apart, in trials with seeds below 20, in each arm (of rates within 5%, the smallest).
So all had the same budget of tuning, and the test error played no part in it. ``pace`` "slow" is a tenth of that rate.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

from scipy.stats import spearmanr

from truerisk.lab.claim import OURS, AnyClaim, Claim, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.optimizer_runs import run
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import CORRELATION, POINTS, TIMES, at_least, at_most, between

MARGINAL = "The marginal value of adaptive gradient methods in machine learning"
WILSON = Paper("Wilson, Roelofs, Stern, Srebro, Recht", 2017, MARGINAL, "NeurIPS", arxiv="1705.08292")
FACTORED = "Optimizing neural networks with Kronecker-factored approximate curvature"
KFAC = Paper("Martens, Grosse", 2015, FACTORED, "ICML", arxiv="1503.05671")
TENSORS = "Shampoo: preconditioned stochastic tensor optimization"
SHAMPOO = Paper("Gupta, Koren, Singer", 2018, TENSORS, "ICML", arxiv="1802.09568")
BATCHES = "On large-batch training for deep learning: generalization gap and sharp minima"
KESKAR = Paper("Keskar, Mudigere, Nocedal, Smelyanskiy, Tang", 2017, BATCHES, "ICLR", arxiv="1609.04836")

COMMON = 0.1  # a training loss that all arms reach
ARMS: dict[str, Setting] = {
    "plain": {"noise": 0.0, "spread": 1, "target": 0.01},
    "scaled": {"noise": 0.0, "spread": 100, "target": 0.01},
    "random": {"noise": 1.0, "spread": 1, "target": COMMON},
}
# Rates in the arms plain, scaled, and random on digits, then plain and scaled on MNIST; tuned in trials.
RATES: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "sgd": ((1, 0.3), (0.3, 0.3)),
    "momentum": ((0.1, 0.1, 0.03), (0.1, 0.03)),
    "adagrad": ((0.1, 0.1), (0.03, 0.03)),
    "rmsprop": ((0.01, 0.01), (0.003, 0.003)),
    "adadelta": ((10, 10), (1, 3)),
    "adam": ((0.01, 0.01, 0.01), (0.003, 0.01)),
    "adamw": ((0.01, 0.01), (0.003, 0.01)),
    "l-bfgs": ((10, 10, 1), (3, 1)),
    "k-fac": ((0.1, 0.1, 0.03), (0.03, 0.03)),
    "shampoo": ((0.1, 0.1, 0.03), (0.1, 0.03)),
}
PACED = ("momentum", "adam", "k-fac", "shampoo")  # also trained with a tenth of the rate


def task(setting: Setting) -> Record:
    """Train one network with one optimizer to the target loss."""
    return run(setting)


def grid(how: Setting, seeds: Sequence[int]) -> list[Setting]:
    found, column = [], 1 if how["data"] == "mnist" else 0
    for name, arm, rate in ((n, *pair) for n, own in RATES.items() for pair in zip(ARMS, own[column], strict=False)):
        own = {**how, "arm": arm, **ARMS[arm], "optimizer": name}
        found += product({**own, "lr": rate, "pace": "tuned"}, seed=seeds)
        if arm == "plain" and name in PACED:
            found += product({**own, "lr": round(rate / 10, 6), "pace": "slow"}, seed=seeds)
    return found


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 100, "n_test": 100, "hidden": [8], "batch": 50, "check": 5, "every": 5, "most": 60}
    return grid(how, [20])


def quick() -> list[Setting]:
    how = {"n": 600, "n_test": 1197, "hidden": [64, 64], "batch": 50, "check": 1, "every": 10, "most": 4000}
    return grid({"data": "digits", **how}, range(20, 25))


def medium() -> list[Setting]:
    how = {"n": 2000, "n_test": 5000, "hidden": [64, 64], "batch": 100, "check": 5, "every": 25, "most": 4000}
    return grid({"data": "mnist", **how}, range(20, 23))


def paper() -> list[Setting]:
    """No common size is published. All of MNIST, checked ten times per epoch."""
    how = {"n": 60_000, "n_test": 10_000, "hidden": [256, 256], "batch": 100, "check": 60, "every": 60, "most": 60_000}
    return grid({"data": "mnist", **how}, range(20, 23))


def cost(setting: Setting) -> float:
    arms = {"plain": 0.2, "scaled": 0.4, "random": 1.0}  # seconds for 600 digits, roughly
    return arms[setting["arm"]] * (5 if setting["pace"] == "slow" else 1) * setting["n"] / 600


# ---- the claims ----------------------------------------------------------------------------------------------------


def at_target(runs: Rows, optimizer: str, name: str) -> float:
    """A number of the network whose loss is the target; of fields that are lists, the last entry."""
    one = runs.where(optimizer=optimizer)
    if not one.one("reached"):
        raise IncompleteError(f"{optimizer} did not reach the loss")
    value = one.one(name)
    return float(value[-1] if isinstance(value, list) else value)


def error_above_median(runs: Rows) -> float:
    """Test error of the optimizer with the fewest updates, minus the median of the others."""
    updates = {name: at_target(runs, name, "updates") for name in runs.values("optimizer")}
    first = min(updates, key=lambda name: updates[name])
    others = [at_target(runs, name, "test_errors") for name in updates if name != first]
    return at_target(runs, first, "test_errors") - statistics.median(others)


def order(runs: Rows) -> float:
    """Rank correlation of updates and test errors over optimizers: 1 if fewer updates always mean fewer errors."""
    names = runs.values("optimizer")
    pairs = [[at_target(runs, name, field) for name in names] for field in ("updates", "test_errors")]
    if any(len(set(values)) < 2 for values in pairs):
        raise IncompleteError("all optimizers are equal, so they have no order")
    return float(spearmanr(*pairs).statistic)


def ratio(runs: Rows, field: str, one: str, other: str) -> float:
    return at_target(runs, one, field) / at_target(runs, other, field)


def difference(runs: Rows, one: str, other: str) -> float:
    """Test error of one optimizer minus that of another, at the same training loss."""
    return at_target(runs, one, "test_errors") - at_target(runs, other, "test_errors")


def saved_by_patience(runs: Rows) -> float:
    """Test error at the tuned rate minus that at a tenth of it, at the same training loss."""
    (name,) = runs.values("optimizer")
    tuned, slow = (at_target(runs.where(pace=pace), name, "test_errors") for pace in ("tuned", "slow"))
    return tuned - slow


def slowdown(runs: Rows) -> float:
    """Updates until the common loss with random labels, over those with true labels."""
    updates = []
    for arm in ("random", "plain"):
        one = runs.where(arm=arm)
        if COMMON not in one.one("levels"):
            raise IncompleteError(f"the loss {COMMON} was not reached with {arm} labels")
        updates.append(one.one("updates")[one.one("levels").index(COMMON)])
    return updates[0] / updates[1]


PLAIN, SCALED = ({"arm": arm, "pace": "tuned"} for arm in ("plain", "scaled"))
PROGRESS = "K-FAC makes more progress per update than SGD with momentum (no number)"
CONSIDERABLY = "Shampoo converges considerably faster than other optimizers in common use (no number)"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "fewest-updates-scaled",
        "On scaled features, the optimizer with the fewest updates errs at least 2 points more than the median one.",
        error_above_median,
        at_least(2, POINTS),
        OURS,
        "a course states that a stronger optimizer is not necessarily a stronger learner (no number)",
        where=SCALED,
        counted_on="n_test",
        pilot="trials with seeds below 20 had 5.1 and 2.0 points on digits, 2.4 points on MNIST",
        note="At equal training loss. In trials it was L-BFGS, the only one that sees all examples in each update.",
    ),
    Claim(
        "fewest-updates-plain",
        "On plain features, the optimizer with the fewest updates errs at least as often as the median one.",
        error_above_median,
        at_least(0, POINTS),
        OURS,
        where=PLAIN,
        counted_on="n_test",
        pilot="trials had -0.4 and 0.7 points on digits, 0.7 points on MNIST",
    ),
    Claim(
        "no-order",
        "Fewer updates go with fewer errors weakly at most: over optimizers, their rank correlation is at most 0.5.",
        order,
        at_most(0.5, CORRELATION),
        OURS,
        every=("arm",),
        where={"arm": ["plain", "scaled"], "pace": "tuned"},
        pilot="trials with seeds below 20 had correlations near 0 on digits",
        note="If a stronger optimizer were a stronger learner, the correlation would be near 1.",
    ),
    Claim(
        "slow-errs-less",
        "With a tenth of the fastest rate, each of four optimizers errs less often at the same training loss.",
        saved_by_patience,
        at_least(0, POINTS),
        OURS,
        every=("optimizer",),
        where={"arm": "plain", "optimizer": list(PACED)},
        counted_on="n_test",
        pilot="trials had 1.8 and 1.3 points (momentum), 1.5 and 0 (adam), 1.5 and 0.6 (k-fac), 1.2 and 1.4 (shampoo)",
    ),
    Claim(
        "wilson",
        "Adam errs more often than SGD with momentum at the same training loss, on plain features.",
        partial(difference, one="adam", other="momentum"),
        at_least(0, POINTS),
        WILSON.at("abstract"),
        "adaptive methods find solutions that generalize worse than those of SGD, even where they train better",
        where=PLAIN,
        counted_on="n_test",
        pilot="trials had -0.7 and -1.5 points on digits",
        note="The paper tunes rates for low errors on held-out examples; here they are tuned for few updates.",
    ),
    Claim(
        "adam-scaled-error",
        "On scaled features, Adam errs at least 1 point less often than momentum at the same training loss.",
        partial(difference, one="adam", other="momentum"),
        at_most(-1, POINTS),
        OURS,
        where=SCALED,
        counted_on="n_test",
        pilot="trials had -2.0 and -3.1 points on digits",
    ),
    Claim(
        "adam-plain",
        "On plain features, Adam needs 0.5 to 1.5 times as many updates as momentum: nothing to precondition.",
        partial(ratio, field="updates", one="adam", other="momentum"),
        between(0.5, 1.5, TIMES),
        OURS,
        where=PLAIN,
        pilot="trials had 0.67 and 0.89 times on digits",
    ),
    *(
        Claim(
            f"{name}-scaled",
            f"On scaled features, {title} needs at most 0.6 times as many updates as momentum.",
            partial(ratio, field="updates", one=name, other="momentum"),
            at_most(0.6, TIMES),
            source,
            published,
            where=SCALED,
            pilot=f"trials had {trial} times on digits",
        )
        for name, title, source, published, trial in (
            ("adam", "Adam", OURS, "", "0.41 and 0.40"),
            ("k-fac", "K-FAC", KFAC.at("abstract"), PROGRESS, "0.42 and 0.40"),
            ("shampoo", "Shampoo", SHAMPOO.at("abstract"), CONSIDERABLY, "0.52 and 0.37"),
        )
    ),
    Claim(
        "l-bfgs-work",
        "On scaled features, L-BFGS computes at least twice as many gradients as Adam, in fewer updates.",
        partial(ratio, field="passes", one="l-bfgs", other="adam"),
        at_least(2, TIMES),
        OURS,
        where=SCALED,
        pilot="trials had 7.8 and 6.7 times on digits",
        note="Per-example gradients: the gradient of a batch counts as many as the batch has.",
    ),
    Claim(
        "l-bfgs-sharpness",
        "On scaled features, L-BFGS ends at least 1.5 times as sharp as momentum at the same training loss.",
        partial(ratio, field="sharpness", one="l-bfgs", other="momentum"),
        at_least(1.5, TIMES),
        KESKAR.at("abstract"),
        "large batches lead to sharp minima, small batches to flat ones (no number)",
        where=SCALED,
        pilot="trials had 3.6 and 4.2 times on digits",
        note="Adaptive sharpness: the rise of the loss if every weight may change by 1% of itself.",
    ),
    Claim(
        "random-slower",
        "Random labels take at least twice as many updates as true ones to the same loss, for each optimizer.",
        slowdown,
        at_least(2, TIMES),
        OURS,
        every=("optimizer",),
        where={"arm": ["plain", "random"], "pace": "tuned", "optimizer": [*PACED, "l-bfgs"]},
        scales=("quick",),
        pilot="one trial had about 2.7 (l-bfgs), 7 (k-fac), and more (others) times on digits",
    ),
)

EXPERIMENT = Experiment(
    name="optimizers",
    title="Is a stronger optimizer a stronger learner?",
    about="Preconditioned optimizers reach a low training loss in fewer updates, above all where the problem is badly "
    "conditioned. But the aim is a low error on new examples. This experiment stops ten optimizers at the same "
    "training loss and compares their networks there: errors, distance from the initial weights, and sharpness.",
    papers=(WILSON, KFAC, SHAMPOO, KESKAR),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=fit_sizes,
)
