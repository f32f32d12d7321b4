"""Documents with Zipf frequencies: counts, odds, and labels that follow the weights."""

import numpy as np
import pytest

from truerisk.data.zipf import zipf_documents
from truerisk.errors import TrueriskError


def test_documents():
    made = zipf_documents(4000, 30, 8, seed=1)
    assert (made.counts.sum(axis=1) == 8).all()
    odds = 1 / np.arange(1, 31)
    expected = 4000 * 8 * odds / odds.sum()
    assert (np.abs(made.counts.sum(axis=0) - expected) < 5 * np.sqrt(expected)).all()
    assert set(made.weights) == {-1.0, 1.0}
    z = made.counts @ made.weights
    for low, high in ((-9, -2), (-1, 0), (2, 9)):
        some = (z >= low) & (z <= high)
        mean = (1 / (1 + np.exp(-z[some]))).mean()
        assert made.labels[some].mean() == pytest.approx(mean, abs=4 * 0.5 / np.sqrt(some.sum()))
    assert made.occurrences[3] == sum(row[3] > 0 for row in made.counts)


def test_seeds_and_refusals():
    assert (zipf_documents(9, 5, 3, seed=0).counts == zipf_documents(9, 5, 3, seed=0).counts).all()
    assert (zipf_documents(9, 5, 3, seed=0).counts != zipf_documents(9, 5, 3, seed=1).counts).any()
    with pytest.raises(TrueriskError, match="cannot be drawn"):
        zipf_documents(9, 1, 3, seed=0)
