"""Symmetric matrices for tests: positive definite ones, and a `Triangle` written out entry by entry."""

from __future__ import annotations

import numpy as np

from truerisk.nets.triangle import Triangle


def positive(n: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, n + 3))
    return root @ root.T / n


def full(triangle: Triangle) -> np.ndarray:
    """The whole matrix, entry by entry from the lower triangle."""
    matrix = np.empty((triangle.n, triangle.n))
    for span, panel in zip(triangle.spans(), triangle.panels, strict=True):
        for j in range(span.start, span.stop):
            for i in range(j, triangle.n):
                matrix[i, j] = matrix[j, i] = panel[i - span.start, j - span.start]
    return matrix
