"""Votes, margins, and errors of averages: against loops over members and examples."""

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets.votes import average_errors, running_shares, voting_margins

RNG = np.random.default_rng(0)
LABELS, TRUE, WEIGHTS = RNG.integers(0, 4, (12, 30)), RNG.integers(0, 4, 30), RNG.random(12) + 0.1


def share(k, x, c, weights):
    return sum(weights[t] for t in range(k) if LABELS[t, x] == c) / sum(weights[:k])


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_shares_and_margins(weights):
    own = np.ones(12) if weights is None else weights
    for k, shares in zip((1, 5, 12), running_shares(LABELS, 4, (1, 5, 12), weights), strict=True):
        slow = np.array([[share(k, x, c, own) for c in range(4)] for x in range(30)])
        assert np.allclose(shares, slow, atol=1e-12)
        margins = [slow[x, y] - max(slow[x, c] for c in range(4) if c != y) for x, y in enumerate(TRUE)]
        assert np.allclose(voting_margins(shares, TRUE), margins, atol=1e-12)
        right = shares.argmax(axis=1) == TRUE
        assert (right >= (voting_margins(shares, TRUE) > 0)).all()


def test_an_earlier_result_is_not_changed_by_a_later_one():
    first, second = running_shares(LABELS, 4, [1, 2])
    assert set(first.ravel()) == {0.0, 1.0}
    assert set(second.ravel()) > {0.0, 1.0}


def test_errors_of_averages_over_disjoint_groups():
    def error(members):
        votes = [[sum(LABELS[t, x] == c for t in members) for c in range(4)] for x in range(30)]
        return np.mean([row.index(max(row)) != y for row, y in zip(votes, TRUE, strict=True)])

    slow = [np.mean([error(range(i, i + k)) for i in range(0, 12 - k + 1, k)]) for k in (1, 5, 12)]
    assert average_errors(LABELS, TRUE, (1, 5, 12)) == pytest.approx(slow)


def test_probabilities_are_averaged_not_counted():
    sure, unsure = [[0.9, 0.1]], [[0.45, 0.55]]
    assert average_errors(np.array([sure, unsure, unsure]), np.array([0]), [1, 3]) == pytest.approx([2 / 3, 0])


@pytest.mark.parametrize(
    ("at", "weights", "said"),
    [([0, 1], None, "from 1 to 12"), ([2, 1], None, "increasing"), ([13], None, "from 1 to 12"),
     ([], None, "increasing"), ([1], -WEIGHTS, "at least 0"), ([1], WEIGHTS[:5], "12 members"),
     ([1], 0 * WEIGHTS, "above 0")],
)  # fmt: skip
def test_refusals(at, weights, said):
    with pytest.raises(TrueriskError, match=said):
        list(running_shares(LABELS, 4, at, weights))
    if weights is None and at != [2, 1]:
        with pytest.raises(TrueriskError, match="from 1 to 12"):
            average_errors(LABELS, TRUE, at)
