"""`random-label-pretraining`: what do networks learn from random labels? (Maennel et al. 2020.)

A network with one hidden layer fits random labels of some examples, then learns new labels of other examples. Maennel
et al. show that random labels align the first layer with the data: the incoming weights of hidden units vary most in
the directions in which the data vary most. They report that this makes the second training faster, even after
accounting for the scale of the weights.

Training also makes weights larger, and larger weights alone change how fast SGD fits. So the second training is run
from five starts (`lab.pretraining_runs`): from scratch, pretrained, with fresh weights of the same scale, with the same
weights in random order, and with fresh weights of the same covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.pretraining_runs import run_pretraining
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import CORRELATION, POINTS, TIMES, at_least, at_most, between

RANDOM = "What do neural networks learn when trained with random labels?"
MAENNEL = Paper(
    "Maennel, Alabdulmohsin, Tolstikhin, Baldock, Bousquet, Gelly, Keysers", 2020, RANDOM, "NeurIPS", arxiv="2006.10455"
)
SLOW, FAST = 0.01, 0.05  # learning rates
DIRECTIONS = 4  # the inputs must vary in so many directions


def task(setting: Setting) -> Record:
    """Random labels first, then new labels from each start."""
    return run_pretraining(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(how: Setting, rates: Sequence[float], seeds: Sequence[int]) -> list[Setting]:
    return product({**how, "batch": 50}, lr=rates, seed=seeds)


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 60, "n_test": 200, "width": 64, "epochs": 300}
    return _grid(how, (SLOW, FAST), [0])


def quick() -> list[Setting]:
    how = {"data": "digits", "n": 500, "n_test": 797, "width": 256, "epochs": 1000}
    return _grid(how, (SLOW, FAST), range(20, 30))


def medium() -> list[Setting]:
    how = {"data": "mnist", "n": 2000, "n_test": 10_000, "width": 256, "epochs": 400}
    return _grid(how, (SLOW, FAST), range(20, 23))


def paper() -> list[Setting]:
    """Half of CIFAR-10 for each training; the published networks are convolutional, this one is not."""
    how = {"data": "cifar-10", "n": 25_000, "n_test": 10_000, "width": 1024, "epochs": 1000}
    return _grid(how, (SLOW, FAST), range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Two equal parts for the two trainings; three seeds."""
    if setting["seed"] > 22:
        return None
    if data.X[0].size < DIRECTIONS:
        raise TrueriskError(
            f"{data.name} has {data.X[0].size} features, but alignment needs at least {DIRECTIONS}; give other data."
        )
    fitted = fit_sizes({**setting, "n": 2 * setting["n"]}, data)
    return {**fitted, "n": fitted["n"] // 2, "epochs": min(setting["epochs"], 500)}


def cost(setting: Setting) -> float:
    return setting["n"] * setting["width"] / 128_000 * (1 if setting["data"] == "digits" else 9)


# ---- the claims ----------------------------------------------------------------------------------------------------


def before(runs: Rows) -> float:
    return float(runs.one("correlations")["before"])


def after(runs: Rows) -> float:
    return float(runs.one("correlations")["random labels"])


def more_than_true(runs: Rows) -> float:
    found = runs.one("correlations")
    return float((found["random labels"] - found["true labels"]) / 2)  # a difference of correlations is in [-2, 2]


def steps(runs: Rows, kind: str, labels: str) -> float:
    found = runs.one("steps")[f"{kind}, {labels}"]
    if found is None:
        raise IncompleteError(f"{kind} did not fit all {labels} labels within {runs.one('epochs')} epochs")
    return float(found)


def faster(runs: Rows) -> float:
    return steps(runs, "pretrained", "random") / steps(runs, "scratch", "random")


def faster_than_scaled(runs: Rows) -> dict[str, float]:
    """Pretrained weights against the two controls that keep the scale and nothing else."""
    own = steps(runs, "pretrained", "random")
    return {kind: own / steps(runs, kind, "random") for kind in ("scaled", "shuffled")}


def aligned_alone(runs: Rows) -> float:
    return steps(runs, "aligned", "random") / steps(runs, "scaled", "random")


def faster_on_true(runs: Rows) -> float:
    return steps(runs, "pretrained", "true") / steps(runs, "scratch", "true")


def harm(runs: Rows) -> float:
    found = runs.one("test_errors")
    return float(found["pretrained"] - found["scaled"])


def all_fitted(rows: Rows) -> Checked:
    runs = rows.complete()
    late = sum(found is None for run in runs for found in (*run["steps"].values(), *run["first_steps"].values()))
    return Checked(late == 0, f"{late} of {12 * len(runs)} trainings stopped before")


TRIAL = "trials with seeds 0 to 3"
SLOWLY: dict[str, Any] = {"where": {"lr": [SLOW]}}
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "alignment",
        "After random labels, the weights vary most where the data vary most: rank correlation at least 0.8.",
        after,
        at_least(0.8, CORRELATION),
        MAENNEL.at("alignment of the first layer"),
        "proved for Gaussian inputs, observed on CIFAR-10 (no rank correlation is given)",
        every=("lr",),
        pilot=f"{TRIAL} had 0.94 to 0.97 on digits",
    ),
    Claim(
        "no-alignment-before",
        "Before training there is no such relation: the rank correlation is between -0.3 and 0.3.",
        before,
        between(-0.3, 0.3, CORRELATION),
        OURS,
        every=("lr",),
        pilot=f"{TRIAL} had -0.12 to 0.13",
        note="Initial weights have the same law in every rotation, nearly: they are uniform, not Gaussian.",
    ),
    Claim(
        "random-aligns-more",
        "Random labels align the weights more than true labels do: half the difference is at least 0.05.",
        more_than_true,
        at_least(0.05, CORRELATION),
        OURS,
        every=("lr",),
        pilot=f"{TRIAL} had correlations of 0.96 and 0.67, half the difference 0.13 to 0.17",
        note="True labels are fitted sooner. The comparison is at the end of training, not after as many steps.",
    ),
    Claim(
        "faster",
        "In slow training, pretrained weights fit new random labels in at most 0.8 times the steps from scratch.",
        faster,
        at_most(0.8, TIMES),
        MAENNEL.at("abstract"),
        "networks pretrained with random labels train faster downstream (no number there)",
        pilot=f"{TRIAL} had 0.50 to 0.61 times at a learning rate of {SLOW}, 0.87 to 1.02 times at {FAST}",
        note="The learning rate decides: compare the claim about fast training.",
        **SLOWLY,
    ),
    Claim(
        "fast-training-hides-it",
        "At five times the learning rate little of this is left: at least 0.8 times the steps from scratch.",
        faster,
        at_least(0.8, TIMES),
        OURS,
        where={"lr": [FAST]},
        pilot=f"{TRIAL} had 0.87 to 1.02 times",
    ),
    Claim(
        "faster-than-scale",
        "Pretrained weights fit new random labels in fewer steps than weights of the same scale.",
        faster_than_scaled,
        at_most(1, TIMES),
        MAENNEL.at("abstract"),
        "faster even after accounting for simple effects, such as weight scaling (VGG16 and ResNet18)",
        pilot=f"{TRIAL} had 0.96 to 1.10 times",
        note="Two controls keep the scale: fresh weights with the same norms, and the same weights in random order.",
        **SLOWLY,
    ),
    Claim(
        "scale-explains",
        "Weights of the same scale are as fast: within 15% of the steps from pretrained weights.",
        faster_than_scaled,
        between(0.85, 1.18, TIMES),
        OURS,
        pilot=f"{TRIAL} had 0.96 to 1.10 times",
        **SLOWLY,
    ),
    Claim(
        "alignment-alone",
        "Fresh weights with the covariance of pretrained ones need fewer steps than weights of the same scale.",
        aligned_alone,
        at_most(1, TIMES),
        MAENNEL.at("abstract"),
        "alignment produces a positive transfer, which specialization at later layers may hide",
        pilot=f"{TRIAL} had 0.82 to 0.96 times",
        **SLOWLY,
    ),
    Claim(
        "faster-on-true",
        "True labels are fitted in at most half the steps from scratch as well.",
        faster_on_true,
        at_most(0.5, TIMES),
        OURS,
        pilot=f"{TRIAL} had 0.15 to 0.43 times; weights of the same scale had 0.2 to 0.32 times",
        **SLOWLY,
    ),
    Claim(
        "harm",
        "After learning true labels, the pretrained network errs more than one that started at the same scale.",
        harm,
        at_least(0, POINTS),
        OURS,
        counted_on="n_test",
        pilot=f"{TRIAL} had 0.6 to 4 points",
        **SLOWLY,
    ),
    Exact(
        "fits",
        "Every training fits every label.",
        all_fitted,
        OURS,
        "no training stops at its limit of epochs",
    ),
)


EXPERIMENT = Experiment(
    name="random-label-pretraining",
    title="What random labels teach a network, and what only looks like it",
    about="Random labels carry no information about classes, yet a network that has fitted them is not as it was: its "
    "first layer follows the directions in which the data vary. Maennel et al. (2020) report that new labels are then "
    "learned faster. Training also makes weights larger, so this experiment repeats the second training from fresh "
    "weights of the same scale.",
    papers=(MAENNEL,),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
