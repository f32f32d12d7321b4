"""The runs of `memorizer`: build a network for a sample, measure it, and move its inputs until it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from truerisk.data import Data, random_labels
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.memorizer import memorize, memorize_deep, outputs, relative_gap
from truerisk.seeds import derive

CLASSES = 10
ROWS = 1000  # of distances held at a time
MOVED = 300  # examples that are moved to see how soon predictions break
LENGTHS = tuple(float(10.0**power) for power in np.arange(-6, 0.76, 0.25))  # in distances to the nearest neighbour


def task(setting: Setting) -> Record:
    """Build the network for one sample, then look at its size, its errors and how soon they come back."""
    seed = setting["seed"]
    train, test = _sample(setting)
    targets = _targets(setting, train)
    net = _network(setting, train.X, targets)
    found = outputs(net, train.X)
    record = {
        "inputs": int(np.prod(train.input_shape)),
        "weights": sum(int(p.count_nonzero()) if setting["layers"] > 1 else p.numel() for p in net.parameters()),
        "width": max(p.shape[0] for p in net.parameters() if p.ndim == 2) if setting["layers"] > 1 else len(net.w),
        "max_error": float(np.abs(found - targets).max()),
        "largest_weight": max(float(p.detach().abs().max()) for p in net.parameters()),
        "smallest_gap": _gap(net, train.X),
    }
    if setting["labels"] == "real numbers":
        return record
    near = _nearest(test.X, train.X)
    return {
        **record,
        "train_error": float(np.mean(_class(found) != targets)),
        "test_error": float(np.mean(_class(outputs(net, test.X)) != test.y)),
        "neighbour_test_error": float(np.mean(targets[near] != test.y)),
        **_fragility(net, train.X, targets, derive(seed, "moves")),
    }


def _sample(setting: Setting) -> tuple[Data, Data]:
    """Training and test examples; Gaussian points are labelled by the largest of ten random linear functions."""
    n, n_test, seed = setting["n"], setting["n_test"], setting["seed"]
    if setting["data"] != "gaussian":
        return samples(setting["data"], n, n_test, seed)
    generator = np.random.default_rng(derive(seed, "gaussian points"))
    functions = generator.standard_normal((setting["dimension"], CLASSES))
    X = generator.standard_normal((n_test + n, setting["dimension"])).astype(np.float32)
    points = Data("gaussian", X, (X @ functions).argmax(1), CLASSES)
    return points.take(np.arange(n_test, n_test + n)), points.take(np.arange(n_test))


def _targets(setting: Setting, train: Data) -> np.ndarray:
    if setting["labels"] == "real numbers":
        return np.random.default_rng(derive(setting["seed"], "targets")).standard_normal(len(train))
    given = random_labels(train, derive(setting["seed"], "labels")) if setting["labels"] == "random" else train
    return given.y.astype(np.float64)


def _network(setting: Setting, X: np.ndarray, targets: np.ndarray) -> Any:
    """Built in float64; a float32 network has the same weights, rounded."""
    seed, directions = derive(setting["seed"], "directions"), setting["directions"]
    if setting["layers"] > 1:
        net: nn.Module = memorize_deep(X, targets, setting["layers"], seed, directions)
    else:
        net = memorize(X, targets, seed, directions, setting["kinks"])
    return net.float() if setting["precision"] == "float32" else net


def _gap(net: Any, X: np.ndarray) -> float:
    """The smallest gap along the network's direction, in float64, as a fraction of the whole width."""
    direction = (net.a if hasattr(net, "a") else net[1].weight[0]).detach().double().numpy()
    return relative_gap(np.sort(X.reshape(len(X), -1).astype(np.float64) @ direction))


def _class(values: np.ndarray) -> np.ndarray:
    """The class whose number is nearest to the output."""
    return np.clip(np.round(values), 0, CLASSES - 1)


def _nearest(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each row of A the index of the nearest row of B."""
    parts = [_distances(A[at : at + ROWS], B).argmin(axis=1) for at in range(0, len(A), ROWS)]
    return np.concatenate(parts)


def _fragility(net: nn.Module, X: np.ndarray, targets: np.ndarray, seed: int) -> Record:
    """Move training points in random directions, and count the predictions that are still right.

    Lengths are in units of the median distance to the nearest other point. `breaking` is the first length at which
    fewer than half are right; the prediction of the nearest neighbour is shown the same moved points.
    """
    some = X[:MOVED].reshape(min(MOVED, len(X)), -1).astype(np.float64)
    distances = _distances(some, X)
    distances[np.arange(len(some)), np.arange(len(some))] = np.inf
    unit = float(np.sqrt(np.median(distances.min(axis=1))))
    ways = np.random.default_rng(seed).standard_normal(some.shape)
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    kept, neighbour_kept = [], []
    for length in LENGTHS:
        moved = some + length * unit * ways
        kept.append(float(np.mean(_class(outputs(net, moved)) == targets[: len(some)])))
        neighbour_kept.append(float(np.mean(targets[_nearest(moved, X)] == targets[: len(some)])))
    return {
        "neighbour_distance": unit,
        "kept": kept,
        "neighbour_kept": neighbour_kept,
        "breaking": _breaking(kept),
        "neighbour_breaking": _breaking(neighbour_kept),
    }


def _breaking(kept: Sequence[float]) -> float | None:
    return next((length for length, share in zip(LENGTHS, kept, strict=True) if share < 0.5), None)


def _distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances."""
    left, right = (part.reshape(len(part), -1).astype(np.float64) for part in (A, B))
    lengths = (left**2).sum(1)[:, None] + (right**2).sum(1)
    return np.maximum(lengths - 2 * left @ right.T, 0)
