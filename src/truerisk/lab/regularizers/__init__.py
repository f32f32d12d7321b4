"""Experiment `regularizers`: networks generalize without explicit regularizers, and fit random labels with them.

Zhang et al. 2017, sections 3 and 3.1, Tables 1, 2 and 4. Claims and figures are in files of their own.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from truerisk.data import random_labels
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.regularizers.claims import CLAIMS
from truerisk.lab.regularizers.figures import figures
from truerisk.lab.samples import samples
from truerisk.lab.sgd import decaying_sgd
from truerisk.nets.classics import classic
from truerisk.seeds import derive, seeded_globals
from truerisk.training import learn
from truerisk.training.augment import View

# ---- the task ------------------------------------------------------------------------------------------------------


def task(setting: Setting) -> Record:
    """Train one network with one choice of regularizers and report its errors, on the way and at the end.

    Runs that differ in regularizers only share their seed, and with it examples, first weights and order of batches:
    their differences are paired. True labels are trained to the last epoch, random ones until all are fitted.
    """
    s = setting
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"))
    if s["labels"] == "random":
        train = random_labels(train, derive(s["seed"], "labels"))
    with seeded_globals(derive(s["seed"], "weights")):
        network = _network(s, train.input_shape[0], train.classes)
    plan = decaying_sgd(s, derive(s["seed"], "batches"), s["weight_decay"])
    until = 0.0 if s["labels"] == "random" else None
    curve = learn(network, train, test, plan, until_error=until, every=s["every"])
    per_epoch = -(-s["n"] // s["batch_size"])
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "train_error": curve.train_error[-1],
        "test_error": curve.test_error[-1],
        "best_test_error": curve.best_test_error,
        "epochs_done": curve.steps[-1] // per_epoch,
        "watched": [step // per_epoch for step in curve.steps],
        "test_curve": curve.test_error,
        "diverged": curve.diverged,
    }


def _network(s: Setting, channels: int, classes: int) -> nn.Module:
    """The network behind its view of the images: random crops in training if asked for, the middle otherwise."""
    options = {"dropout": s["dropout"]} if s["dropout"] else {}
    trunk = classic(s["model"], (channels, s["size"], s["size"]), classes, **options)
    view = View(s["size"], random=s["crop"], pad=s["pad"])
    return nn.Sequential(view, trunk)


# ---- the grids -----------------------------------------------------------------------------------------------------

# The rows of the published table: (crop, weight decay) with true labels. Only pictures of convolutional networks are
# cropped there.
CONVOLUTIONAL, OTHER = ((True, True), (True, False), (False, True), (False, False)), ((False, True), (False, False))
DROPOUT = 0.5

# The paper does not print its weight decay. 5e-4, beside SGD with momentum, was usual for these networks on CIFAR-10.
# On digits there are far fewer steps: twice that value shrinks weights about as much over the whole training.
USUAL_DECAY, DIGITS_DECAY = 5e-4, 1e-3


def _grid(
    models: dict[str, dict[str, Any]], decay: float, seeds: int, random_epochs: int, **common: Any
) -> list[Setting]:
    """For each model: the published rows, dropout where the model has a place for it, and random labels.

    Random labels get one seed: whether they are fitted hardly depends on it.
    """
    grid: list[Setting] = []
    for model, own in models.items():
        base = {"model": model, "crop": False, "weight_decay": 0.0, "dropout": 0.0, "labels": "true", **common, **own}
        has_dropout, plain = "inception" not in model, "no-bn" not in model
        pairs = CONVOLUTIONAL if plain and "mlp" not in model else OTHER
        runs = [{**base, "crop": crop, "weight_decay": decay * shrink} for crop, shrink in pairs]
        runs += [{**base, "dropout": DROPOUT}] if has_dropout else []
        grid += [{**run, "seed": seed} for run in runs for seed in range(seeds)]
        noise = {**base, "labels": "random", "epochs": random_epochs, "seed": 0}
        grid += [noise]
        grid += [{**noise, "weight_decay": decay}] if plain else []
        grid += [{**noise, "dropout": DROPOUT}] if has_dropout else []
    return grid


# Learning rates: the paper's are 0.1 for Inception and 0.01 for the rest; 0.01 without batch norm is ours. Those of the
# small networks, and the small batches of AlexNet, were found in single trials: with larger batches it does not fit
# random labels in time.
SMALL = {
    "inception-small": {"lr": 0.05, "epochs": 24},
    "inception-small-no-bn": {"lr": 0.01, "epochs": 24},
    "alexnet-small": {"lr": 0.02, "epochs": 25, "batch_size": 20},
    "mlp-3x512": {"lr": 0.02, "epochs": 30},
    "mlp-1x512": {"lr": 0.05, "epochs": 30},
}
LARGE = {
    "inception": {"lr": 0.1},
    "inception-no-bn": {"lr": 0.01},
    "alexnet": {"lr": 0.01},
    "mlp-3x512": {"lr": 0.01},
    "mlp-1x512": {"lr": 0.01},
}
MEDIUM_EPOCHS = {"alexnet": 20, "mlp-3x512": 30, "mlp-1x512": 30}
DIGITS = {"data": "digits", "size": 8, "pad": 1, "batch_size": 50, "lr_decay": 0.99, "every": 2}
CIFAR = {"data": "cifar-10", "size": 28, "pad": 0}


def smoke() -> list[Setting]:
    models = {name: {**own, "epochs": 2} for name, own in SMALL.items()}
    return _grid(models, DIGITS_DECAY, 2, 2, n=50, n_test=100, **DIGITS)


def quick() -> list[Setting]:
    return _grid(SMALL, DIGITS_DECAY, 3, 120, n=500, n_test=1000, **DIGITS)


def medium() -> list[Setting]:
    """CIFAR-10 without Inception, whose twelve layers would take most of the time."""
    models = {name: {**LARGE[name], "epochs": epochs} for name, epochs in MEDIUM_EPOCHS.items()}
    how = {"batch_size": 50, "lr_decay": 0.98, "every": 3}
    return _grid(models, USUAL_DECAY, 2, 60, n=2000, n_test=2000, **how, **CIFAR)


def paper() -> list[Setting]:
    models = {name: {**own, "epochs": 100} for name, own in LARGE.items()}
    how = {"batch_size": 128, "lr_decay": 0.95, "every": 2}
    return _grid(models, USUAL_DECAY, 3, 200, n=50_000, n_test=10_000, **how, **CIFAR)


def _cost(setting: Setting) -> float:
    """Seconds on digits, roughly. Random labels are usually fitted before the last epoch."""
    per_epoch = 0.25 if "inception" in setting["model"] else 0.15 if "alexnet" in setting["model"] else 0.05
    return per_epoch * setting["epochs"] * setting["n"] / 500


EXPERIMENT = Experiment(
    name="regularizers",
    title="Do explicit regularizers explain generalization?",
    about=(
        "Weight decay, dropout and random crops are thought to keep a network from memorizing its training examples. "
        "If they did, networks without them would fail on new examples, and networks with them could not fit random "
        "labels. Both are tried: the networks of Zhang et al. are trained with each regularizer and with none, on true "
        "and on random labels, in the rows of the published table. Early stopping and batch norm, which regularize "
        "without being meant to, are looked at as well."
    ),
    papers=(
        "Zhang et al. Understanding deep learning requires rethinking generalization. ICLR 2017",
        "Arpit et al. A closer look at memorization in deep networks. ICML 2017",
    ),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=_cost,
)
