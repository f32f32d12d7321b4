"""PERT, perfect random tree ensembles (Cutler and Zhao 2001): random trees that fit every training label.

To split a node, PERT draws two of its training examples i and j of different classes and a feature f, all at random,
and splits at

    t = a x_if + (1 - a) x_jf,   a uniform on (0, 1);

examples with x_f <= t go left. Nodes are split until they are pure, and every tree sees all examples (no bootstrap).
No split looks at labels beyond the draw of i and j, so a tree is weak, but trees are nearly independent of each other.
scikit-learn's ``ExtraTreesClassifier(max_features=1)`` is not PERT: it draws t between the extremes of a node.

If i and j agree in f, all three are drawn again, until they differ. A node whose examples are all identical, with
different labels, cannot be split by any tree: it becomes a leaf with its most frequent label (of ties, the smallest),
and its other examples are missed. In all other cases the training error of each tree, and so of their vote, is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.seeds import derive

ENTRIES = 2**21  # examples times trees that are grown at once: some 200 MB
PATIENCE = 32  # draws of a split for all nodes at once, before those that are left are treated one by one


@dataclass(frozen=True)
class PerfectTrees:
    """Trees in flat arrays: node k splits ``feature[k]`` at ``threshold[k]``, with children ``left[k]`` and the next.

    A leaf has ``left`` -1 and its class in ``label``. ``roots`` are the nodes where trees start.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    label: np.ndarray
    roots: np.ndarray
    classes: int

    def labels(self, inputs: np.ndarray) -> np.ndarray:
        """The class that each tree gives to each input: one row per tree."""
        X = _rows(inputs)
        found = np.empty(len(self.roots) * len(X), np.int64)
        at, node = np.arange(len(found)), np.repeat(self.roots, len(X))
        while len(at):
            done = self.left[node] < 0
            found[at[done]] = self.label[node[done]]
            at, node = at[~done], node[~done]
            node = self.left[node] + (X[at % len(X), self.feature[node]] > self.threshold[node])
        return found.reshape(len(self.roots), len(X))

    def votes(self, inputs: np.ndarray) -> np.ndarray:
        """How many trees vote for each class: one row per input."""
        labels = self.labels(inputs)
        places = np.arange(labels.shape[1]) * self.classes + labels
        counts = np.bincount(places.ravel(), minlength=labels.shape[1] * self.classes)
        return counts.reshape(-1, self.classes)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """The class with the most votes; of ties, the smallest."""
        return np.asarray(self.votes(inputs).argmax(axis=1))


def perfect_trees(
    inputs: np.ndarray, labels: np.ndarray, trees: int = 100, seed: int = 0, classes: int | None = None
) -> PerfectTrees:
    """Grow an ensemble of ``trees`` perfect random trees; inputs may have any shape per example.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> forest = perfect_trees(X, y, trees=5)
    >>> forest.predict(X).tolist(), forest.votes(X).min(axis=1).tolist()
    ([0, 1, 0, 1], [0, 0, 0, 0])
    """
    X, y = _rows(inputs), np.asarray(labels)
    if y.shape != (len(X),) or not len(X) or not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise TrueriskError(
            f"inputs of shape {np.shape(inputs)} do not match labels of shape {np.shape(labels)}; give one integer "
            "label of at least 0 for each input."
        )
    if not (isinstance(trees, int) and trees >= 1):
        raise TrueriskError(f"trees is {trees!r}, but must be an integer of at least 1; try trees=100.")
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order].astype(np.int64)
    each = max(1, ENTRIES // len(X))
    parts, roots, nodes = [], [], 0
    for first in range(0, trees, each):
        some = min(each, trees - first)
        feature, threshold, left, label = _grown(X, y, some, derive(seed, "perfect trees", first))
        parts.append((feature, threshold, np.where(left < 0, left, left + nodes), label))
        roots.append(nodes + np.arange(some))
        nodes += len(left)
    feature, threshold, left, label = (np.concatenate(column) for column in zip(*parts, strict=True))
    count = int(y[-1]) + 1 if classes is None else classes
    return PerfectTrees(feature, threshold, left, label, np.concatenate(roots), count)


def _rows(inputs: np.ndarray) -> np.ndarray:
    X = np.asarray(inputs)
    X = X.reshape(len(X), int(np.prod(X.shape[1:]))) if X.ndim else X.reshape(1, 1)
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    if not X.shape[1] or not np.isfinite(X).all():
        raise TrueriskError("the inputs have missing or infinite values, or no features; replace or remove these rows.")
    return X


def _grown(X: np.ndarray, y: np.ndarray, trees: int, seed: int) -> list[np.ndarray]:
    """Feature, threshold, left child, and label of every node of these trees, level by level.

    All trees grow at once. ``rows`` lists the examples of all nodes of a level, node after node, by class within each.
    """
    rng = np.random.default_rng(seed)
    rows, sizes = np.tile(np.arange(len(X)), trees), np.full(trees, len(X))
    levels, total = [], 0
    while len(sizes):
        starts = np.cumsum(sizes) - sizes
        label = y[rows[starts]]
        feature, threshold, left = np.zeros(len(sizes), np.int64), np.zeros(len(sizes)), np.full(len(sizes), -1)
        impure = np.flatnonzero(label != y[rows[starts + sizes - 1]])
        inside = np.repeat(np.isin(np.arange(len(sizes)), impure, assume_unique=True), sizes)
        level = _Level(X, y, rows[inside], sizes[impure])
        feature[impure], threshold[impure], split = level.splits(rng)
        label[impure[~split]] = [level.most_frequent(int(k)) for k in np.flatnonzero(~split)]
        impure = impure[split]
        left[impure] = total + len(sizes) + 2 * np.arange(len(impure))
        levels.append((feature, threshold, left, label))
        total += len(sizes)
        rows, sizes = level.parted(feature[impure], threshold[impure], split)
    return [np.concatenate(column) for column in zip(*levels, strict=True)]


class _Level:
    """The impure nodes of one level, and the splits that they draw."""

    def __init__(self, X: np.ndarray, y: np.ndarray, rows: np.ndarray, sizes: np.ndarray) -> None:
        self.X, self.y, self.rows, self.sizes = X, y, rows, sizes
        self.starts = np.cumsum(sizes) - sizes
        node = np.repeat(np.arange(len(sizes)), sizes)
        # Blocks of equal node and class. An example is first of a pair as often as it has partners outside its block.
        new = np.ones(len(rows), bool)
        new[1:] = (node[1:] != node[:-1]) | (y[rows[1:]] != y[rows[:-1]])
        first = np.flatnonzero(new)
        length = np.diff(np.append(first, len(rows)))
        block = np.cumsum(new) - 1
        self.block_start, self.block_size = first[block], length[block]
        self.pairs = np.cumsum(np.repeat(sizes, sizes) - self.block_size)

    def splits(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Feature and threshold for each node, and whether it can be split at all."""
        nodes = len(self.sizes)
        feature, threshold, split = np.zeros(nodes, np.int64), np.zeros(nodes), np.ones(nodes, bool)
        waiting = np.arange(nodes)
        for _ in range(PATIENCE):
            one, other = self._pair(waiting, rng)
            f = rng.integers(self.X.shape[1], size=len(waiting))
            good = self.X[one, f] != self.X[other, f]
            feature[waiting[good]] = f[good]
            threshold[waiting[good]] = self._between(one[good], other[good], f[good], rng)
            waiting = waiting[~good]
            if not len(waiting):
                return feature, threshold, split
        for node in waiting:
            found = self._patient(int(node), rng)
            split[node] = found is not None
            if found is not None:
                one, other, f = (np.array([part]) for part in found)
                feature[node], threshold[node] = f[0], self._between(one, other, f, rng)[0]
        return feature, threshold, split

    def _between(self, one: np.ndarray, other: np.ndarray, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Uniform between two examples; rounding must not bring them to the same side again."""
        low, high = np.sort([self.X[one, f].astype(np.float64), self.X[other, f].astype(np.float64)], axis=0)
        share = rng.random(len(f))
        t = share * low + (1 - share) * high
        return np.where(t < high, t, low)

    def _patient(self, node: int, rng: np.random.Generator) -> tuple[int, int, int] | None:
        """A pair and a feature in which it differs, with the same probabilities; None where all examples are equal.

        A pair is accepted in proportion to the number of features in which it differs. That is at most twice the
        largest number in which an example differs from the medians: for sparse inputs far fewer than all.
        """
        X = self.X[self._members(node)]
        varying = np.flatnonzero(np.not_equal(X, X[0]).any(axis=0))
        if not len(varying):
            return None
        X = X[:, varying]
        most = min(len(varying), 2 * int(np.not_equal(X, np.median(X, axis=0)).sum(axis=1).max()))
        while True:
            one, other = (int(part[0]) for part in self._pair(np.array([node]), rng))
            differ = varying[self.X[one, varying] != self.X[other, varying]]
            if rng.random() * most < len(differ):
                return one, other, int(rng.choice(differ))

    def _pair(self, nodes: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two examples of different classes in each node, every pair with the same probability."""
        start, size = self.starts[nodes], self.sizes[nodes]
        before = np.where(start > 0, self.pairs[start - 1], 0)
        drawn = before + rng.integers(self.pairs[start + size - 1] - before)
        one = np.searchsorted(self.pairs, drawn, side="right")
        other = start + rng.integers(size - self.block_size[one])
        other += np.where(other >= self.block_start[one], self.block_size[one], 0)
        return self.rows[one], self.rows[other]

    def _members(self, node: int) -> np.ndarray:
        return self.rows[self.starts[node] : self.starts[node] + self.sizes[node]]

    def most_frequent(self, node: int) -> int:
        return int(np.bincount(self.y[self._members(node)]).argmax())

    def parted(self, feature: np.ndarray, threshold: np.ndarray, split: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The examples of the children, left before right, and how many each child has; classes stay in order."""
        rows, sizes = self.rows[np.repeat(split, self.sizes)], self.sizes[split]
        node = np.repeat(np.arange(len(sizes)), sizes)
        right = self.X[rows, feature[node]] > threshold[node]
        many = np.bincount(2 * node + right, minlength=2 * len(sizes))
        return rows[np.argsort(2 * node + right, kind="stable")], many
