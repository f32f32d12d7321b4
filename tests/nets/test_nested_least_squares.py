"""Least squares on nested features against numpy's, which solves every size anew by a singular value decomposition."""

import tracemalloc

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets import nested_least_squares
from truerisk.nets.nested_least_squares import least_norm, nested_outputs, nested_readouts
from truerisk.nets.random_features import LeastSquares, feature_scale, random_features

N = 40  # examples
COUNTS = (1, 2, 13, 39, 40, 41, 47, 79, 80, 81, 200)


def by_lstsq(phi, Y):
    return np.linalg.lstsq(phi, Y, rcond=1e-12)[0]


def by_stacking(phi, Y, ridge):
    """The ridge as so many more examples, with targets 0."""
    n, width = phi.shape
    rows = np.vstack([phi, np.sqrt(n * ridge) * np.eye(width)])
    return np.linalg.lstsq(rows, np.concatenate([Y, np.zeros((width, *Y.shape[1:]))]), rcond=None)[0]


def close(found, wanted, tolerance=1e-8):
    assert found.shape == wanted.shape
    return np.abs(found - wanted).max() <= tolerance * max(1, np.abs(wanted).max())


def drawn(case, columns=200, n=N):
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((n, columns))
    if case == "repeated rows":
        phi[n // 2 :] = phi[: n - n // 2]
    elif case == "two equal rows":
        phi[-1] = phi[0]
    elif case == "repeated columns":
        phi[:, 1::2] = phi[:, : (columns + 1) // 2 * 2 : 2][:, : columns // 2]
    elif case == "dead columns":
        phi[:, 5:30] = 0
    elif case == "constant":
        phi[:] = 3.0
    elif case == "zero":
        phi[:] = 0
    elif case == "huge":
        phi *= 1e150
    elif case == "cosines":  # smooth functions of one input: singular values fall to 1e-16 of the largest
        phi = random_features(1, columns, seed=0, kind="fourier", bandwidth=0.05)(rng.random((n, 1)))
    return phi


CASES = ("full rank", "repeated rows", "two equal rows", "repeated columns", "dead columns", "constant", "zero", "huge")


@pytest.mark.parametrize("targets", ["one", "several"])
@pytest.mark.parametrize("case", CASES)
def test_every_size_agrees_with_lstsq(case, targets):
    phi = drawn(case)
    Y = np.random.default_rng(1).standard_normal((N, 3) if targets == "several" else N)
    for count, [found] in zip(COUNTS, nested_readouts(phi, Y, COUNTS), strict=True):
        wanted = by_lstsq(phi[:, :count], Y)
        unit = 1e150 if case == "huge" else 1.0
        assert close(unit * found, unit * wanted), count


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 3.0])
@pytest.mark.parametrize("case", ["full rank", "repeated rows", "dead columns", "zero"])
def test_ridges_agree_with_more_examples(case, ridge):
    phi, Y = drawn(case), np.random.default_rng(1).standard_normal((N, 2))
    for count, [least, found] in zip(COUNTS, nested_readouts(phi, Y, COUNTS, (0.0, ridge)), strict=True):
        assert close(found, by_stacking(phi[:, :count], Y, ridge)), count
        assert close(found, LeastSquares(phi[:, :count], Y).ridge(ridge)), count
        assert close(least, by_lstsq(phi[:, :count], Y)), count


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (6, 6), (30, 7), (7, 30)])
def test_one_problem_of_any_shape(shape):
    rng = np.random.default_rng(2)
    phi, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    assert close(least_norm(phi, y), by_lstsq(phi, y))
    assert close(least_norm(phi, y), LeastSquares(phi, y).least_norm())
    integers, signs = np.round(phi * 4).astype(int), np.sign(y).astype(int)
    assert close(least_norm(integers, signs), by_lstsq(integers, signs))


def test_blocks_of_any_size_give_the_same_readouts(monkeypatch):
    phi, Y = drawn("full rank"), np.random.default_rng(1).standard_normal((N, 2))
    whole = nested_readouts(phi, Y, COUNTS, (0.0, 1e-3))
    asked = []

    def features(start, stop):
        asked.append(stop - start)
        return phi[:, start:stop]

    monkeypatch.setattr(nested_least_squares, "BLOCK", 7)
    for found, wanted in zip(nested_readouts(features, Y, COUNTS, (0.0, 1e-3)), whole, strict=True):
        assert all(close(a, b, 1e-10) for a, b in zip(found, wanted, strict=True))
    assert max(asked) == 7
    outputs = nested_outputs(features, [readout for [readout, _] in whole])
    for count, out, [readout, _] in zip(COUNTS, outputs, whole, strict=True):
        assert close(out, phi[:, :count] @ readout, 1e-10)


def test_the_scale_of_random_features():
    """The same readouts and ridges as for the features of each width, drawn alone."""
    X = np.random.default_rng(3).standard_normal((N, 6))
    Y = np.eye(3)[np.arange(N) % 3]
    for kind in ("relu", "fourier"):
        nested = random_features(6, 200, seed=5, kind=kind, bandwidth=2.0)
        found = nested_readouts(lambda a, b, all=nested: all.block(X, a, b), Y, COUNTS, (0.0, 1e-4), feature_scale)
        outputs = nested_outputs(nested.block(X, 0, 200), [one for one, _ in found], feature_scale)
        for count, (least, ridge), out in zip(COUNTS, found, outputs, strict=True):
            phi = random_features(6, count, seed=5, kind=kind, bandwidth=2.0)(X)
            assert close(phi @ least, phi @ by_lstsq(phi, Y), 1e-7), count
            assert close(ridge, by_stacking(phi, Y, 1e-4), 1e-7), count
            assert close(out, phi @ least), count


def test_near_the_threshold_no_gram_matrix_is_used():
    """cond(Phi) = 1e8: the normal equations lose all digits, a QR half of them. Seen from both sides of N = n."""
    rng = np.random.default_rng(4)
    left, right = (np.linalg.qr(rng.standard_normal((60, 60)))[0] for _ in range(2))
    phi = left[:, :50] * np.logspace(0, -8, 50) @ right[:50, :50].T
    truth = rng.standard_normal(50)
    for matrix in (phi, phi[:45]):  # fewer features than examples, and more
        goal = matrix @ truth
        wanted = by_lstsq(matrix, goal)
        assert np.abs(least_norm(matrix, goal) - wanted).max() < 1e-6
    squared = np.linalg.lstsq(phi.T @ phi, phi.T @ (phi @ truth), rcond=None)[0]
    assert np.abs(squared - truth).max() > 1e-2  # the test would notice


def test_an_ill_conditioned_gram_matrix_is_not_used():
    """Two examples that differ by 1e-6, far beyond the threshold: their Gram matrix has condition number 1e12."""
    phi = drawn("full rank", 200)
    phi[-1] = phi[0] + 1e-6 * np.random.default_rng(5).standard_normal(200)
    y = np.random.default_rng(1).standard_normal(N)
    assert np.abs(phi @ least_norm(phi, y) - y).max() < 1e-6
    alpha = np.linalg.solve(phi @ phi.T, y)
    wanted = by_lstsq(phi, y)
    error = np.linalg.norm(least_norm(phi, y) - wanted)
    assert error < 1e-2 * np.linalg.norm(phi.T @ alpha - wanted)


def test_smooth_features_of_one_input():
    """The rank is a matter of rounding here, the fit is not."""
    phi = drawn("cosines")
    y = np.sin(np.arange(N))
    for count, [found] in zip(COUNTS, nested_readouts(phi, y, COUNTS), strict=True):
        mine, theirs = (np.linalg.norm(phi[:, :count] @ w - y) for w in (found, by_lstsq(phi[:, :count], y)))
        assert mine == pytest.approx(theirs, abs=1e-4), count


def test_features_of_all_sizes_are_never_held_at_once():
    X = np.random.default_rng(3).standard_normal((200, 4))
    drawn_features = random_features(4, 20_000, seed=0, kind="fourier")  # 32 MB for 200 examples
    tracemalloc.start()
    nested_readouts(lambda a, b: drawn_features.block(X, a, b), X[:, 0], (100, 200, 300, 20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: least_norm(np.zeros((3, 2)), np.zeros(4)), "do not match"),
        (lambda: least_norm(np.zeros(3), np.zeros(3)), "do not match"),
        (lambda: nested_readouts(np.zeros((3, 2)), np.zeros(3), [3]), "between 1 and 2"),
        (lambda: nested_readouts(np.zeros((3, 2)), np.zeros(3), []), "between 1 and 2"),
        (lambda: nested_readouts(np.zeros((3, 2)), np.zeros(3), [0]), "between 1 and 2"),
        (lambda: nested_readouts(np.zeros((3, 2)), np.zeros(3), [1], [-1.0]), "at least 0"),
        (lambda: least_norm(np.array([[np.nan]]), np.zeros(1)), "some features are infinite"),
        (lambda: least_norm(np.ones((1, 1)), np.array([np.inf])), "some targets are infinite"),
    ],
)
def test_slips(call, said):
    with pytest.raises(TrueriskError, match=said):
        call()


def test_the_quality_of_a_triangular_factor_is_its_condition():
    """A 1-norm estimate may be off by a factor of n: at n = 10,000 it would send full-rank problems to an SVD."""
    rng = np.random.default_rng(6)
    for n, decades in ((1, 0), (2, 3), (50, 0), (50, 6), (200, 3)):
        factor = np.linalg.qr(rng.standard_normal((n, n)) * np.logspace(0, -decades, n))[1]
        values = np.linalg.svd(factor, compute_uv=False)
        for scaled in (factor, 1e150 * factor, factor + np.tril(np.ones((n, n)), -1)):  # reflectors are not read
            assert 0.99 < nested_least_squares._quality(scaled) / (values[-1] / values[0]) < 2
    assert nested_least_squares._quality(np.zeros((3, 3))) == 0
    assert nested_least_squares._quality(np.diag([1.0, 0.0])) == 0
