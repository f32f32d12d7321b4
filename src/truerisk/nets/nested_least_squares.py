"""Least squares on nested features: the least-norm readout for every number of features, from one factorization.

Features come in a fixed order; the problem of size N has the first N of them, Phi_N (a row for each of n examples). A
sweep over N asks for every least-norm readout W_N = Phi_N^+ Y, or with a ridge r > 0 for the minimizer of

    |Phi_N W - Y|^2 / (2n) + r |W|^2 / 2.

    N <= n       one Householder QR of (Phi, Y): the leading N x N block of R and the first N rows of Q'Y are the QR of
                 the problem of size N.
    n < N < 2n   QR of the transpose, Phi_N' = Q R, updated as features are added: R <- qr(R; new rows). With
                 R'R A = Y the readout is W = Phi_N' A. Its error grows with the condition number of Phi_N, not with its
                 square, although Q is never formed (Paige 1973, from memory). Where the condition number is large,
                 W is corrected twice by what it misses of Y.
    N >= 2n      the Gram matrix Phi_N Phi_N' and its Cholesky factor, if it is well conditioned; otherwise as above.

Nearer to N = n a Gram matrix would be wrong: it squares the condition number, and rounding then acts like a ridge that
lowers the peak of double descent. Where R is nearly singular (repeated examples, dead features), singular values below
1e-12 of the largest count as 0: `random_features.LeastSquares` decomposes such a problem, with its features in memory.
That class is for one problem and any ridge; the functions here are for many sizes, or for one least-norm readout fast.

Features are an array (n, all), or a function ``(start, stop) -> array`` that computes some of the columns: then they
are never held at once, and a sweep holds about three matrices of size n x n.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from truerisk.errors import TrueriskError
from truerisk.nets.random_features import LeastSquares

Features = np.ndarray | Callable[[int, int], np.ndarray]
Key = tuple[int, float]  # number of features, ridge
Solutions = dict[Key, np.ndarray]
Penalties = dict[Key, float]  # what multiplies |W|^2 next to |Phi W - Y|^2, where features have no scale

BLOCK = 1024  # features computed at a time
PANEL = 128  # columns that a blocked QR eliminates at a time
FULL = 1e-10  # smallest over largest singular value of R from which on none counts as 0
GOOD, SAFE = 3e-6, 1e-7  # the same for W = Phi' A: below GOOD it is corrected, below SAFE it is not used
STEPS = 8  # of the power iterations that estimate singular values
SAFE_GRAM = 1e-9  # of a Gram matrix: its solution then errs by 1e-7 at most
FAR = 2  # from N = FAR n on, a Gram matrix is tried


def least_norm(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Of all readouts that minimize |features W - targets|, the one of least norm, in float64.

    >>> least_norm(np.array([[1.0, 1.0]]), np.array([2.0]))
    array([1., 1.])
    """
    return nested_readouts(np.asarray(features), targets, [np.shape(features)[-1]])[0][0]


def unscaled(count: int) -> float:
    """Features as they are; ``random_features.feature_scale`` is the scale of random features."""
    return 1.0


def nested_readouts(
    features: Features,
    targets: np.ndarray,
    counts: Sequence[int],
    ridges: Sequence[float] = (0.0,),
    scale: Callable[[int], float] = unscaled,
) -> list[list[np.ndarray]]:
    """A list for each number of features, with a readout for each ridge; a ridge of 0 means the least norm.

    ``scale(N)`` multiplies all features of the problem of size N. Norms of readouts and ridges are about the scaled
    features, so sqrt(2/N) makes them comparable between sizes.

    >>> Phi = np.array([[1.0, 1.0, 2.0], [0.0, 2.0, 1.0]])
    >>> [(one, ridge)] = nested_readouts(Phi, np.array([1.0, 4.0]), [2], ridges=(0.0, 1.0))
    >>> one.round(6), ridge.round(6)
    (array([-1.,  2.]), array([-0.1,  1.3]))
    """
    goals = np.asarray(targets, dtype=np.float64)
    _refuse(features, goals, counts, ridges)
    n, Y = len(goals), goals.reshape(len(goals), -1)
    below: Penalties = {}
    near: Penalties = {}
    far: Penalties = {}
    for count, ridge in itertools.product(counts, ridges):
        part = below if count <= n else near if count < FAR * n else far
        part[count, ridge] = n * ridge / scale(count) ** 2
    found = _by_qr(features, Y, below)
    multipliers = _by_gram(features, Y, far)
    near |= {key: penalty for key, penalty in far.items() if key not in multipliers}
    more, corrected = _by_transposed_qr(features, Y, near)
    found |= _spanned(features, multipliers | more) | corrected
    for count in sorted({key[0] for key in near if key not in found}):
        problem = LeastSquares(np.hstack([block for _, block in _blocks(features, 0, count)]), Y)
        for key in (key for key in near if key[0] == count and key not in found):
            found[key] = problem.ridge(near[key] / n) if near[key] > 0 else problem.least_norm()
    return [[found[count, r].reshape(-1, *goals.shape[1:]) / scale(count) for r in ridges] for count in counts]


def nested_outputs(
    features: Features, readouts: Sequence[np.ndarray], scale: Callable[[int], float] = unscaled
) -> list[np.ndarray]:
    """The outputs of readouts of different sizes, each on the first features, which are computed once for all.

    >>> nested_outputs(np.array([[1.0, 2.0, 3.0]]), [np.ones(1), np.ones(3)])
    [array([1.]), array([6.])]
    """
    totals: list[np.ndarray | float] = [0.0] * len(readouts)
    for start, block in _blocks(features, 0, max(map(len, readouts))):
        for i, readout in enumerate(readouts):
            part = readout[start : start + block.shape[1]]
            if len(part):
                totals[i] = totals[i] + block[:, : len(part)] @ part
    return [np.asarray(total) * scale(len(one)) for total, one in zip(totals, readouts, strict=True)]


# ---- the three factorizations --------------------------------------------------------------------------------------


def _by_qr(features: Features, Y: np.ndarray, penalties: Penalties) -> Solutions:
    """Readouts for at most n features."""
    n, most = len(Y), max((count for count, _ in penalties), default=0)
    matrix = np.empty((n, most + Y.shape[1]), order="F")
    for start, block in _blocks(features, 0, most):
        matrix[:, start : start + block.shape[1]] = block
    matrix[:, most:] = Y
    if penalties:
        matrix = lapack.dgeqrt(min(PANEL, *matrix.shape), matrix, overwrite_a=1)[0]
    found = Solutions()
    for (count, ridge), penalty in penalties.items():
        R, Z = matrix[:count, :count], matrix[:count, most:]
        if penalty > 0:
            R, rows, panels = _stacked(R, penalty)
            Z = lapack.dtpmqrt(count, rows, panels, Z, np.zeros_like(Z), trans="T")[0]
        if _quality(R) > FULL:
            found[count, ridge] = solve_triangular(R, Z)
        else:
            found[count, ridge] = LeastSquares(np.triu(R), Z).least_norm()
    return found


def _by_transposed_qr(features: Features, Y: np.ndarray, penalties: Penalties) -> tuple[Solutions, Solutions]:
    """For more than n features: multipliers A of the examples, W = Phi' A, or readouts W where A is too inaccurate.

    Sizes at which R is nearly singular are left out.
    """
    n, multipliers, readouts = len(Y), Solutions(), Solutions()
    factor = np.empty((n, n) if penalties else (0, 0), order="F")
    for start, block in _blocks(features, 0, len(factor)):
        factor[start : start + block.shape[1]] = block.T
    if penalties:
        factor = lapack.dgeqrt(min(PANEL, n), factor, overwrite_a=1)[0]
    done = n
    for count, keys in itertools.groupby(sorted(penalties), key=lambda key: key[0]):
        for _, block in _blocks(features, done, count):
            rows = np.array(block.T, order="F")
            factor = lapack.dtpqrt(0, min(PANEL, n), factor, rows, overwrite_a=1, overwrite_b=1)[0]
        done = count
        for key in keys:
            penalty = penalties[key]
            R = _stacked(factor, penalty)[0] if penalty > 0 else factor
            quality = _quality(R)
            if quality > GOOD:
                multipliers[key] = _twice(R, Y)
            elif quality > SAFE and not penalty:
                readouts[key] = _corrected(features, R, Y, count)
    return multipliers, readouts


def _corrected(features: Features, R: np.ndarray, Y: np.ndarray, count: int) -> np.ndarray:
    """The least-norm readout, corrected by what it misses: A has rounding errors that W need not have."""
    W = np.zeros((count, Y.shape[1]))
    for _ in range(3):
        missed = Y - nested_outputs(features, [W])[0]
        W = W + _spanned(features, {(count, 0.0): _twice(R, missed)})[count, 0.0]
    return W


def _by_gram(features: Features, Y: np.ndarray, penalties: Penalties) -> Solutions:
    """Multipliers A for many more features than examples; none for a size where a Gram matrix would be inaccurate."""
    n, found, done = len(Y), Solutions(), 0
    gram = np.zeros((n, n) if penalties else (0, 0), order="F")
    for count, keys in itertools.groupby(sorted(penalties), key=lambda key: key[0]):
        for _, block in _blocks(features, done, count):
            gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, trans=1, overwrite_c=1)
        done, trace = count, float(np.trace(gram))
        for key in keys:
            shifted = gram.copy(order="F")
            shifted[np.diag_indices(n)] += penalties[key]
            factor, failed = lapack.dpotrf(shifted, clean=0, overwrite_a=1)
            # The trace is above the norm, so the condition number is not underestimated.
            if not failed and lapack.dpocon(factor, trace + n * penalties[key])[0] > SAFE_GRAM:
                found[key] = lapack.dpotrs(factor, Y)[0]
    return found


def _spanned(features: Features, multipliers: Solutions) -> Solutions:
    """The readouts Phi' A of multipliers A, for all sizes in one pass over the features."""
    found = {key: np.empty((key[0], A.shape[1])) for key, A in multipliers.items()}
    for start, block in _blocks(features, 0, max((count for count, _ in found), default=0)):
        for key, A in multipliers.items():
            part = block[:, : max(key[0] - start, 0)]
            found[key][start : start + part.shape[1]] = part.T @ A
    return found


def _quality(R: np.ndarray) -> float:
    """The smallest over the largest singular value of a triangular R, estimated by power iterations."""
    diagonal = np.abs(np.diag(R))
    if not diagonal.min() > np.finfo(float).eps * diagonal.max():
        return 0.0
    upper = np.array(R / diagonal.max(), order="F")
    large = small = np.random.default_rng(0).standard_normal(len(R))
    for _ in range(STEPS):
        stretched = blas.dtrmv(upper, large / np.linalg.norm(large))
        large = blas.dtrmv(upper, stretched, trans=1)
        shrunk = blas.dtrsv(upper, small / np.linalg.norm(small), trans=1)
        small = blas.dtrsv(upper, shrunk)
    return float(1 / (np.linalg.norm(stretched) * np.linalg.norm(shrunk)))


def _twice(R: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The solution of R'R A = Y. What is below the diagonal of R is not read."""
    return np.asarray(solve_triangular(R, solve_triangular(R, Y, trans="T")))


def _stacked(R: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The QR of R on top of sqrt(penalty) I: its triangular factor, and its reflectors."""
    N = len(R)
    ridge = np.zeros((N, N), order="F")
    ridge[np.diag_indices(N)] = math.sqrt(penalty)
    factor, rows, panels, _ = lapack.dtpqrt(N, min(PANEL, N), np.array(R, order="F"), ridge, overwrite_b=1)
    return factor, rows, panels


# ---- features ------------------------------------------------------------------------------------------------------


def _blocks(features: Features, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        block = features(begin, end) if callable(features) else features[:, begin:end]
        block = np.ascontiguousarray(block, dtype=np.float64)
        if not np.isfinite(block).all():
            raise TrueriskError("some features are infinite or not a number; rescale the inputs or remove such rows.")
        yield begin, block


def _refuse(features: Features, targets: np.ndarray, counts: Sequence[int], ridges: Sequence[float]) -> None:
    shape = (len(targets), max(counts, default=0)) if callable(features) else np.shape(features)
    if targets.ndim not in (1, 2) or not len(targets) or len(shape) != 2 or shape[0] != len(targets):
        raise TrueriskError(
            f"features of shape {shape} and targets of shape {targets.shape} do not match; "
            "give a row of features and a target for each example."
        )
    if not counts or min(counts) < 1 or max(counts) > shape[1]:
        raise TrueriskError(f"the numbers of features are {list(counts)}, but must lie between 1 and {shape[1]}.")
    if not ridges or min(ridges) < 0:
        raise TrueriskError(f"the ridges are {list(ridges)}, but must be at least 0; use 0 for the least norm.")
    if not np.isfinite(targets).all():
        raise TrueriskError("some targets are infinite or not a number; remove their examples.")
