"""Polynomials of any size: exact below n, of least norm beyond, and norms that are integrals."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial as Power
from scipy.integrate import quad

from truerisk.errors import TrueriskError
from truerisk.nets.polynomials import fit_polynomial, legendre_features

X = np.sort(np.random.default_rng(0).uniform(-1, 1, 12))
Y = np.sin(5 * X) + 0.3 * np.random.default_rng(1).standard_normal(12)


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("smoothness", [0.0, 1.0])
def test_below_n_the_norm_does_not_matter(size, smoothness):
    """Ordinary least squares in powers of x."""
    plain = Power.fit(X, Y, size - 1, domain=[-1, 1])
    t = np.linspace(-1, 1, 50)
    assert fit_polynomial(X, Y, size, smoothness)(t) == pytest.approx(plain(t), abs=1e-8)


@pytest.mark.parametrize("size", [12, 20, 60])
@pytest.mark.parametrize("smoothness", [0.0, 1.0, 2.0])
def test_from_n_on_all_points_are_met_at_the_least_norm(size, smoothness):
    found = fit_polynomial(X, Y, size, smoothness)
    assert found(X) == pytest.approx(Y, abs=1e-6)
    features = legendre_features(X, size, smoothness)
    other = np.linalg.svd(features)[2][-1]  # a direction that no point sees, where there is one
    if size > len(X):
        assert np.abs(features @ other).max() < 1e-9
        assert abs(found.weights @ other) < 1e-8  # the least norm has no part in it
        bent = found.weights + 0.1 * other
        assert np.linalg.norm(bent) > found.norm


def test_the_features_are_orthonormal():
    """With s = 0, by Gauss-Legendre quadrature, which is exact here."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    features = legendre_features(nodes, 20, 0)
    assert features.T @ (weights[:, None] * features) == pytest.approx(np.eye(20), abs=1e-12)


@pytest.mark.parametrize("smoothness", [0.0, 1.0])
def test_the_norm_is_an_integral(smoothness):
    found = fit_polynomial(X, Y, 18, smoothness)

    def density(t, h=1e-5):
        here, left, right = found(np.array([t, max(t - h, -1), min(t + h, 1)]))
        slope = (right - left) / (min(t + h, 1) - max(t - h, -1))
        return here**2 + smoothness * (1 - t**2) * slope**2

    assert found.norm**2 == pytest.approx(quad(density, -1, 1, limit=200)[0], rel=1e-4)


def test_larger_classes_have_functions_of_smaller_norm():
    """Nested classes and one norm: by construction, for any points."""
    norms = [fit_polynomial(X, Y, size).norm for size in (12, 13, 20, 50, 200)]
    assert norms == sorted(norms, reverse=True)


def test_repeated_points_get_their_mean():
    x, y = np.array([0.0, 0.0, 0.5]), np.array([1.0, 3.0, 5.0])
    assert fit_polynomial(x, y, 40)(np.array([0.0, 0.5])) == pytest.approx([2, 5])


@pytest.mark.parametrize(
    ("x", "size", "smoothness"), [(np.zeros((2, 2)), 3, 1), (np.zeros(0), 3, 1), (X, 0, 1), (X, 3, -1), (X, 3, np.nan)]
)
def test_no_features(x, size, smoothness):
    with pytest.raises(TrueriskError, match="give no features"):
        legendre_features(x, size, smoothness)


def test_places_outside():
    with pytest.raises(TrueriskError, match="rescale"):
        fit_polynomial(np.array([0.0, 1.1]), np.zeros(2), 3)
    with pytest.raises(TrueriskError, match="rescale"):
        legendre_features(np.array([np.nan]), 3, 1)
