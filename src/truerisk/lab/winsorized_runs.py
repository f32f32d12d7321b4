"""One network, trained by SGD on winsorized gradients or on medians of means, and its accuracies on the way.

A setting has ``data``, ``n``, ``n_test``, ``n_validation``, ``hidden``, ``lr``, ``epochs``, ``batch``, ``noise`` (the
probability of a random training label), ``method``, and ``seed``. Validation examples have noisy labels like training
examples; test examples, which are others, have true labels.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data, corrupt_labels
from truerisk.data.scaling import normalize
from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.seeds import derive, seeded_globals
from truerisk.training import MedianOfMeansSGD, WinsorizedSGD
from truerisk.training.loop import DivergedError

M3, RM3 = "M3", "RM3"  # medians of three means: of parts of a batch, and of the last three batches
LOOKS = 40  # epochs with accuracies, evenly spaced on a logarithmic axis


def winsorized(c: int) -> str:
    """The name of winsorized SGD with c examples on each side; c = 0 is plain SGD.

    >>> winsorized(4), count(winsorized(4)), count(M3)
    ('c = 4', 4, None)
    """
    return f"c = {c}"


def count(method: str) -> int | None:
    """c of a winsorized method."""
    return int(method.removeprefix("c = ")) if method.startswith("c = ") else None


def run_winsorized(setting: Setting) -> Record:
    """Train one network; accuracies at some epochs, and the overfit at the end."""
    s = setting
    train, clean, validation, test = learned(s)
    net = built(s, train)
    (X, y), parts = tensors(train), {"validation": tensors(validation), "test": tensors(test)}
    corrupt = y != torch.from_numpy(clean.y)
    step = optimizer(s["method"], net, s["lr"]).step
    looks = looked_at(s["epochs"])
    found: dict[str, list[float]] = {name: [] for name in ("train", "corrupt", *parts)}
    try:
        for epoch in range(1, s["epochs"] + 1):
            order = np.random.default_rng(derive(s["seed"], "batches", epoch)).permutation(len(X))
            for batch in np.array_split(order, math.ceil(len(X) / s["batch"])):
                step(X[batch], y[batch])
            if epoch in looks:
                right = hits(net, X, y)
                found["train"].append(_short(right.mean()))
                found["corrupt"].append(_short(right[corrupt].mean()) if corrupt.any() else 0.0)
                for name, part in parts.items():
                    found[name].append(_short(hits(net, *part).mean()))
    except DivergedError:
        return {"diverged": True}
    proper = s["noise"] / train.classes + (1 - s["noise"]) * found["test"][-1]
    stopped = found["test"][int(np.argmax(found["validation"]))]
    return {
        "diverged": False,
        "at": looks,
        **{f"{name}_accuracies": values for name, values in found.items()},
        "overfit": _short(found["train"][-1] - proper),
        "test_accuracy": found["test"][-1],
        "stopped_accuracy": stopped,  # at the epoch with the best accuracy on validation examples
        "best_accuracy": max(found["test"]),
        "corrupt_fitted": found["corrupt"][-1],
    }


def learned(setting: Setting) -> tuple[Data, Data, Data, Data]:
    """Training examples, the same with true labels, validation examples with noisy labels, and test examples."""
    s = setting
    seed = derive(s["seed"], "examples")
    clean, rest = normalize(*samples(s["data"], s["n"], s["n_test"] + s["n_validation"], seed, s.get("data_sha256")))
    train = corrupt_labels(clean, s["noise"], derive(s["seed"], "noise"))
    rows = list(range(len(rest)))
    validation, test = rest.take(rows[: s["n_validation"]]), rest.take(rows[s["n_validation"] :])
    return train, clean, corrupt_labels(validation, s["noise"], derive(s["seed"], "noise of validation")), test


def built(setting: Setting, train: Data) -> nn.Sequential:
    """A fully connected ReLU network of the widths ``hidden``."""
    with seeded_globals(derive(setting["seed"], "weights")):
        widths = [train.X[0].size, *setting["hidden"], train.classes]
        layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def optimizer(method: str, net: nn.Module, lr: float) -> WinsorizedSGD | MedianOfMeansSGD:
    c = count(method)
    if c is not None:
        return WinsorizedSGD(net, lr, c=c)
    if method not in (M3, RM3):
        raise TrueriskError(f"there is no method {method!r}; use c = 2, {M3}, or {RM3}.")
    return MedianOfMeansSGD(net, lr, running=method == RM3)


def looked_at(epochs: int) -> list[int]:
    """
    >>> looked_at(4)
    [1, 2, 3, 4]
    """
    return sorted({round(float(epoch)) for epoch in np.geomspace(1, epochs, LOOKS)})


def tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.X.reshape(len(data), -1)).float(), torch.from_numpy(data.y)


def hits(net: nn.Module, X: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return (net(X).argmax(dim=1) == y).double()


def _short(value: Tensor | float) -> float:
    return round(float(value), 5)
