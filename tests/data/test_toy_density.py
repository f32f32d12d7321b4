"""The best possible classifier of the toy data, against integrals, labels, and a large sample."""

import numpy as np
import pytest
from scipy.integrate import quad

from truerisk.data.toy import SHAPES, generate_toy
from truerisk.data.toy_density import toy_posterior, toy_risks
from truerisk.errors import TrueriskError
from truerisk.names import TOYS

each = pytest.mark.parametrize("name", TOYS)


def slow_posterior(name, x, noise):
    """Both densities by adaptive quadrature along the curves."""
    curve = SHAPES[name][0]

    def density(y):
        def at(t):
            return float(np.exp(-((x - curve(np.array([t]), np.array([y]))[0]) ** 2).sum() / (2 * noise**2)))

        return quad(at, 0, 1, limit=400, epsabs=1e-12)[0]

    return density(1) / (density(0) + density(1))


@each
@pytest.mark.parametrize("noise", [None, 0.5])
def test_posterior_against_quadrature(name, noise):
    X = generate_toy(name, 10, seed=5, noise=noise).X[:6].astype(np.float64)
    usual = SHAPES[name][1] if noise is None else noise
    slow = [slow_posterior(name, x, usual) for x in X]
    assert toy_posterior(name, X, noise) == pytest.approx(slow, abs=1e-4)


@each
def test_risks_against_a_large_sample(name):
    """Means over 5,000 examples, within 5 standard errors; and labels that follow the probabilities."""
    data = generate_toy(name, 5000, seed=777)
    eta, risks = toy_posterior(name, data.X), toy_risks(name)
    assert abs(np.minimum(eta, 1 - eta).mean() - risks.bayes) < 5 * 0.1 / 70
    assert abs((2 * eta * (1 - eta)).mean() - risks.neighbor) < 5 * 0.12 / 70
    assert abs(np.mean((eta > 0.5) != data.y) - risks.bayes) < 5 * np.sqrt(risks.bayes / 5000)
    sure = np.abs(eta - 0.5) < 0.1
    assert abs(data.y[sure].mean() - eta[sure].mean()) < 5 * 0.5 / np.sqrt(sure.sum())


@each
def test_the_nearest_neighbor_lies_between_bayes_and_its_double(name):
    for noise in (0.2, 0.6):
        risks = toy_risks(name, noise)
        assert risks.bayes < risks.neighbor < 2 * risks.bayes * (1 - risks.bayes) + 1e-9


def test_far_away_the_nearer_curve_decides():
    far = toy_posterior("circles", np.array([[1e4, 0.0], [0.0, 1e6]]))
    assert (far < 1e-300).all()


def test_refused():
    with pytest.raises(TrueriskError, match="choose one"):
        toy_risks("squares")
    for noise in (0, -1, np.inf, np.nan):
        with pytest.raises(TrueriskError, match="positive and finite"):
            toy_risks("moons", noise)
    with pytest.raises(TrueriskError, match="rows of 2 numbers"):
        toy_posterior("moons", np.zeros((3, 3)))
