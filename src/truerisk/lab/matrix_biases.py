"""Four ways to fill in a matrix, each with one parameter that the same held-out entries choose.

    rank      the fit of least training loss under a limit on the rank; the rank is chosen
    trace     a penalty on the trace norm; the penalty is chosen
    descent   gradient descent on full factors from a small start; the number of steps is chosen
    end       gradient descent on full factors, run until it fits; the size of the start is chosen

Each list of choices contains the matrix of zeros or its limit, so none of the four is forced to fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerisk.nets.matrix_completion import largest_penalty, low_rank, soft_impute
from truerisk.nets.matrix_factorization import Entries, descend, scaled_starts
from truerisk.seeds import derive

METHODS = ("rank", "trace", "descent", "end")
RANKS = (1, 2, 3, 4, 6, 8)
PENALTIES = tuple(float(f"{share:.3g}") for share in np.geomspace(0.8, 1e-4, 12))  # of the least that gives 0
STARTS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)  # relative to the size of a solution; the last one is stopped
VALIDATION = 0.2  # of the observed entries
ATTEMPTS, SWEEPS, SETTLED = 3, 200, 1e-4  # of alternating least squares
GAP, FITTED = 1e-3, 1e-3  # where soft-impute and descent end
LOOKS = 40  # candidates for the number of steps


@dataclass(frozen=True)
class Split:
    """A matrix, its observations, and which entries train, validate, and test."""

    truth: np.ndarray
    observed: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def entries(self) -> Entries:
        return Entries(self.train, self.observed)

    def errors(self, matrix: np.ndarray) -> tuple[float, float]:
        """Root mean squared errors: of validation observations, and of true test entries relative to their own size."""
        off = matrix - self.observed
        size = float(np.mean(self.truth[self.test] ** 2)) or 1.0
        found = np.mean(off[self.validation] ** 2), np.mean((matrix - self.truth)[self.test] ** 2) / size
        return float(np.sqrt(found[0])), float(np.sqrt(found[1]))


def split(truth: np.ndarray, share: float, noise: float, seed: int) -> Split:
    """Observe a share of the entries with Gaussian noise; a fifth of them validates, the other entries test."""
    rng = np.random.default_rng(seed)
    observed = truth + noise * rng.standard_normal(truth.shape)
    place = rng.permutation(truth.size).reshape(truth.shape)
    seen = round(share * truth.size)
    held = round(VALIDATION * seen)
    return Split(truth, observed, (place >= held) & (place < seen), place < held, place >= seen)


def with_spectrum(size: int, spectrum: str, seed: int) -> np.ndarray:
    """A square matrix with random singular vectors and entries of mean square 1.

    ``"4 equal"`` has four equal singular values, ``"power 1"`` has singular values 1, 1/2, 1/3, and so on.
    """
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    first, second = spectrum.split()
    order = np.arange(1, size + 1, dtype=float)
    values = order ** -float(second) if first == "power" else (order <= int(first)).astype(float)
    return np.asarray((left * (values / np.sqrt(np.mean(values**2)) * np.sqrt(size))) @ right.T)


def compare(parts: Split, seed: int, steps: int, ranks: Iterable[int] = RANKS) -> dict[str, Any]:
    """The test error of each method with its chosen parameter, and that of zeros."""
    zeros = np.zeros_like(parts.truth)
    found = {"rank": _by_rank(parts, seed, ranks), "trace": _by_trace(parts), **_by_descent(parts, seed, steps)}
    record: dict[str, Any] = {"zeros_error": parts.errors(zeros)[1]}
    for name, tried in found.items():
        chosen = min([(*parts.errors(zeros), 0.0), *tried])
        record[f"{name}_error"], record[f"{name}_choice"] = chosen[1], chosen[2]
    return record


def fills(parts: Split, seed: int, steps: int, ranks: Iterable[int] = RANKS) -> dict[str, np.ndarray]:
    """The chosen matrix of rank, trace, and descent, for pictures."""
    entries, record = parts.entries, compare(parts, seed, steps, ranks)
    rank, share, step = int(record["rank_choice"]), record["trace_choice"], int(record["descent_choice"])
    zeros = np.zeros_like(parts.truth)
    penalties = [part * largest_penalty(entries) for part in PENALTIES if part >= share > 0]
    left, right = _starts(parts, seed, STARTS[-1:])
    return {
        "rank": _lowest(entries, rank, seed) if rank else zeros,
        "trace": soft_impute(entries, penalties, GAP)[-1].matrix if penalties else zeros,
        "descent": descend(entries, left, right, steps=step, tolerance=FITTED).matrices[0],
    }


Tried = list[tuple[float, float, float]]  # validation error, test error, parameter


def _by_rank(parts: Split, seed: int, ranks: Iterable[int]) -> Tried:
    return [(*parts.errors(_lowest(parts.entries, rank, seed)), float(rank)) for rank in ranks]


def _lowest(entries: Entries, rank: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(derive(seed, "rank", rank))
    ends = low_rank(entries, rng.standard_normal((ATTEMPTS, len(entries.mask), rank)), 0.0, SWEEPS, SETTLED)
    return np.asarray(ends.matrices[ends.losses.argmin()])


def _by_trace(parts: Split) -> Tried:
    entries = parts.entries
    most = largest_penalty(entries) or 1.0
    ends = soft_impute(entries, [share * most for share in PENALTIES], GAP)
    return [(*parts.errors(end.matrix), share) for end, share in zip(ends, PENALTIES, strict=True)]


def _by_descent(parts: Split, seed: int, steps: int) -> dict[str, Tried]:
    """All starts at once; the path of the smallest one is watched at steps evenly spaced in their logarithm."""
    looks = {round(step) for step in np.geomspace(5, steps, LOOKS)}
    path: Tried = []

    def watch(step: int, matrices: np.ndarray) -> None:
        if step in looks:
            path.append((*parts.errors(matrices[-1]), float(step)))

    left, right = _starts(parts, seed, STARTS)
    ends = descend(parts.entries, left, right, steps=steps, tolerance=FITTED, watch=watch)
    return {
        "descent": path,
        "end": [(*parts.errors(matrix), start) for matrix, start in zip(ends.matrices, STARTS, strict=True)],
    }


def _starts(parts: Split, seed: int, scales: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """Full factors; the scale is relative to the square root of the largest singular value of the observed entries."""
    unit, width = largest_penalty(parts.entries) ** 0.5 or 1.0, min(parts.truth.shape)
    sizes = [unit * scale for scale in scales]
    first, second = (
        scaled_starts((side, width), sizes, derive(seed, "start", number))
        for number, side in enumerate(parts.truth.shape)
    )
    return first, second
