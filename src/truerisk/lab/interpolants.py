"""The functions that `smoothness` compares: all of them can fit every training label, none of them has to be smooth.

`curves` passes through points of a line, `classifiers` through labels of points in any dimension. Both yield one
function for each size of a model, with its norm where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from truerisk.data import Data
from truerisk.nets import mlp, outputs
from truerisk.nets.kernels import DistanceKernel, fit, median_distance, one_hot
from truerisk.nets.memorizer import memorize
from truerisk.nets.memorizer import outputs as memorized
from truerisk.nets.nearest_neighbor import nearest_examples, nearest_labels
from truerisk.nets.polynomials import legendre_features
from truerisk.nets.random_features import LeastSquares, random_features
from truerisk.plan import Plan
from truerisk.seeds import derive, seeded_globals
from truerisk.training import learn
from truerisk.training.levenberg_marquardt import train_exactly

Function = Callable[[np.ndarray], np.ndarray]
PLAIN, SMOOTH = 0.0, 1.0  # which norm decides among polynomials: int f^2, or that plus int (1 - x^2) f'^2
GAUSSIAN, LAPLACIAN = 0.3, 0.5  # bandwidths, in median distances
ENTRIES = 8_000_000  # of a block of features
UNITS, RATE, BATCH = 512, 1e-3, 50  # of the networks that classify


class Fitted(NamedTuple):
    """A function, the number of its weights (None: it stores the examples), and the norm that was minimized."""

    size: int | None
    function: Function
    norm: float | None


def curves(model: str, x: np.ndarray, y: np.ndarray, sizes: Sequence[int], seed: int) -> Iterator[Fitted]:
    """Least-squares fits through points in [-1, 1]; of several, the one of least norm. Sizes count weights."""
    n, column = len(x), x[:, None]
    if model in ("smooth", "plain"):
        s = SMOOTH if model == "smooth" else PLAIN
        features = legendre_features(x, max(sizes), s)
        for size in sizes:
            weights = LeastSquares(features[:, :size], y).least_norm()
            yield Fitted(size, _polynomial(weights, s), float(np.linalg.norm(weights)))
    elif model == "fourier":
        for size in sizes:
            phi = random_features(1, size, derive(seed, "features"), "fourier", bandwidth=1 / n)
            weights = LeastSquares(phi(column), y).least_norm()
            yield Fitted(size, _readout(phi, weights), float(np.linalg.norm(weights)))
    elif model == "kernel":
        kernel = DistanceKernel("gaussian", 1 / n)
        found = fit(kernel, column, y[:, None])
        yield Fitted(None, lambda t: kernel.apply(t[:, None], column, found.coefficients)[:, 0], found.norm)
    elif model == "network":
        for size in sizes:  # 3 weights for each unit, and a constant
            network = train_exactly(column, y, (size - 1) // 3, derive(seed, "weights")).network
            yield Fitted(network.size, _on_columns(network), network.norm)
    elif model == "line":
        net = memorize(column, y, derive(seed, "direction"))
        yield Fitted(None, lambda t: memorized(net, np.clip(t, x.min(), x.max())[:, None]), None)
    else:
        yield Fitted(None, lambda t: y[nearest_examples(column, t[:, None])], None)


def _polynomial(weights: np.ndarray, s: float) -> Function:
    return lambda t: legendre_features(t, len(weights), s) @ weights


def _readout(phi: Function, weights: np.ndarray) -> Function:
    return lambda t: phi(t[:, None]) @ weights


def _on_columns(network: Function) -> Function:
    return lambda t: network(t[:, None])


def classifiers(
    model: str, X: np.ndarray, y: np.ndarray, classes: int, sizes: Sequence[int], seed: int, epochs: int = 0
) -> Iterator[Fitted]:
    """Classifiers of rows: least squares on one-hot labels, a network by cross-entropy, or the nearest neighbor."""
    targets = one_hot(y, classes)
    if model in ("gaussian", "laplacian"):
        unit = median_distance(X) or 1.0  # most rows may be equal
        kernel = DistanceKernel("gaussian", GAUSSIAN * unit) if model == "gaussian" else _laplacian(unit)
        found = fit(kernel, X, targets)
        yield Fitted(None, lambda Z: kernel.apply(Z, X, found.coefficients).argmax(axis=1), found.norm)
    elif model in ("fourier", "relu"):
        for size in sizes:
            phi = _features(model, X, size, derive(seed, "features"))
            weights = LeastSquares(phi(X), targets).least_norm()
            yield Fitted(size, _answers(phi, weights), float(np.linalg.norm(weights)))
    elif model == "network":
        yield Fitted(None, _network(X, y, classes, epochs, seed), None)
    else:
        yield Fitted(None, lambda Z: nearest_labels(X, y, Z), None)


def _laplacian(unit: float) -> DistanceKernel:
    return DistanceKernel("laplacian", LAPLACIAN * unit)


def _features(model: str, X: np.ndarray, size: int, seed: int) -> Function:
    """Waves of the Gaussian kernel's bandwidth, or ReLU units with an offset (a constant coordinate)."""
    if model == "fourier":
        return random_features(X.shape[1], size, seed, "fourier", GAUSSIAN * (median_distance(X) or 1.0))
    relu = random_features(X.shape[1] + 1, size, seed, "relu")
    return lambda Z: relu(np.column_stack([Z, np.ones(len(Z))]))


def _answers(phi: Function, weights: np.ndarray) -> Function:
    """Some rows at a time: features of many rows would not fit into memory."""
    each = max(1, ENTRIES // len(weights))

    def answers(Z: np.ndarray) -> np.ndarray:
        parts = [(phi(Z[at : at + each]) @ weights).argmax(axis=1) for at in range(0, len(Z), each)]
        return np.concatenate(parts)

    return answers


def _network(X: np.ndarray, y: np.ndarray, classes: int, epochs: int, seed: int) -> Function:
    """One hidden layer for images, two for a plane; Adam until the training error is 0."""
    plane = X.shape[1] == 2
    with seeded_globals(derive(seed, "weights")):
        net = mlp((X.shape[1],), classes, (UNITS // 2, UNITS // 2) if plane else (UNITS,))
    train = Data("training", X.astype(np.float32), y, classes)
    batch, rate = (len(X), 10 * RATE) if plane else (BATCH, RATE)
    plan = Plan(epochs=epochs, batch_size=batch, lr=rate, schedule="constant", seed=derive(seed, "batches"))
    learn(net, train, train.take(np.arange(1)), plan, every=10 if plane else 1)
    return lambda Z: outputs(net, Z.astype(np.float32)).numpy().argmax(axis=1)
