"""Networks trained by several optimizers until their training loss is the same: updates, gradients, and errors there.

The training loss is that of all training examples. It is checked every few updates; where it has passed a level, the
weights are those on the straight line between the last two checks at which the loss equals that level. So networks are
compared at equal loss, not at the first loss below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data, corrupt_labels
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures.families.sharpness import adaptive_sharpness
from truerisk.measures.subject import Subject
from truerisk.nets import mlp
from truerisk.seeds import derive, seeded_globals
from truerisk.training.loop import DivergedError
from truerisk.training.optimizers import make_optimizer, take_step

LEVELS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # of the training loss
HALVINGS = 14
MATRICES = ("k-fac", "shampoo")  # whose inverses or roots are computed anew every few steps
FULL_BATCH = ("l-bfgs",)  # line searches need the same loss throughout


def examples(setting: Setting) -> tuple[Data, Data]:
    """Training and test examples: centered inputs with mean square 1, features scaled and labels corrupted as asked.

    With ``spread`` 100, feature j is multiplied by 100^u_j, with u evenly spaced from 0 to 1 in random order. The mean
    square is 1 afterwards as well, so that only the conditioning changes.
    """
    s, seed = setting, setting["seed"]
    train, test = samples(s["data"], s["n"], s["n_test"], derive(seed, "examples"), s.get("data_sha256"))
    X, Z = (np.asarray(data.X, np.float64).reshape(len(data), -1) for data in (train, test))
    center = X.mean(axis=0)
    scale = np.ones(X.shape[1])
    if s["spread"] != 1:
        order = np.random.default_rng(derive(seed, "feature scales")).permutation(X.shape[1])
        scale = s["spread"] ** (order / max(1, X.shape[1] - 1))
    X, Z = (X - center) * scale, (Z - center) * scale
    size = math.sqrt(float(np.square(X).mean())) or 1.0
    made = [Data(d.name, (part / size).astype(np.float32), d.y, d.classes) for d, part in ((train, X), (test, Z))]
    return corrupt_labels(made[0], s["noise"], derive(seed, "noise")), made[1]


def run(setting: Setting) -> Record:
    """Train one network with one optimizer; what was found whenever its training loss passed a level."""
    try:
        return _run(setting)
    except (DivergedError, torch.linalg.LinAlgError):  # moments so far apart that no inverse is found
        return {"diverged": True}


def _run(setting: Setting) -> Record:
    s, seed = setting, setting["seed"]
    train, test = examples(s)
    with seeded_globals(derive(seed, "weights")):
        net, other = (mlp(train.input_shape, train.classes, s["hidden"]) for _ in range(2))
    first = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    levels = [level for level in LEVELS if level > s["target"]] + [s["target"]]
    found: Record = {"levels": [], "updates": [], "passes": [], "test_errors": [], "reached": False, "diverged": False}
    before, loss_before = first, _loss(net, X, y)
    for updates, gradients in _steps(s, net, X, y):
        now, loss = nn.utils.parameters_to_vector(net.parameters()).detach().clone(), _loss(net, X, y)
        if not math.isfinite(loss):
            return {"diverged": True}
        while levels and loss <= levels[0]:
            weights = _between(other, before, now, levels[0], X, y) if loss_before > levels[0] else before
            nn.utils.vector_to_parameters(weights, other.parameters())
            found["levels"].append(levels.pop(0))
            found["updates"].append(updates)
            found["passes"].append(gradients / len(X))
            found["test_errors"].append(_error(other, test))
        if not levels:
            return {**found, "reached": True, **_at_end(other, train, first, seed)}
        before, loss_before = now, loss
    return found


def _steps(s: Setting, net: nn.Module, X: Tensor, y: Tensor) -> Iterator[tuple[int, int]]:
    """Train; after every few updates, how many there were, and the gradients of single examples that they took."""
    name, own = s["optimizer"], {"every": s["every"]} if s["optimizer"] in MATRICES else {}
    if name == "k-fac":
        own["seed"] = derive(s["seed"], "labels of the model")
    optimizer = make_optimizer(name, net, s["lr"], **own)
    generator = torch.Generator().manual_seed(derive(s["seed"], "batches"))
    updates = gradients = taken = 0
    whole = name in FULL_BATCH
    while updates < s["most"]:
        order = torch.arange(len(X)) if whole else torch.randperm(len(X), generator=generator)
        for batch in [order] if whole else order.tensor_split(math.ceil(len(X) / s["batch"])):
            more, each = take_step(optimizer, net, X[batch], y[batch])
            if not more:  # L-BFGS found no way down
                return
            updates, gradients, taken = updates + more, gradients + each * len(batch), taken + 1
            if whole or taken % s["check"] == 0:
                yield updates, gradients


@torch.no_grad()
def _loss(net: nn.Module, X: Tensor, y: Tensor) -> float:
    return float(F.cross_entropy(net(X), y))


@torch.no_grad()
def _error(net: nn.Module, data: Data) -> float:
    return float((net(torch.from_numpy(data.X)).argmax(1) != torch.from_numpy(data.y)).double().mean())


def _between(net: nn.Module, high: Tensor, low: Tensor, level: float, X: Tensor, y: Tensor) -> Tensor:
    """Weights between two networks, one above and one below the level, whose loss is the level (by bisection)."""
    above, below = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (above + below) / 2
        nn.utils.vector_to_parameters(torch.lerp(high, low, middle), net.parameters())
        above, below = (middle, below) if _loss(net, X, y) > level else (above, middle)
    return torch.lerp(high, low, below)


def _at_end(net: nn.Module, train: Data, first: Tensor, seed: int) -> Record:
    """Distance from the initial weights, norm, sharpness, and training error of a network."""
    last = nn.utils.parameters_to_vector(net.parameters()).detach()
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    return {
        "loss": _loss(net, X, y),
        "train_error": _error(net, train),
        "distance": float((last - first).norm()),
        "initial_norm": float(first.norm()),
        "sharpness": adaptive_sharpness(Subject(net, train, seed=derive(seed, "sharpness"))),
    }
