"""How much a measure tells about the gap that hyper-parameters do not tell (Jiang et al. 2020, section 2.2.3).

For a pair of networks drawn at random, let V_mu be the sign of the difference of the measure, V_g that of the gap, and
U_S the values of the hyper-parameters S for both networks:

    K = min over |S| <= 2 of I(V_mu; V_g | U_S) / H(V_g | U_S)

from 0 (the measure tells nothing beyond some two hyper-parameters) to 1. It is blind to direction: a measure that is
always wrong tells as much as one that is always right. Pairs are ordered, of different networks. A tie is a third
value of a sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from truerisk.measures.prediction.pairs import Networks

LARGEST = 2  # hyper-parameters that are held at a time


@dataclass(frozen=True)
class Information:
    """K, and the hyper-parameters S at which it is attained."""

    value: float
    given: tuple[str, ...]


def information(networks: Networks, mu: np.ndarray) -> Information | None:
    """The smallest ratio; sets S that leave nothing to tell about the gap (H = 0) are left out. None if all are."""
    first, second = (np.concatenate(both) for both in (networks.pairs, networks.pairs[::-1]))
    signs = 3 * _sign(mu, first, second) + _sign(networks.gap, first, second)
    found = []
    for count in range(min(LARGEST, len(networks.names)) + 1):
        for given in combinations(range(len(networks.names)), count):
            ratio = _ratio(_table(networks, signs, first, second, given))
            if ratio is not None:
                found.append(Information(ratio, tuple(networks.names[k] for k in given)))
    return min(found, key=lambda one: one.value) if found else None


def _sign(values: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return 1 + np.sign(values[first] - values[second]).astype(np.int64)


def _table(
    networks: Networks, signs: np.ndarray, first: np.ndarray, second: np.ndarray, given: tuple[int, ...]
) -> np.ndarray:
    """Pairs by (values of S for both networks, sign of the measure, sign of the gap)."""
    key = np.zeros(len(first), dtype=np.int64)
    for k in given:
        count = len(networks.values[k])
        key = (key * count + networks.codes[first, k]) * count + networks.codes[second, k]
    kinds, cells = np.unique(key, return_inverse=True)
    return np.bincount(9 * cells.reshape(-1) + signs, minlength=9 * len(kinds)).reshape(-1, 3, 3)


def _ratio(table: np.ndarray) -> float | None:
    """I(V_mu; V_g | U) / H(V_g | U) from counts (U, V_mu, V_g); I = H(V_mu | U) + H(V_g | U) - H(V_mu, V_g | U)."""
    total = table.sum()
    if not total:
        return None
    of_u = _entropy(table.sum((1, 2)), total)
    of_gap = _entropy(table.sum(1), total) - of_u
    shared = _entropy(table.sum(2), total) + _entropy(table.sum(1), total) - _entropy(table, total) - of_u
    if of_gap <= 1e-12:
        return None
    return float(np.clip(shared / of_gap, 0.0, 1.0))  # rounding only


def _entropy(counts: np.ndarray, total: float) -> float:
    p = counts[counts > 0] / total
    return float(-(p * np.log(p)).sum())
