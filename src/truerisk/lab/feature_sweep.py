"""Sweeps of exact least squares on random features: over the number of features, and over the number of examples.

Each sweep returns lists with an entry for each size. Errors are shares of misclassified examples; squared errors are
mean squared distances between outputs and one-hot labels, and the norm is that of the readout for features with the
factor sqrt(2/N).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from truerisk.data import Data
from truerisk.nets.nested_least_squares import Features, nested_outputs, nested_readouts
from truerisk.nets.random_features import RandomFeatures, feature_scale

NAMES = ("test_error", "test_squared", "train_error", "train_squared", "norm")
HELD = 50_000_000  # features that are kept in memory; more are computed again wherever they are needed
MOST = 1000  # examples whose distances give a bandwidth


def over_features(
    phi: RandomFeatures,
    counts: Sequence[int],
    train: Data,
    test: Data,
    ridges: Sequence[float] = (),
    validation: Data | None = None,
) -> dict[str, list[Any]]:
    """Least-norm readouts of the first N features, for each N of ``counts``.

    With ``ridges``, each N gets the ridge with the smallest squared error on the validation examples.
    """
    on = _features(phi, train)
    readouts = nested_readouts(on, one_hot(train), counts, ridges or (0.0,), feature_scale)
    chosen = np.zeros(len(counts), dtype=int)
    if ridges and validation is not None:
        flat = nested_outputs(_features(phi, validation), [one for each in readouts for one in each], feature_scale)
        chosen = np.array([_squared(out, validation) for out in flat]).reshape(len(counts), -1).argmin(axis=1)
    best = [each[k] for each, k in zip(readouts, chosen, strict=True)]
    fitted, new = (nested_outputs(features, best, feature_scale) for features in (on, _features(phi, test)))
    rows = [_scores(old, out, train, test, one) for old, out, one in zip(fitted, new, best, strict=True)]
    strengths = [float(ridges[k]) if ridges else 0.0 for k in chosen]
    return {
        "counts": list(counts),
        **_columns(rows),
        "strength": strengths,
        "directions": directions(phi, train, counts),
    }


def over_examples(phi: RandomFeatures, sizes: Sequence[int], train: Data, test: Data) -> dict[str, list[Any]]:
    """Least-norm readouts of all features, fitted to the first n training examples for each n of ``sizes``."""
    on, new, goals, rows = phi(flat(train)), phi(flat(test)), one_hot(train), []
    for size in sizes:
        [[readout]] = nested_readouts(on[:size], goals[:size], [phi.width])
        rows.append(_scores(on[:size] @ readout, new @ readout, train.take(np.arange(size)), test, readout))
    return {"sizes": list(sizes), **_columns(rows)}


def median_bandwidth(train: Data) -> float:
    """Half the median distance of training examples that differ; 1 where all are alike."""
    distances = pdist(flat(train)[:MOST])
    apart = distances[distances > 0]
    return float(np.median(apart)) / 2 if len(apart) else 1.0


def directions(phi: RandomFeatures, train: Data, counts: Sequence[int]) -> list[int]:
    """How many of the first N features can be linearly independent on the training examples.

    All N, for cosines. A ReLU unit that is off on all examples is 0, and units that are on on all examples are linear:
    together they span at most d directions.
    """
    if phi.kind != "relu":
        return list(counts)
    on = np.mean(flat(train) @ phi.directions.T > 0, axis=0)
    mixed, linear = (np.cumsum(which) for which in ((on > 0) & (on < 1), on == 1))
    return [int(mixed[count - 1] + min(linear[count - 1], phi.directions.shape[1])) for count in counts]


def flat(data: Data) -> np.ndarray:
    return data.X.astype(np.float64).reshape(len(data), -1)


def one_hot(data: Data) -> np.ndarray:
    return np.asarray(np.eye(data.classes)[data.y])


def _features(phi: RandomFeatures, data: Data) -> Features:
    x = flat(data)
    return phi.block(x, 0, phi.width) if len(x) * phi.width <= HELD else partial(phi.block, x)


def _scores(fitted: np.ndarray, new: np.ndarray, train: Data, test: Data, readout: np.ndarray) -> tuple[float, ...]:
    pairs = ((new, test), (fitted, train))
    errors = [score(out, data) for out, data in pairs for score in (_missed, _squared)]
    return (*errors, float(np.linalg.norm(readout)))


def _missed(outputs: np.ndarray, data: Data) -> float:
    return float(np.mean(outputs.argmax(axis=1) != data.y))


def _squared(outputs: np.ndarray, data: Data) -> float:
    return float(np.mean(np.sum((outputs - one_hot(data)) ** 2, axis=1)))


def _columns(rows: Sequence[tuple[float, ...]]) -> dict[str, list[Any]]:
    columns = zip(NAMES, zip(*rows, strict=True), strict=True)
    return {name: [float(f"{value:.6g}") for value in column] for name, column in columns}
