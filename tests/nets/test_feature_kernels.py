"""Kernels of random features: plain formulas, integrals of densities, Monte Carlo means, and variances."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from truerisk.errors import TrueriskError
from truerisk.nets.feature_kernels import (
    ArcCosineKernel,
    FourierKernel,
    largest_error,
    median_bandwidth,
)
from truerisk.nets.kernels import DistanceKernel, fit
from truerisk.nets.random_features import SPECTRA, random_features


def slow(name, x, z, s=1.0):
    """One entry in plain Python."""
    D = [(a - b) / s for a, b in zip(x, z, strict=True)]
    if name == "gaussian":
        return math.exp(-sum(d * d for d in D) / 2)
    if name == "laplacian":
        return math.exp(-sum(abs(d) for d in D))
    if name == "cauchy":
        return math.prod(1 / (1 + d * d) for d in D)
    sizes = math.hypot(*x) * math.hypot(*z)
    angle = math.acos(max(-1.0, min(1.0, sum(a * b for a, b in zip(x, z, strict=True)) / sizes)))
    return sizes * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi / len(x)


def made(name, s=1.0):
    return ArcCosineKernel() if name == "arc-cosine" else FourierKernel(name, s)


@pytest.mark.parametrize("name", [*SPECTRA, "arc-cosine"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (150, 21)])  # more rows than a block, more factors than one product
def test_entries_by_hand(name, shape):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal(shape), rng.standard_normal((4, shape[1]))
    expected = [[slow(name, a, b, 1.0 if name == "arc-cosine" else 1.7) for b in B] for a in A]
    assert np.allclose(made(name, 1.7)(A, B), expected, rtol=1e-12, atol=0)


def test_the_distance_of_the_laplacian_is_not_euclidean():
    A, B = np.zeros((1, 2)), np.array([[3.0, 4.0]])
    assert FourierKernel("laplacian", 5.0)(A, B).item() == pytest.approx(math.exp(-7 / 5))
    assert DistanceKernel("laplacian", 5.0).apply(A, B, np.eye(1)).item() == pytest.approx(math.exp(-1))
    assert FourierKernel("gaussian", 5.0)(A, B) == pytest.approx(DistanceKernel("gaussian", 5.0).apply(A, B, np.eye(1)))


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("s", [1.0, 0.6])
def test_a_spectrum_integrates_to_its_kernel(name, s):
    """The integral of p(w) cos(w D), and that of p: the density as it is, not as it is often printed."""
    kernel = FourierKernel(name, s)

    def density(w):
        return kernel.density(np.array([[w]])).item()

    assert 2 * quad(density, 0, np.inf)[0] == pytest.approx(1, abs=1e-7)
    at = 0.8
    found = 2 * quad(density, 0, np.inf, weight="cos", wvar=at)[0]
    assert found == pytest.approx(kernel(np.zeros((1, 1)), np.array([[at]])).item(), abs=1e-6)


def test_the_cauchy_row_as_printed_is_not_a_kernel_of_features():
    """2 / (1 + D^2) for each dimension and exp(-|w|) are a Fourier pair, both 2^d times too large."""
    assert 2 * quad(lambda w: math.exp(-w), 0, np.inf)[0] == pytest.approx(2)  # not a density
    printed = math.prod(2 / (1 + d * d) for d in (0.5, -0.3, 0.8))
    mean = np.cos(random_features(3, 400_000, 1, "fourier", spectrum="cauchy").directions @ (0.5, -0.3, 0.8)).mean()
    # the standard deviation of a cosine is at most 1: five deviations of a mean of 400,000, a false alarm in 2e6
    assert mean == pytest.approx(printed / 8, abs=5 / math.sqrt(400_000))
    assert printed > 3.5


@pytest.mark.parametrize("name", [*SPECTRA, "arc-cosine"])
def test_inner_products_approach_the_kernel(name):
    """Means of 200,000 terms; a term of ReLU features has a standard deviation of at most 6 here, of cosines 1.3.

    Five standard deviations for each of six different pairs: a false alarm in 3e5.
    """
    X = np.random.default_rng(3).standard_normal((4, 3))
    kernel = made(name, 1.5)
    phi = kernel.features(3, 200_000, seed=4)(X)
    spread = 6 if name == "arc-cosine" else 1.3
    assert np.allclose(phi @ phi.T, kernel(X, X), rtol=0, atol=5 * spread / math.sqrt(200_000))
    assert np.ptp(kernel(X, X)) > 0.3


@pytest.mark.parametrize("name", SPECTRA)
def test_the_variance_of_an_entry(name):
    """4,000 draws of 5 features: a variance has a relative error of at most about sqrt(2 / 4,000); five times that."""
    x, z = np.array([[0.2, -0.4]]), np.array([[0.9, 0.1]])
    kernel = FourierKernel(name, 1.3)
    many = kernel.features(2, 20_000, seed=5)
    terms = (20_000 / 5) * (many(x) * many(z)).reshape(4000, 5)  # each feature with the scale of five
    assert terms.sum(axis=1).var() * 5 == pytest.approx(kernel.variance(x, z).item(), rel=0.11)
    assert kernel.variance(x, x).item() == pytest.approx(0.5)


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_draws_are_nested(spectrum):
    few, many = (random_features(5, width, 3, "fourier", spectrum=spectrum) for width in (4, 9))
    assert np.array_equal(few.directions, many.directions[:4])
    assert np.array_equal(few.offsets, many.offsets[:4])


def test_streams_of_earlier_versions_are_unchanged():
    """Stored results of other experiments depend on these draws."""
    for kind, scale in (("relu", 1 / math.sqrt(2)), ("fourier", 1 / 3)):
        expected = np.random.default_rng([7, 0]).standard_normal((3, 2)) * scale
        assert np.allclose(random_features(2, 3, 7, kind, bandwidth=3.0).directions, expected, rtol=1e-15)
    offsets = np.random.default_rng([7, 1]).uniform(0, 2 * np.pi, 3)
    assert np.array_equal(random_features(2, 3, 7, "fourier").offsets, offsets)


def test_the_union_bound_holds_and_is_not_vacuous():
    """100 draws of 200 features on 190 pairs, each with delta 0.5: far fewer than half exceed the bound."""
    X = np.random.default_rng(6).standard_normal((20, 3))
    kernel, bound = FourierKernel("laplacian", 2.0), largest_error(200, 190, 0.5)
    largest = []
    for seed in range(100):
        phi = kernel.features(3, 200, seed)(X)
        largest.append(np.abs(phi @ phi.T - kernel(X, X))[np.triu_indices(20, 1)].max())
    assert max(largest) < bound < 5 * np.median(largest)
    assert largest_error(800, 190, 0.5) == pytest.approx(bound / 2)


def test_a_kernel_machine_interpolates():
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((12, 4)), rng.standard_normal((12, 2))
    for name in (*SPECTRA, "arc-cosine"):
        kernel = made(name, 2.0)
        found = fit(kernel, X, y)
        assert np.allclose(kernel.apply(X, X, found.coefficients), y, atol=1e-8)
        assert np.allclose(found.coefficients, np.linalg.solve(kernel(X, X), y), atol=1e-6)


def test_bandwidths_are_medians_of_distances_that_are_not_0():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    assert median_bandwidth("gaussian", X) == 5
    assert median_bandwidth("laplacian", X) == 7
    with pytest.raises(TrueriskError, match="give examples that differ"):
        median_bandwidth("gaussian", X[:2])


def test_zero_inputs_have_no_angle():
    assert ArcCosineKernel()(np.zeros((1, 2)), np.array([[0.0, 0.0], [1.0, 0.0]])).tolist() == [[0, 0]]


def test_images_are_flattened_and_mixed_inputs_refused():
    images = np.random.default_rng(9).random((3, 1, 2, 2))
    assert np.array_equal(FourierKernel("cauchy")(images, images), FourierKernel("cauchy")(*2 * [images.reshape(3, 4)]))
    with pytest.raises(TrueriskError, match="give inputs of one kind"):
        FourierKernel("cauchy")(images, np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: FourierKernel("cauchi"), "gaussian, laplacian, cauchy"),
        (lambda: FourierKernel("cauchy", 0.0), "positive number"),
        (lambda: random_features(2, 3, 0, "fourier", spectrum="uniform"), "the spectrum is 'uniform'"),
        (lambda: largest_error(10, 1, 1.0), "between 0 and 1"),
    ],
)
def test_slips(call, said):
    with pytest.raises(TrueriskError, match=said):
        call()
