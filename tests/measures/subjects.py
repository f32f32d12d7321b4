"""Subjects that tests of measures share: each of CASES with labels that the network mostly gets right."""

from __future__ import annotations

import functools

import numpy as np
import torch
from measures.cases import build
from torch import nn

from truerisk.data import Data
from truerisk.measures import Subject

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 1, 8, 8)).astype(np.float32)  # as data are kept
WRONG = 3  # examples with another label than the network's answer; less than one in ten


def labelled(module: nn.Module) -> Data:
    """Inputs with the network's own answers as labels, but for three."""
    with torch.no_grad():
        y = module(torch.from_numpy(X).to(next(module.parameters()).dtype)).argmax(1).numpy()
    y[:WRONG] = (y[:WRONG] + 1) % 3
    return Data("images", X, y, 3)


@functools.cache
def subject(name: str) -> Subject:
    """The case with its own labels and another seed's weights as initialization. Shared: don't change it."""
    module = build(name)
    return Subject(module, labelled(module), build(name, 1))
