"""How much of the data should train, and how much certify? A learning curve and the floor that it predicts.

The error of a network that trains on m examples is taken to be a m^-b: power laws fit learning curves well over a wide
range (Cortes, Jackel, Solla, Vapnik and Denker, 1993; Hestness and others, 2017). They are no theorem. The prediction
helps to choose a split, and no certificate rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from truerisk.bounds import clopper_pearson
from truerisk.certificates.prior import Prior


@dataclass(frozen=True)
class Point:
    """One network: the examples that it trained on, and its errors on those that validate."""

    trained_on: int
    errors: int


@dataclass(frozen=True)
class Curve:
    """error(m) = scale * m^-power, fitted to ``points``, each validated on the same ``n`` examples."""

    points: tuple[Point, ...]
    n: int
    scale: float
    power: float

    def error(self, trained_on: int) -> float:
        """The error rate that is predicted for so many training examples.

        >>> Curve((), n=10, scale=2.0, power=0.5).error(16)
        0.5
        """
        return min(1.0, self.scale * trained_on**-self.power)


@dataclass(frozen=True)
class Prediction:
    """What one split would give: how many examples train and certify, the error rate, the floor."""

    prior: str
    n_prior: int
    n_certify: int
    error: float
    floor: float


def fit_curve(points: Sequence[Point], n: int) -> Curve:
    """Least squares in logarithms. More examples are never taken to hurt: the power is at least 0.

    An error count k enters as (k + 1/2) / (n + 1), which has a logarithm if k = 0 too.

    >>> curve = fit_curve([Point(100, 20), Point(400, 10)], n=1000)
    >>> round(curve.power, 2), round(curve.error(1600), 4)
    (0.48, 0.0054)
    """
    m = np.log([point.trained_on for point in points])
    rate = np.log([(point.errors + 0.5) / (n + 1) for point in points])
    centred = m - m.mean()
    power = max(0.0, -float(centred @ rate) / float(centred @ centred))
    return Curve(tuple(points), n, scale=math.exp(float(rate.mean() + power * m.mean())), power=power)


def predict_floors(curve: Curve, priors: Iterable[Prior], n: int, delta: float) -> tuple[Prediction, ...]:
    """For each split of ``n`` examples, the hold-out bound of a network that errs as often as the curve says.

    The expected number of errors is no whole number; the bound is interpolated between its two neighbours.
    """
    return tuple(_predict(curve, prior, n, delta) for prior in priors)


def best_split(predictions: Sequence[Prediction]) -> Prediction:
    """The one with the smallest floor; the first of several."""
    return min(predictions, key=lambda prediction: prediction.floor)


def _predict(curve: Curve, prior: Prior, n: int, delta: float) -> Prediction:
    n_prior = round(prior.fraction * n)
    n_certify = n - n_prior
    error = curve.error(n_prior)
    below = min(int(error * n_certify), n_certify - 1)
    low, high = (clopper_pearson(errors, n_certify, delta) for errors in (below, below + 1))
    return Prediction(str(prior), n_prior, n_certify, error, low + (error * n_certify - below) * (high - low))
