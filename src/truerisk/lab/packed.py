"""Cholesky solves in half the memory: LAPACK's rectangular full packed format (RFP).

A symmetric matrix of size n takes n(n+1)/2 numbers instead of n^2: 14.4 GB instead of 28.8 GB for n = 60,000. The
plain packed format saves as much but leaves LAPACK no matrix products to be fast with. RFP (Gustavson, Wasniewski,
Dongarra, Langou 2010) cuts the lower triangle into two triangles and a square, and lays them out as one rectangle,
so that the factorization runs at the speed of the full one:

    n even, k = n/2:  rectangle[1 + i, j] = A[i, j]          for i >= j, j < k
                      rectangle[p, q]     = A[k + q, k + p]  for p <= q
    n odd, k = (n+1)/2:  rectangle[i, j]  = A[i, j]          for i >= j, j < k
                      rectangle[p, q]     = A[k + q - 1, k + p]  for p < q
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from truerisk.errors import TrueriskError

COLUMNS = 256  # of the rectangle filled at a time: enough for a fast matrix product, little beside the triangle
LARGEST = 65_535  # n(n+1)/2 must stay below 2^31: scipy's LAPACK counts in 32 bits

Block = Callable[[slice, slice], np.ndarray]  # rows and columns of a symmetric matrix


def pack(n: int, block: Block) -> np.ndarray:
    """The RFP triangle of the symmetric n x n matrix whose parts ``block(rows, columns)`` computes.

    Only blocks of a few columns are held beside the triangle. Entries on and below the diagonal decide.

    >>> pack(3, lambda rows, columns: np.arange(9.0).reshape(3, 3)[rows, columns]).tolist()
    [0.0, 3.0, 6.0, 8.0, 4.0, 7.0]
    """
    if n > LARGEST:
        raise TrueriskError(f"a triangle of {n} rows is too large for 32-bit LAPACK; use at most {LARGEST} examples.")
    triangle = empty_triangle(n)
    rectangle, half, odd = _rectangle(triangle, n)
    for start in range(0, half, COLUMNS):
        stop = min(start + COLUMNS, half)
        rectangle[start + 1 - odd :, start:stop] = block(slice(start, n), slice(start, stop))
        # The second triangle lies above the first, one column further to the right where n is odd.
        first, last = max(start - odd, 0), stop - odd
        if last > first:
            corner = block(slice(half + first, half + last), slice(half, half + last)).T
            above = np.arange(last)[:, None] <= np.arange(first, last)
            np.copyto(rectangle[:last, first + odd : stop], corner, where=above)
    return triangle


def empty_triangle(n: int) -> np.ndarray:
    """Room for a triangle; its numbers mean nothing yet."""
    return np.empty(n * (n + 1) // 2)


def diagonal(triangle: np.ndarray, n: int) -> np.ndarray:
    """A copy of the diagonal."""
    rectangle, half, odd = _rectangle(triangle, n)
    return np.concatenate([np.diagonal(rectangle, odd - 1)[:half], np.diagonal(rectangle, odd)[: n - half]])


def add_to_diagonal(triangle: np.ndarray, n: int, value: float) -> None:
    """Add a number to every diagonal entry, in place."""
    rectangle, half, odd = _rectangle(triangle, n)
    first, second = np.arange(half), np.arange(n - half)
    rectangle[first + 1 - odd, first] += value
    rectangle[second, second + odd] += value


def add_outer(triangle: np.ndarray, n: int, rows: np.ndarray, fresh: bool) -> None:
    """Add ``rows rows^T`` (rows: n x k, float64, C order) in place; ``fresh`` overwrites what was there."""
    beta = 0.0 if fresh else 1.0
    done = lapack.dsfrk(n, rows.shape[1], 1.0, rows.T, beta, triangle, transr="N", uplo="L", trans="T", overwrite_c=1)
    _in_place(done, triangle)


def factor(triangle: np.ndarray, n: int) -> int:
    """Cholesky in place. 0, or the place (from 1) of the first pivot that is not positive: then all is lost."""
    done, info = lapack.dpftrf(n, triangle, transr="N", uplo="L", overwrite_a=1)
    _in_place(done, triangle)
    return int(info)


def solve(factored: np.ndarray, n: int, targets: np.ndarray) -> np.ndarray:
    """The solutions X of A X = targets (n x k), from the factored triangle."""
    solution, info = lapack.dpftrs(n, factored, np.array(targets, order="F"), transr="N", uplo="L", overwrite_b=1)
    if info:
        raise TrueriskError(f"LAPACK refused argument {-info} of a packed solve; give one row of targets per example.")
    return solution


def _rectangle(triangle: np.ndarray, n: int) -> tuple[np.ndarray, int, int]:
    """A view of the triangle as LAPACK's column-major rectangle, its number of columns, and whether n is odd."""
    half, odd = (n + 1) // 2, n % 2
    return triangle.reshape(half, n + 1 - odd).T, half, odd


def _in_place(done: np.ndarray, triangle: np.ndarray) -> None:
    """Overwriting is a wish that the wrapper may refuse; a silent copy would need twice the memory and lose it."""
    if not np.shares_memory(done, triangle):
        raise TrueriskError("the triangle was copied; give a contiguous float64 array.")
