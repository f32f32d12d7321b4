"""The usual plans of a certificate's trainings, by the network and the number of examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from truerisk.plan import Plan
from truerisk.training.recipes import RECIPES, recipe

if TYPE_CHECKING:
    from truerisk.data import Data

LARGE = 10_000  # examples; fewer are trained on in smaller batches and more epochs
UPDATE_RATE = 0.1  # peak learning rate of an update, in units of the first training's
# Peak learning rates of Adam by the kind of built-in network, and of every other network. What they were compared on is
# listed in certificates/looks.toml; own networks on synthetic data that never certifies (mnist1d with another seed).
RATES = {"convnet": 1e-2, "poolnet": 5e-3, "cosnet": 1e-3, "mirrored-cosnet": 1e-3}
RATE = 3e-3


def default_plans(
    model: str, data: Data, n_prior: int, seed: int, epochs: int | None, lr: float | None = None
) -> dict[str, Plan]:
    """Training plans by the number of examples: prior, its updates (progressive), picks, posterior and floor.

    A posterior that starts at a learnt prior has little left to learn, so it gets a fifth of the epochs. ``lr`` is the
    peak learning rate of the networks that start anew, the prior's and the floor's.
    """
    n_certify, rate = len(data) - n_prior, usual_rate(model) if lr is None else float(lr)
    small, large = (20, 4) if n_prior else (100, 10)
    plans = {
        "prior": _plan(n_prior, rate, seed, epochs, 100, 20),
        "update": _plan(n_prior, 3e-4, seed, epochs, 10, 2),
        "picks": Plan(epochs=5 if epochs is None else epochs, batch_size=32, lr=3e-4, seed=seed),
        "posterior": _plan(n_certify, 0.04, seed, epochs, small, large),
        "floor": _plan(n_certify, rate, seed, epochs, 100, 10),
        "code": _plan(n_certify, 0.05, seed, epochs, 60, 40),
    }
    if has_recipe(model):
        _, plan = recipe(data.name if data.name in RECIPES else data.input_shape, n_prior or n_certify, seed)
        plan = plan if epochs is None else replace(plan, epochs=epochs)
        plan = plan if lr is None else replace(plan, lr=float(lr))
        update = replace(plan, epochs=1 if epochs is None else epochs, lr=plan.lr * UPDATE_RATE, schedule="cosine")
        picks = replace(update, epochs=plans["picks"].epochs)
        plans |= {"prior": plan, "floor": plan, "update": update, "picks": picks}
    return plans


def _plan(n: int, lr: float, seed: int, epochs: int | None, small: int, large: int) -> Plan:
    usual = large if n >= LARGE else small
    return Plan(epochs=usual if epochs is None else epochs, batch_size=250 if n >= LARGE else 32, lr=lr, seed=seed)


def usual_rate(model: str) -> float:
    """The peak learning rate for a network of this name.

    >>> usual_rate("convnet:32-64"), usual_rate("net.py:build")
    (0.01, 0.003)
    """
    return RATES.get(model.partition(":")[0], RATE)


def has_recipe(model: str) -> bool:
    """Whether this is one of the networks that ``training.recipes`` speaks of."""
    return "resnet" in model.partition(":")[0]
