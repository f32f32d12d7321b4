"""One network with one hidden layer, trained by plain SGD, and what the gradients of its examples do on the way.

A setting has ``data``, ``n``, ``n_test``, ``hidden``, ``lr``, ``epochs``, ``batch``, ``noise`` (the probability of a
random training label), and ``seed``. An example is corrupt if its label is not the true one: a random label can be the
true one, and then it is pristine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data, corrupt_labels
from truerisk.data.scaling import normalize
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures.coherence import Coherence, coherence, one_step
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.training.swift import Weights, sgd_epochs, uniform_weights

LOOKS = 30  # places on the way, evenly spaced on a logarithmic axis
HISTOGRAMS = 9  # of them have alignments
KEPT = 50  # quantiles of alignments of a group
PERMUTATIONS = 400
STEPPED, OTHERS = 40, 500  # single examples that get a step of their own, and new examples that are watched
SMALLER = 10  # than the part of one example in a step of SGD, so that curvature hardly matters
PER = 1000  # new examples whose losses are added up


def run_coherent(setting: Setting) -> Record:
    """Train one network; at some epochs, its accuracies and what its gradients have in common."""
    s = setting
    train, clean, new = learned(s)
    weights = uniform_weights([train.X[0].size, s["hidden"], train.classes], derive(s["seed"], "weights"), glorot=True)
    looks = looked_at(s["epochs"])
    shown = {looks[place] for place in np.linspace(0, len(looks) - 1, HISTOGRAMS).round().astype(int)}
    found = [_look(s, 0, weights, train, clean, new, shown)]
    try:
        found += [
            _look(s, epoch, weights, train, clean, new, shown)
            for epoch in epochs_of(s, weights, train)
            if epoch in looks
        ]
    except DivergedError:
        return {"diverged": True}
    record: dict[str, Any] = {name: [look[name] for look in found] for name in found[0] if name != "alignments"}
    kept = {str(look["steps"]): look["alignments"] for look in found if look["alignments"]}
    return {"diverged": False, "corrupt": int((train.y != clean.y).sum()), "alignments": kept, **record}


def learned(setting: Setting) -> tuple[Data, Data, Data]:
    """Training examples with some random labels, the same with true labels, and new examples, noisy like the first."""
    s = setting
    seed = derive(s["seed"], "examples")
    clean, test = normalize(*samples(s["data"], s["n"], s["n_test"], seed, s.get("data_sha256")))
    train = corrupt_labels(clean, s["noise"], derive(s["seed"], "noise"))
    return train, clean, corrupt_labels(test, s["noise"], derive(s["seed"], "noise of new examples"))


def epochs_of(setting: Setting, weights: Weights, train: Data) -> Any:
    """Plain SGD on ``weights`` in place."""
    s = setting
    wanted = np.eye(train.classes, dtype=np.float32)[train.y]
    how = {"epochs": s["epochs"], "batch_size": s["batch"], "lr": s["lr"], "momentum": 0.0}
    return sgd_epochs(weights, train.X.reshape(len(train), -1), wanted, **how, seed=derive(s["seed"], "batches"))


def looked_at(epochs: int) -> list[int]:
    """0, 1, ..., and the last epoch, evenly spaced on a logarithmic axis.

    >>> looked_at(8)
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    return [0, *sorted({round(float(epoch)) for epoch in np.geomspace(1, epochs, LOOKS)})]


def as_module(weights: Weights) -> nn.Sequential:
    """The network of `training.swift` as torch has it."""
    layers: list[nn.Module] = []
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = nn.Linear(*weight.shape)
        layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias.copy())})
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.X.reshape(len(data), -1)).float(), torch.from_numpy(data.y)


def _look(
    s: Setting, epoch: int, weights: Weights, train: Data, clean: Data, new: Data, shown: set[int]
) -> dict[str, Any]:
    net, (X, y) = as_module(weights), tensors(train)
    with torch.no_grad():
        right = (net(X).argmax(dim=1) == y).double()
    pristine = y == torch.from_numpy(clean.y)
    found = coherence(net, X, y)
    hidden, output = found.layers.values()
    return {
        "steps": epoch * math.ceil(len(train) / s["batch"]),
        "fitted": _short(right.mean()),
        "fitted_pristine": _short(right[pristine].mean()) if pristine.any() else None,
        "fitted_corrupt": _short(right[~pristine].mean()) if not pristine.all() else None,
        "m_coherence": _short(found.m_coherence),
        "m_hidden": _short(hidden),
        "m_output": _short(output),
        **_shares(found, pristine, derive(s["seed"], "permutations", epoch)),
        "from_new": _from_new(s, net, X, y, new),
        "alignments": _quantiles(found, pristine) if epoch in shown else None,
    }


def _shares(found: Coherence, pristine: Tensor, seed: int) -> dict[str, Any]:
    """||S||^2, the part of it that comes from pristine examples, and the share of as many examples drawn at random."""
    tags = np.random.default_rng(seed).permuted(np.tile(pristine.numpy(), (PERMUTATIONS, 1)), axis=1)
    whole, drawn = float(found.with_sum.sum()), found.share(torch.from_numpy(tags))
    if not whole > 0 or not torch.isfinite(drawn).all():  # all gradients are 0, or cancel
        return {"whole": 0.0, **dict.fromkeys(("from_pristine", "share", "drawn", "drawn_low", "drawn_high"))}
    low, high = drawn.quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype))
    return {
        "whole": _short(whole),
        "from_pristine": _short(found.with_sum[pristine].sum()),
        "share": _short(found.share(pristine)),
        **{"drawn": _short(drawn.mean()), "drawn_low": _short(low), "drawn_high": _short(high)},
    }


def _from_new(s: Setting, net: nn.Module, X: Tensor, y: Tensor, new: Data) -> float | None:
    """Loss removed from 1,000 new examples together by a step on one example, over what it removes from its own."""
    others, labels = tensors(new.take(list(range(min(len(new), OTHERS)))))
    rate = s["lr"] / s["batch"] / SMALLER
    own, other = one_step(net.double(), X[:STEPPED].double(), y[:STEPPED], others.double(), labels, rate)
    return _short(PER * other.mean() / own.mean()) if own.mean() > 0 else None


def _quantiles(found: Coherence, pristine: Tensor) -> dict[str, Sequence[float]]:
    """Alignments of pristine and of corrupt examples: all of them, or evenly spaced quantiles."""
    levels = (torch.arange(KEPT, dtype=torch.float64) + 0.5) / KEPT
    groups = {"pristine": found.alignments[pristine], "corrupt": found.alignments[~pristine]}
    return {
        name: [round(float(one), 3) for one in (own.quantile(levels) if len(own) > KEPT else own)]
        for name, own in groups.items()
        if len(own)
    }


def _short(value: Any) -> float:
    return float(f"{float(value):.4g}")
