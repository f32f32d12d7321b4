"""Kendall's tau between a measure and the gap, over all networks and over one hyper-parameter at a time.

    tau = mean over pairs of networks of sgn(mu - mu') sgn(g - g')

A pair that is tied in the measure or in the gap counts 0 (tau-a).
"""

from __future__ import annotations

import numpy as np

from truerisk.measures.prediction.pairs import Networks


def tau(networks: Networks, mu: np.ndarray) -> float | None:
    """Over all pairs (Jiang et al. 2020, section 2.2.1); None if there is no pair.

    >>> from truerisk.measures.prediction.pairs import networks
    >>> rows = [{"hyper": {}, "seed": 0, "measures": {}, "gap": g, "n_test": 9} for g in (0.1, 0.2, 0.3)]
    >>> tau(networks(rows), np.array([1.0, 2.0, 2.0]))
    0.6666666666666666
    """
    agreement = _agreement(networks, mu, *networks.pairs)
    return float(agreement.mean()) if len(agreement) else None


def granulated(networks: Networks, mu: np.ndarray) -> dict[str, float | None]:
    """psi of each hyper-parameter (Jiang et al. 2020, section 2.2.2): the mean over cells of the tau inside a cell.

    In a cell all other hyper-parameters are the same. Networks that differ in their seed alone are not compared: they
    tell nothing about the hyper-parameter. Cells without a pair are left out; None if all are.
    """
    return {name: _psi(networks, mu, name) for name in networks.names}


def _psi(networks: Networks, mu: np.ndarray, name: str) -> float | None:
    first, second = networks.single[name]
    if not len(first):
        return None
    cell = networks.cells(name)[first]
    counts = np.bincount(cell)
    sums = np.bincount(cell, weights=_agreement(networks, mu, first, second))
    return float((sums[counts > 0] / counts[counts > 0]).mean())


def mean(psi: dict[str, float | None]) -> float | None:
    """Psi: the mean over the hyper-parameters for which psi is known."""
    known = [value for value in psi.values() if value is not None]
    return float(np.mean(known)) if known else None


def _agreement(networks: Networks, mu: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.sign(mu[first] - mu[second]) * np.sign(networks.gap[first] - networks.gap[second])
