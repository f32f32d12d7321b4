"""Rademacher complexity, estimated from below: how well the architecture can agree with random signs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject
from truerisk.nets import outputs, reinitialized
from truerisk.seeds import derive
from truerisk.training import Plan, fit

DRAWS = 3
PLAN = Plan(epochs=50, batch_size=50, optimizer="adam", lr=1e-3, schedule="cosine")


def correlations(module: torch.nn.Module, data: Data, plan: Plan, draws: int, seed: int) -> list[float]:
    """(1/n) sum_i sigma_i h(x_i) of a classifier h with values -1 and 1 that was trained on the signs sigma.

    One for each draw of signs, each from a fresh initialization. h is -1 where the first output is the larger one of
    the first two, 1 where it is the smaller one; a tie counts 0.
    """
    found = []
    for draw in range(draws):
        signs = np.random.default_rng(derive(seed, "signs", draw)).choice([-1, 1], size=len(data))
        network = reinitialized(module, derive(seed, "weights", draw)).float()
        labelled = replace(data, y=(signs > 0).astype(np.int64), classes=2, source=None)
        fit(network, labelled, replace(plan, seed=derive(seed, "batches", draw)), label="training on random signs")
        logits = outputs(network, data.X)
        found.append(float((signs * torch.sign(logits[:, 1] - logits[:, 0]).numpy()).mean()))
    return found


@measure(
    "random-sign-correlation",
    family="rademacher",
    meaning="Correlation with random signs after training: a lower estimate of Rademacher complexity.",
    paper="Zhang et al. 2017",
    equation="E_sigma of (1/n) sum_i sigma_i h(x_i), h trained on sigma; at most R = E_sigma sup_h (1/n) sum_i "
    "sigma_i h(x_i)",
    invariant=True,
    cost="training",
    settings=f"{DRAWS} draws of signs; {PLAN.epochs} epochs of Adam, rate {PLAN.lr}, batches of {PLAN.batch_size}; "
    "over the sample of at most 1000 examples",
)
def random_sign_correlation(subject: Subject) -> Value:
    if subject.logits.shape[1] < 2:
        raise NotDefined("it takes a network with at least two outputs.")
    data = subject.data.take(subject.rows)
    try:
        found = correlations(subject.original, data, PLAN, DRAWS, derive(subject.seed, "rademacher"))
    except TrueriskError as error:
        raise NotDefined(f"it trains the network from scratch, and {error}") from error
    return Value(float(np.mean(found)), error=float(np.std(found, ddof=1)) / math.sqrt(DRAWS))
