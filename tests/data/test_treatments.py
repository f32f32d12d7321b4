"""Random labels: uniform, independent of everything else, and marked as such."""

import numpy as np
import pytest
from scipy import stats

from truerisk.data import load, random_labels, shuffle
from truerisk.data.treatments import _uniform
from truerisk.errors import TrueriskError


def test_random_labels_change_labels_only():
    data = load("digits")
    treated = random_labels(data, seed=3)
    assert treated.X is data.X
    assert treated.classes == 10
    assert treated.source is None
    assert treated.name == "digits with random labels"
    assert "seed 3" in treated.note
    assert np.array_equal(treated.y, random_labels(data, seed=3).y)
    assert not np.array_equal(treated.y, random_labels(data, seed=4).y)
    assert treated.sha256 != data.sha256
    with pytest.raises(TrueriskError, match="seed"):
        random_labels(data, seed=-1)


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_labels_are_uniform_and_do_not_follow_the_shuffle(classes):
    # Two chi-squared tests per case, each with a false-alarm rate of 1e-6; the seeds are fixed.
    n = 50_000
    labels = _uniform(classes, n, seed=0)
    assert stats.chisquare(np.bincount(labels, minlength=classes)).pvalue > 1e-6
    first = labels[shuffle(n, seed=0)[: n // 2]]
    assert stats.chisquare(np.bincount(first, minlength=classes)).pvalue > 1e-6
