"""Alignment of weights with data, against covariances written out and scipy's rank correlation."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from truerisk.errors import TrueriskError
from truerisk.measures.alignment import alignment, rank_correlation


def test_against_plain_loops():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 5)), rng.standard_normal((5, 30))
    centered = X - X.mean(axis=0)
    values, vectors = np.linalg.eig(sum(np.outer(x, x) for x in centered) / 199)
    order = np.argsort(-values)
    mean = W.mean(axis=1)
    slow = [np.mean([((W[:, j] - mean) @ vectors[:, i]) ** 2 for j in range(30)]) for i in order]
    found = alignment(W, X)
    assert found.eigenvalues == pytest.approx(values[order])
    assert found.variances == pytest.approx(slow)
    assert found.correlation == pytest.approx(spearmanr(values[order], slow).statistic)


def test_a_rotation_of_data_and_weights_changes_nothing():
    rng = np.random.default_rng(1)
    X, W = rng.standard_normal((100, 4)) * [1, 2, 3, 4], rng.standard_normal((4, 20))
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert alignment(Q.T @ W, X @ Q).variances == pytest.approx(alignment(W, X).variances)


def test_directions_without_variance_do_not_count():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.standard_normal((50, 4)), np.ones((50, 3))])
    assert len(alignment(rng.standard_normal((7, 9)), X).eigenvalues) == 4


def test_ties():
    a, b = np.array([1.0, 1, 2, 3, 3]), np.array([5.0, 2, 2, 9, 1])
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation(a, np.ones(5)) == 0.0


def test_refused():
    with pytest.raises(TrueriskError, match="must have 3 rows"):
        alignment(np.ones((4, 2)), np.eye(3))
    with pytest.raises(TrueriskError, match="at least 3"):
        alignment(np.ones((3, 2)), np.ones((9, 3)))
