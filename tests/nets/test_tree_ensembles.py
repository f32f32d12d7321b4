"""Tree ensembles: boosting against stumps found by trying every threshold, and trees at their limits."""

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets.tree_ensembles import boosted_scores, tree_scores

RNG = np.random.default_rng(0)
X = np.sort(RNG.random(25))[:, None]
Y = np.eye(3)[RNG.integers(0, 3, 25)]
NEW = RNG.random((10, 1))


def stump(x, residuals, new):
    """The best split in two, by trying all of them."""
    best = None
    for i in range(1, len(x)):
        parts = residuals[:i], residuals[i:]
        loss = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
        if best is None or loss < best[0]:
            best = loss, (x[i - 1] + x[i]) / 2, parts[0].mean(axis=0), parts[1].mean(axis=0)
    _, t, left, right = best
    return np.array([left if v <= t else right for v in new])


def test_boosting_against_all_thresholds():
    """With one feature nothing is random: f_m = f_(m-1) + 0.85 t_m, where t_m is the best stump for the residuals."""
    x, fitted, scores, slow = X[:, 0], np.zeros_like(Y), np.zeros((10, 3)), {}
    for k in range(1, 8):
        residuals = Y - fitted
        fitted = fitted + 0.85 * stump(x, residuals, x)
        scores = scores + 0.85 * stump(x, residuals, NEW[:, 0])
        slow[k] = fitted, scores
    for k, found in zip((1, 3, 7), boosted_scores(X, Y, [X, NEW], [1, 3, 7], seed=0, leaves=2), strict=True):
        assert found.leaves == 2 * k
        for fast, by_hand in zip(found.outputs, slow[k], strict=True):
            assert np.allclose(fast, by_hand, atol=1e-9)


def test_a_tree_of_two_leaves_is_the_best_stump_and_a_full_one_fits():
    assert np.allclose(tree_scores(X, Y, [NEW], 2, seed=0).outputs[0], stump(X[:, 0], Y, NEW[:, 0]))
    full = tree_scores(X, Y, [X], None, seed=0)
    assert (full.outputs[0] == Y).all()
    assert tree_scores(X, Y, [X], full.leaves + 5, seed=0).leaves == full.leaves
    assert tree_scores(X, Y, [X], full.leaves - 3, seed=0).leaves == full.leaves - 3


def test_trees_differ_by_their_seed_alone():
    wide = RNG.random((60, 16))
    targets = np.eye(2)[RNG.integers(0, 2, 60)]
    one, again, other = (tree_scores(wide, targets, [RNG2], 8, seed).outputs[0] for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


RNG2 = np.random.default_rng(1).random((50, 16))


def test_equal_inputs_keep_their_mean():
    found = tree_scores(np.ones((4, 2)), np.eye(2)[[0, 1, 1, 1]], [np.ones((1, 2))], None, seed=0)
    assert found.outputs[0].tolist() == [[0.25, 0.75]]
    assert found.leaves == 1
    one = boosted_scores(np.ones((4, 1)), np.ones((4, 1)), [np.ones((1, 1))], [2], seed=0, rate=0.5)[0]
    assert one.outputs[0].tolist() == [[0.75]]  # a single column of targets


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tree_scores(X[:, 0], Y, [X], None, 0), "do not match"),
        (lambda: tree_scores(X[:5], Y, [X], None, 0), "do not match"),
        (lambda: tree_scores(X, Y, [X], 1, 0), "at least 2"),
        (lambda: boosted_scores(X, Y, [X], [3, 2], 0), "increasing"),
        (lambda: boosted_scores(X, Y, [X], [], 0), "increasing"),
        (lambda: boosted_scores(X, Y, [X], [1], 0, rate=0.0), "above 0"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(TrueriskError, match=said):
        call()
