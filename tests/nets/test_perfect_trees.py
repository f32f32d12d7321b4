"""Perfect random trees: against trees that are walked and checked node by node, and against exact probabilities."""

import numpy as np
import pytest

import truerisk.nets.perfect_trees as module
from truerisk.errors import TrueriskError
from truerisk.nets.perfect_trees import perfect_trees


def walk(forest, root, x):
    """The class that one tree gives to one input, step by step."""
    node = root
    while forest.left[node] >= 0:
        node = forest.left[node] + int(float(x[forest.feature[node]]) > forest.threshold[node])
    return forest.label[node]


def check_node(forest, node, X, y):
    """All examples of a node, down to its leaves: pure leaves, and splits between examples of different classes."""
    if forest.left[node] < 0:
        assert set(y) == {forest.label[node]}
        return 1
    feature, t = forest.feature[node], forest.threshold[node]
    values = X[:, feature].astype(np.float64)
    low, high = (
        {k for k, v in zip(y, values, strict=True) if v <= t},
        {k for k, v in zip(y, values, strict=True) if v > t},
    )
    assert low
    assert high
    assert len(low | high) > 1, "two examples of different classes are on different sides"
    right = values > t
    left = forest.left[node]
    return check_node(forest, left, X[~right], y[~right]) + check_node(forest, left + 1, X[right], y[right])


@pytest.fixture(scope="module")
def noisy():
    """Labels that mean nothing, ties in every feature, float32."""
    rng = np.random.default_rng(0)
    X = np.unique(rng.integers(0, 6, (150, 5)), axis=0).astype(np.float32)
    return X, rng.integers(0, 4, len(X)), rng.normal(3, 2, (40, 5)).astype(np.float32)


def test_every_tree_is_a_perfect_random_tree(noisy):
    X, y, _ = noisy
    forest = perfect_trees(X, y, 6, seed=1)
    for root in forest.roots:
        assert check_node(forest, root, X, y) > 50
    assert (forest.labels(X) == y).all()
    assert (forest.predict(X) == y).all()


def test_labels_and_votes_against_a_walk(noisy):
    X, y, new = noisy
    forest = perfect_trees(X, y, 7, seed=2)
    slow = np.array([[walk(forest, root, x) for x in new] for root in forest.roots])
    assert (forest.labels(new) == slow).all()
    votes = [[list(column).count(k) for k in range(4)] for column in slow.T]
    assert forest.votes(new).tolist() == votes
    assert forest.predict(new).tolist() == [row.index(max(row)) for row in votes]


def test_pairs_of_different_classes_are_equally_likely():
    """0: A, 1: B, 2 and 3: C. Of five pairs, three start at 0; uniform shares put a split below 1 in 11/30 of trees.

    Drawing one example first and a partner afterwards would give 0.340; 20,000 trees have a standard error of 0.0034.
    """
    forest = perfect_trees(np.arange(4.0)[:, None], np.array([0, 1, 2, 2]), 20_000, seed=3)
    share = np.mean(forest.threshold[forest.roots] < 1)
    assert share == pytest.approx(11 / 30, abs=0.012)  # 3.5 standard errors


@pytest.mark.parametrize("patience", [module.PATIENCE, 0])
def test_the_whole_tree_against_a_recursive_one(patience, monkeypatch):
    """How often a point gets each class, in 1,500 fast and 1,500 slow trees; ties and uneven classes.

    With a patience of 0, every node is treated as one whose features hardly vary: the probabilities are the same.
    """
    monkeypatch.setattr(module, "PATIENCE", patience)
    rng = np.random.default_rng(4)
    X = np.array([[0, 0], [0, 1], [1, 1], [2, 0], [2, 2], [3, 1]], float)
    y = np.array([0, 0, 1, 1, 1, 2])

    def slow(rows, x):
        if len(set(y[rows])) == 1:
            return y[rows[0]]
        while True:
            i, j, f, a = rng.choice(rows), rng.choice(rows), rng.integers(2), rng.random()
            if y[i] != y[j] and X[i, f] != X[j, f]:
                t = a * X[i, f] + (1 - a) * X[j, f]
                return slow([r for r in rows if (X[r, f] <= t) == (x[f] <= t)], x)

    point = np.array([1.3, 0.6])
    by_hand = np.bincount([slow(list(range(6)), point) for _ in range(1500)], minlength=3) / 1500
    fast = perfect_trees(X, y, 1500, seed=5).votes(point[None])[0] / 1500
    assert np.abs(fast - by_hand).max() < 0.064  # 3.5 standard errors of the difference
    assert fast.min() > 0.02


def test_equal_inputs_with_different_labels_end_in_a_leaf():
    X = np.array([[1.0, 2.0]] * 5 + [[3.0, 2.0]])
    forest = perfect_trees(X, np.array([2, 1, 1, 2, 0, 0]), 4)
    assert (forest.labels(X)[:, :5] == 1).all(), "of the two most frequent labels, the smaller"
    assert (forest.labels(X)[:, 5] == 0).all()
    only = perfect_trees(np.ones((3, 2)), np.array([1, 0, 1]), 2)
    assert only.predict(np.zeros((1, 2))).tolist() == [1]


def test_a_needle_among_constant_features():
    X = np.ones((20, 5000))
    X[:, 1234] = np.arange(20)
    y = np.arange(20) % 2
    forest = perfect_trees(X, y, 3)
    assert (forest.labels(X) == y).all()
    assert set(forest.feature[forest.left >= 0]) == {1234}


def test_rows_of_the_identity():
    """Two examples differ in two of all features: rejection alone would take very long."""
    y = np.random.default_rng(0).integers(0, 3, 120)
    forest = perfect_trees(np.eye(120), y, 2)
    assert (forest.labels(np.eye(120)) == y).all()
    assert len(set(forest.feature[forest.left >= 0])) > 50


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1], [2], [3], [4]]),
        np.array([[-1e308], [1e308], [1.7e308], [-1.7e308]]),
        np.array([[1.0], [np.nextafter(1, 2)], [np.nextafter(1, 0)], [2.0]]),
        np.array([[1], [np.nextafter(np.float32(1), np.float32(2))], [3], [4]], np.float32),
        np.arange(16, dtype=np.float32).reshape(4, 1, 2, 2),
        np.array([[True], [False], [True], [False]]),
    ],
    ids=["integers", "huge", "neighbors", "float32 neighbors", "images", "booleans"],
)
def test_odd_inputs_are_fitted(X):
    y = np.array([0, 1, 0, 1])
    for seed in range(20):
        assert (perfect_trees(X, y, 5, seed).labels(X) == y).all()


def test_one_class_is_one_leaf_and_classes_may_be_missing():
    one = perfect_trees(np.zeros((3, 2)), np.zeros(3, int), 2)
    assert len(one.left) == 2
    forest = perfect_trees(np.arange(4.0)[:, None], np.array([1, 1, 6, 6]), 2, classes=9)
    assert forest.votes(np.array([[0.0]])).tolist() == [[0, 2, 0, 0, 0, 0, 0, 0, 0]]


def test_the_seed_decides_and_parts_change_nothing_else(noisy, monkeypatch):
    X, y, new = noisy
    first = perfect_trees(X, y, 10, seed=0).labels(new)
    assert (first == perfect_trees(X, y, 10, seed=0).labels(new)).all()
    assert (first != perfect_trees(X, y, 10, seed=1).labels(new)).any()
    monkeypatch.setattr(module, "ENTRIES", 3 * len(X))  # three trees at a time
    parts = perfect_trees(X, y, 10, seed=0)
    assert (parts.labels(X) == y).all()
    assert len(parts.roots) == 10
    assert (parts.labels(new)[:3] != parts.labels(new)[3:6]).any()


@pytest.mark.parametrize(
    ("X", "y", "trees", "said"),
    [
        (np.zeros((3, 1)), np.zeros(2, int), 5, "do not match labels"),
        (np.zeros((0, 1)), np.zeros(0, int), 5, "do not match labels"),
        (np.zeros((2, 1)), np.array([0.0, 1.0]), 5, "one integer label"),
        (np.zeros((2, 1)), np.array([0, -1]), 5, "at least 0"),
        (np.array([[0.0], [np.nan]]), np.array([0, 1]), 5, "missing or infinite"),
        (np.array([[0.0], [np.inf]]), np.array([0, 1]), 5, "missing or infinite"),
        (np.zeros((2, 0)), np.array([0, 1]), 5, "no features"),
        (np.zeros((2, 1)), np.array([0, 1]), 0, "at least 1"),
    ],
)
def test_refusals(X, y, trees, said):
    with pytest.raises(TrueriskError, match=said):
        perfect_trees(X, y, trees)
