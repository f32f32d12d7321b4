"""The robust sign error of Dziugaite et al. 2020: how often a measure is wrong, in each environment, and in the worst.

An environment is a change of one hyper-parameter from one value to another, all else but the seed the same. The error
of a pair of networks in it is

    (1 - sgn(mu - mu') sgn(g - g')) / 2,

so that a tie of the measure counts as a coin flip. Pairs are weighed by how sure it is that their gaps differ at all,
given that they were measured on n test examples (Hoeffding's inequality):

    w = max(0, 1 - 2 exp(-2 n (|g - g'| / 2)^2))^2,

and w - 1/2 is used where that is positive, as in the authors' code; a tie of the gaps weighs nothing. An environment
whose pairs amount to fewer than 12 (effective sample size (sum w)^2 / sum w^2) is left out. The paper also
holds the other hyper-parameters at one value each, which takes many seeds for each setting; here its pairs with other
values of them are in the same environment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.measures.prediction.pairs import Networks

LEAST = 12.0  # pairs that an environment must amount to
SURE = 0.5  # what is taken off each weight


@dataclass(frozen=True)
class Environment:
    """One change of one hyper-parameter: its name, the measure's error in it, and how many pairs that rests on."""

    name: str
    error: float
    pairs: float  # effective sample size


def weights(networks: Networks, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How surely the gaps of each pair differ, less 1/2; the smaller of two test sets counts."""
    n = np.minimum(networks.n_test[first], networks.n_test[second])
    half = (networks.gap[first] - networks.gap[second]) / 2
    surely = np.maximum(0.0, 1 - 2 * np.exp(-2 * n * half**2)) ** 2
    return np.maximum(0.0, surely - SURE)


def environments(networks: Networks, mu: np.ndarray) -> list[Environment]:
    """All with enough pairs, in the order of hyper-parameters and values.

    >>> from truerisk.measures.prediction.pairs import networks
    >>> rows = [{"hyper": {"width": w}, "seed": s, "measures": {}, "gap": w / 100, "n_test": 10**5}
    ...         for w in (10, 20) for s in range(4)]
    >>> environments(networks(rows), np.arange(8.0))
    [Environment(name='width: 10 -> 20', error=0.0, pairs=16.0)]
    """
    found = []
    for name, values in zip(networks.names, networks.values, strict=True):
        first, second = networks.single[name]
        w = weights(networks, first, second)
        wrong = (1 - np.sign(mu[first] - mu[second]) * np.sign(networks.gap[first] - networks.gap[second])) / 2
        column = networks.codes[:, networks.names.index(name)]
        low, high = np.minimum(column[first], column[second]), np.maximum(column[first], column[second])
        change = low * len(values) + high
        size = len(values) ** 2
        total = np.bincount(change, weights=w, minlength=size)
        squares = np.bincount(change, weights=w * w, minlength=size)
        errors = np.bincount(change, weights=w * wrong, minlength=size)
        pairs = np.divide(total**2, squares, out=np.zeros(size), where=squares > 0)
        found += [
            Environment(
                f"{name}: {values[k // len(values)]} -> {values[k % len(values)]}",
                float(errors[k] / total[k]),
                float(pairs[k]),
            )
            for k in np.flatnonzero(pairs >= LEAST * (1 - 1e-9))
        ]
    return found


def worst(found: list[Environment]) -> Environment | None:
    """The environment in which the measure errs most."""
    return max(found, key=lambda one: one.error, default=None)


def mean(found: list[Environment]) -> float | None:
    """The mean error over environments, each with the same weight."""
    return float(np.mean([one.error for one in found])) if found else None
