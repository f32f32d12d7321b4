"""Runs of `matrix-factorization`: descent from many starts, local minima, equal norms, and missing entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerisk.data import Data
from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.matrix_biases import compare, split, with_spectrum
from truerisk.lab.samples import samples
from truerisk.nets.matrix_completion import least_trace, low_rank, soft_impute
from truerisk.nets.matrix_factorization import (
    Entries,
    Measurements,
    descend,
    effective_rank,
    random_measurements,
    rebalance,
    scaled_starts,
    trace_norm,
)
from truerisk.seeds import derive

SAME = 1e-3  # losses that differ by less than this share count as one optimum


def descent(s: Setting) -> Record:
    """Ends of gradient descent from starts of all sizes, next to the solution of least trace norm."""
    size, seed, starts = s["size"], s["seed"], s["starts"]
    rng = np.random.default_rng(derive(seed, "truth"))
    commuting, entries = s["measured"] == "commuting", "entries" in s["measured"]
    left, right = rng.standard_normal((2, size, s["rank"]))
    truth = left @ (right if entries else left).T
    truth /= np.linalg.norm(truth)
    first, second = (scaled_starts((size, size), starts, derive(seed, "start", side)) for side in "uv")
    if entries:
        mask = rng.permutation(size**2).reshape(size, size) < s["m"]
        problem: Entries | Measurements = Entries(mask, truth)
        ends = descend(problem, first, second, steps=s["steps"], tolerance=1e-3)
    elif commuting:
        problem = random_measurements(truth, s["m"], derive(seed, "measurements"), commuting=True)
        rate = 1 / 16 / float(np.linalg.norm(problem.matrix(problem.values[None])[0], 2))  # near gradient flow
        alone = np.asarray(starts)[:, None, None] * np.eye(size)
        ends = descend(problem, alone, steps=s["steps"], rate=rate, tolerance=1e-4)
    else:
        problem = random_measurements(truth, s["m"], derive(seed, "measurements"))
        ends = descend(problem, first, steps=s["steps"], tolerance=1e-3)
    found, least = ends.matrices, least_trace(problem, positive=not entries, tolerance=1e-5)
    record = {
        "errors": np.linalg.norm(found - truth, axis=(1, 2)).tolist(),
        "traces": (trace_norm(found) / least.trace).tolist(),
        "ranks": effective_rank(found).tolist(),
        "misfits": ends.misfit.tolist(),
        "spectra": np.linalg.svd(found, compute_uv=False).round(6).tolist(),
        "least_error": float(np.linalg.norm(least.matrix - truth)),
        "least_rank": float(effective_rank(least.matrix)),
        "least_spectrum": np.linalg.svd(least.matrix, compute_uv=False).round(6).tolist(),
        "true_spectrum": np.linalg.svd(truth, compute_uv=False).round(6).tolist(),
        "gap": least.gap,
    }
    if commuting and isinstance(problem, Measurements):
        record |= _against_theory(problem, found, starts)
    return record


def _against_theory(problem: Measurements, found: np.ndarray, starts: list[float]) -> Record:
    """The excess over the least trace norm from each start, and the excess that gradient flow allows.

    Flow from a I ends at the solution of least D(X) = h(X) + 2 log(1/a) tr X, with h the sum of x (log x - 1) over all
    eigenvalues x. So tr X - tr X* <= (h(X*) - h(X)) / (2 log(1/a)) for every other solution X*, here the least one of
    the measurements that the end itself has.
    """
    excess, allowed = [], []
    for matrix, start in zip(found, starts, strict=True):
        own = replace(problem, values=problem.residual(matrix[None])[0] + problem.values)
        least = least_trace(own, positive=True, tolerance=1e-6)
        excess.append(float(np.trace(matrix)) / least.trace - 1)
        room = _entropy(least.matrix) - _entropy(matrix)
        allowed.append(float(room / (2 * np.log(1 / start)) / least.trace))
    return {"excess": excess, "allowed": allowed}


def _entropy(matrix: np.ndarray) -> float:
    values = np.linalg.eigvalsh(matrix)
    values = values[values > 0]
    return float(np.sum(values * (np.log(values) - 1)))


def optima(s: Setting) -> Record:
    """Losses at the ends of alternating least squares, relative to the least loss of the convex problem."""
    size, rng = s["size"], np.random.default_rng(derive(s["seed"], "matrix"))
    left, right = rng.standard_normal((2, size, s["rank"]))
    observed = left @ right.T + s["noise"] * rng.standard_normal((size, size))
    entries = Entries(rng.permutation(size**2).reshape(size, size) < s["share"] * size**2, observed)
    convex = soft_impute(entries, [s["ridge"]], tolerance=1e-6, iterations=5000)[0]
    least = float(np.sum(entries.residual(convex.matrix) ** 2)) / 2 + s["ridge"] * convex.trace
    rng = np.random.default_rng(derive(s["seed"], "starts", s["width"]))
    ends = low_rank(entries, rng.standard_normal((s["starts"], size, s["width"])), s["ridge"], 2000, 1e-8)
    losses = np.sort(ends.losses) / least
    distinct = 1 + int(np.sum(np.diff(losses) > SAME * losses[:-1]))
    slope = float(ends.slopes.max())
    return {"losses": losses.round(6).tolist(), "distinct": distinct, "slope": slope, "gap": convex.gap}


def identity(s: Setting) -> Record:
    """The trace norm of a random matrix, and the sum of squares of factors before and after descent."""
    rng = np.random.default_rng(derive(s["seed"], "factors"))
    left, right = (rng.standard_normal((side, s["width"])) for side in (s["rows"], s["columns"]))
    right[:, 0] *= 10.0  # far from balanced
    low = rebalance(left, right)
    halves = [(np.sum(u**2) + np.sum(v**2)) / 2 for u, v in ((left, right), low)]
    trace = float(trace_norm(left @ right.T))
    moved = float(np.abs(low[0] @ low[1].T - left @ right.T).max())
    return {"before": float(halves[0]) / trace, "after": float(halves[1]) / trace, "moved": moved / trace}


def one_cell(s: Setting) -> Record:
    truth = with_spectrum(s["size"], s["factors"], derive(s["seed"], "truth"))
    return compare(split(truth, s["share"], s["noise"], derive(s["seed"], "entries")), s["seed"], s["steps"])


def images(s: Setting) -> Record:
    """Real images, one per row, or a user's rows, with entries missing."""
    data, _ = samples(s["data"], s["n"], 10, derive(s["seed"], "examples"), s.get("data_sha256"))
    parts = split(centered(data, s), s["share"], 0.0, derive(s["seed"], "entries"))
    return compare(parts, s["seed"], s["steps"], s["ranks"])


def centered(data: Data, s: Setting) -> np.ndarray:
    """Rows minus the means of columns, divided by one scale (images) or one per column, all from training entries."""
    rows = data.X.reshape(len(data), -1).astype(np.float64)
    seen = split(rows, s["share"], 0.0, derive(s["seed"], "entries")).train
    counts = np.maximum(seen.sum(axis=0), 1)
    rows = rows - (rows * seen).sum(axis=0) / counts
    scale = np.sqrt((rows**2 * seen).sum(axis=0) / counts)
    scale = np.full_like(scale, np.sqrt(np.mean(scale**2))) if is_images(data) else scale
    return np.asarray(rows / np.where(scale > 0, scale, 1.0))
