"""One network, trained as a recipe says: width, depth, skips, normalization, optimizer, batch, schedule, noise.

The cost of a training is counted, not timed: multiplications and additions of all gradients,

    cost = 6 x (weights of linear layers) x (examples whose gradient was computed) + 2 x (the same for validation),

because a pass forward takes two operations for each weight and example, and one back takes four. So it does not depend
on the machine. Normalization and dropout have few operations and are not counted.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.seeds import derive, seeded_globals
from truerisk.training.augment import shift
from truerisk.training.optimizers import make_optimizer, take_step

PATIENCE = 10  # epochs without a lower validation error, after which training stops
HELD_OUT = 0.2  # of the training examples, for validation
FORWARD, BOTH = 2, 6  # operations for each weight and example


class Block(nn.Module):
    """A linear layer and a ReLU, with batch normalization before it, dropout after it, and a skip around all of it."""

    def __init__(self, into: int, out: int, norm: bool, skip: bool, dropout: float) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Linear(into, out)]
        parts += [nn.BatchNorm1d(out)] if norm else []
        parts += [nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        self.inside, self.skip = nn.Sequential(*parts), skip and into == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inside(x) if self.skip else self.inside(x)


def build(s: Setting, inputs: int, classes: int) -> nn.Sequential:
    """The network of a recipe, with torch's usual initial weights."""
    sizes = [inputs, *[s["width"]] * s["depth"]]
    blocks = [Block(a, b, s["norm"], s["skip"], s["dropout"]) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*blocks, nn.Linear(sizes[-1], classes))


def run(setting: Setting) -> Record:
    """Train by the recipe; test error, training error, and cost."""
    s, seed = setting, setting["seed"]
    train, test = samples(s["data"], s["n"], s["n_test"], derive(seed, "examples"), s.get("data_sha256"))
    shape = train.input_shape
    X, Z = _standardized(train, test, s["spread"], derive(seed, "feature scales"))
    y, z = torch.from_numpy(train.y), torch.from_numpy(test.y)
    held = round(HELD_OUT * len(X)) if s["stop"] else 0
    fit, check = (X[held:], y[held:]), (X[:held], y[:held])
    with seeded_globals(derive(seed, "weights and noise")):
        net = build(s, X.shape[1], train.classes)
        weights = sum(p.numel() for p in net.parameters() if p.ndim == 2)
        own: dict[str, Any] = {"weight_decay": s["decay"]} if s["optimizer"] in ("adam", "adamw", "momentum") else {}
        optimizer = make_optimizer(s["optimizer"], net, s["lr"], **own)
        best, best_error, waited, cost, epochs = None, math.inf, 0, 0.0, 0
        for epoch in range(s["epochs"]):
            _epoch(s, net, optimizer, *fit, epoch, shape)
            epochs, cost = epoch + 1, cost + BOTH * weights * len(fit[0])
            if not all(bool(p.isfinite().all()) for p in net.parameters()):
                return {"diverged": True}
            if held:
                error, cost = _error(net, *check), cost + FORWARD * weights * held
                waited = 0 if error < best_error else waited + 1
                if error < best_error:
                    best, best_error = copy.deepcopy(net.state_dict()), error
                if waited >= PATIENCE:
                    break
    if best is not None:
        net.load_state_dict(best)
    errors = {"test_error": _error(net, Z, z), "train_error": _error(net, *fit)}
    return {**errors, "cost": cost, "epochs_used": epochs, "diverged": False}


def _epoch(
    s: Setting, net: nn.Module, optimizer: torch.optim.Optimizer, X: Tensor, y: Tensor, epoch: int, shape: Any
) -> None:
    net.train()
    steps = math.ceil(len(X) / s["batch"])
    for step, batch in enumerate(torch.randperm(len(X)).tensor_split(steps)):
        done = (epoch + step / steps) / s["epochs"]
        for group in optimizer.param_groups:
            group["lr"] = s["lr"] * (0.5 * (1 + math.cos(math.pi * done)) if s["anneal"] else 1.0)
        take_step(optimizer, net, shifted(X[batch], s["shift"], shape), y[batch])


def shifted(X: Tensor, most: int, shape: Any) -> Tensor:
    """Each example moved by up to ``most`` places: an image along both axes, any other input in a circle."""
    if not most:
        return X
    if len(shape) == 3 and min(shape[1:]) > most:
        return shift(X.reshape(-1, *shape), most).reshape(len(X), -1)
    by = torch.randint(-most, most + 1, (len(X), 1))
    return X.gather(1, (torch.arange(X.shape[1]) - by) % X.shape[1])


def _standardized(train: Data, test: Data, spread: float, seed: int) -> tuple[Tensor, Tensor]:
    """Centered inputs with mean square 1; ``spread`` multiplies features by up to that factor, as in `optimizers`."""
    X, Z = (np.asarray(data.X, np.float64).reshape(len(data), -1) for data in (train, test))
    places = np.random.default_rng(seed).permutation(X.shape[1])
    center, scale = X.mean(axis=0), spread ** (places / max(1, X.shape[1] - 1))
    X, Z = (X - center) * scale, (Z - center) * scale
    size = math.sqrt(float(np.square(X).mean())) or 1.0
    return torch.from_numpy((X / size).astype(np.float32)), torch.from_numpy((Z / size).astype(np.float32))


@torch.no_grad()
def _error(net: nn.Module, X: Tensor, y: Tensor) -> float:
    net.eval()
    return float((net(X).argmax(1) != y).double().mean())
