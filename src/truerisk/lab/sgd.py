"""How most experiments train: SGD with momentum 0.9 and a rate that shrinks by a factor after each epoch."""

from __future__ import annotations

from truerisk.lab.experiment import Setting
from truerisk.training import Plan


def decaying_sgd(setting: Setting, seed: int, weight_decay: float = 0.0) -> Plan:
    """The plan that a setting's ``epochs``, ``batch_size``, ``lr`` and ``lr_decay`` ask for.

    >>> decaying_sgd({"epochs": 2, "batch_size": 50, "lr": 0.1, "lr_decay": 0.5}, seed=0).rate(0.5)
    0.5
    """
    return Plan(
        epochs=setting["epochs"],
        batch_size=setting["batch_size"],
        optimizer="sgd",
        lr=setting["lr"],
        momentum=0.9,
        weight_decay=weight_decay,
        schedule="step",
        step_every=1,
        step_factor=setting["lr_decay"],
        seed=seed,
    )
