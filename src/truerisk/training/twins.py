"""Twins: the same training twice, on two training sets that differ in one example.

How far are the weights apart, and how different are the losses? Hardt, Recht and Singer (2016) compare the two runs of
SGD on S and on S^i, the set with example i replaced, from the same initial weights and in the same order. Here one run
on S and its twins on many S^i are trained at once, at several learning rates and weight decays: weights have leading
axes (arms, runs), where an arm is a rate with a decay, run 0 learned S, and run k learned the k-th S^i. A step of all
runs is a few batched matrix products. A batch without a replaced example has the same inputs for all runs.

    w <- (1 - rate decay) w - rate (1/|B|) sum over the batch B of the gradients of the cross-entropy

Networks are fully connected ReLU networks; weights without hidden layers are softmax regression, which is convex. All
numbers are float64, since twins may agree in seven digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError

AT_ONCE = 2**22  # numbers of the largest array of an evaluation
Stack = list[np.ndarray]  # weight, bias, weight, bias, ... with leading axes (arms, runs)


class Twins:
    """A run on (X, y) and its twins, in which example ``positions[k]`` is (``X_new[k]``, ``y_new[k]``) instead.

    ``start`` are initial weights and biases, as of `training.swift.uniform_weights`. ``rates`` and ``decays`` have one
    entry for each arm.

    ``reach`` sums what the proof of Hardt et al. sums, along the actual order of examples: a step that uses the
    replaced example adds rate/|B|, and every step multiplies by 1 - rate decay. If the loss is convex with smoothness
    beta, its gradients have norm at most L, and rate <= 2/(beta + 2 decay), then twins are at most 2 L reach apart.

    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    >>> twins = Twins([np.zeros((1, 2)), np.zeros(2)], X, y, [2], X[:1], y[:1], rates=[0.1, 0.05])
    >>> [twins.distances().shape for _ in twins.epochs(4, batch_size=1, seed=0)][-1], twins.reach.ravel().round(9)
    ((2, 1), array([0.4, 0.2]))
    """

    def __init__(
        self,
        start: Sequence[np.ndarray],
        X: np.ndarray,
        y: np.ndarray,
        positions: Sequence[int] | np.ndarray,
        X_new: np.ndarray,
        y_new: np.ndarray,
        *,
        rates: Sequence[float],
        decays: Sequence[float] | None = None,
    ) -> None:
        self.positions = np.asarray(positions, dtype=int)
        self.rates = np.asarray(rates, dtype=np.float64)
        self.decays = np.zeros_like(self.rates) if decays is None else np.asarray(decays, dtype=np.float64)
        self._X, self._X_new = np.asarray(X, np.float64), np.asarray(X_new, np.float64)
        _refuse(self, start, len(y), len(y_new))
        classes = np.eye(start[-1].shape[-1])
        self._targets, self._targets_new = classes[np.asarray(y, int)], classes[np.asarray(y_new, int)]
        runs = (len(self.rates), 1 + len(self.positions))
        self.weights: Stack = [np.broadcast_to(part, (*runs, *part.shape)).astype(np.float64) for part in start]
        self.reach = np.zeros((runs[0], len(self.positions)))
        self._slots = {int(row): k for k, row in enumerate(self.positions)}

    def epochs(self, epochs: int, *, batch_size: int, seed: int) -> Iterator[int]:
        """Train all runs in place; yields the number of finished epochs after each.

        All runs visit the examples in the same order, which derives from the seed and the epoch. Batches are of even
        size, at most ``batch_size``.
        """
        if batch_size < 1:
            raise TrueriskError(f"batch_size is {batch_size}, but must be at least 1; try batch_size=10.")
        n = len(self._X)
        for epoch in range(epochs):
            order = np.random.default_rng(derive(seed, "epoch", epoch)).permutation(n)
            with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is refused below
                for rows in np.array_split(order, math.ceil(n / batch_size)):
                    self._step(rows)
            if not all(np.isfinite(part).all() for part in self.weights):
                raise DivergedError(f"training diverged in epoch {epoch + 1}; lower the learning rates.")
            yield epoch + 1

    def distances(self) -> np.ndarray:
        """|w - w'| of the run on S and each twin, over all weights and biases: shape (arms, twins)."""
        return np.sqrt(sum(self._squares(part[:, :1] - part[:, 1:]) for part in self.weights))

    def normalized(self) -> np.ndarray:
        """|w - w'| / sqrt(|w|^2 + |w'|^2) for each layer, then for all weights: shape (arms, twins, layers + 1).

        Hardt et al. 2016, Section 5 (from memory). Between 0, for equal weights, and sqrt(2), for opposite ones.
        """
        apart = [self._squares(part[:, :1] - part[:, 1:]) for part in self.weights]
        sizes = [self._squares(part) for part in self.weights]
        both = [size[:, :1] + size[:, 1:] for size in sizes]
        layers = [(apart[i] + apart[i + 1], both[i] + both[i + 1]) for i in range(0, len(apart), 2)]
        layers.append((sum(apart), sum(both)))
        return np.stack([np.sqrt(d / np.where(s > 0, s, 1.0)) for d, s in layers], axis=-1)

    def probabilities(self, X: np.ndarray, runs: slice = slice(None)) -> np.ndarray:
        """Probabilities of the classes, by each of the ``runs``: shape (arms, runs, examples, classes)."""
        X, weights = np.asarray(X, np.float64), [part[:, runs] for part in self.weights]
        widest = max(part.shape[-1] for part in weights) * weights[0][..., 0, 0].size
        chunks = np.array_split(X, max(1, min(len(X), math.ceil(len(X) * widest / AT_ONCE))))
        return np.concatenate([_passed(weights, chunk)[1] for chunk in chunks], axis=2)

    def gradient(self, X: np.ndarray, targets: np.ndarray) -> Stack:
        """The gradient of the mean cross-entropy for each run; inputs are common, or have axes (arms, runs) in front.

        ``targets`` are one-hot rows.
        """
        hidden, delta = _passed(self.weights, X)
        delta -= targets
        delta /= X.shape[-2]
        found: Stack = []
        for depth in range(len(self.weights) - 2, -1, -2):
            into = hidden[depth // 2]
            found[:0] = [np.swapaxes(into, -1, -2) @ delta, delta.sum(axis=-2)]
            if depth:
                delta = (delta @ np.swapaxes(self.weights[depth], -1, -2)) * (into > 0)
        return found

    def slopes(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Norms of the per-example gradients of the cross-entropy, for the run on S of each arm: (arms, examples)."""
        weights = [part[:, :1] for part in self.weights]
        hidden, delta = _passed(weights, np.asarray(X, np.float64))
        delta[..., np.arange(len(y)), np.asarray(y, int)] -= 1
        total = np.zeros(delta.shape[:-1])
        for depth in range(len(weights) - 2, -1, -2):
            into = hidden[depth // 2]
            total += (np.square(into).sum(axis=-1) + 1) * np.square(delta).sum(axis=-1)
            if depth:
                delta = (delta @ np.swapaxes(weights[depth], -1, -2)) * (into > 0)
        return np.sqrt(total[:, 0])

    def _step(self, rows: np.ndarray) -> None:
        inputs, targets = self._X[rows], self._targets[rows]
        hit = [(self._slots[row], place) for place, row in enumerate(rows.tolist()) if row in self._slots]
        if hit:  # some twins see another example here
            runs = self.weights[0].shape[:2]
            inputs, targets = (np.broadcast_to(part, (*runs, *part.shape)).copy() for part in (inputs, targets))
            for twin, place in hit:
                inputs[:, 1 + twin, place], targets[:, 1 + twin, place] = self._X_new[twin], self._targets_new[twin]
        gradients = self.gradient(inputs, targets)
        kept = 1 - self.rates * self.decays
        for part, gradient in zip(self.weights, gradients, strict=True):
            shape = (-1,) + (1,) * (part.ndim - 1)
            if self.decays.any():
                part *= kept.reshape(shape)
            gradient *= self.rates.reshape(shape)
            part -= gradient
        self.reach *= kept[:, None]
        for twin, _ in hit:
            self.reach[:, twin] += self.rates / len(rows)

    @staticmethod
    def _squares(part: np.ndarray) -> np.ndarray:
        return np.square(part).sum(axis=tuple(range(2, part.ndim)))


def _passed(weights: Stack, X: np.ndarray) -> tuple[Stack, np.ndarray]:
    """The inputs of each layer, and the probabilities of the classes."""
    hidden = [X]
    for depth in range(0, len(weights), 2):
        out = hidden[-1] @ weights[depth]
        out += weights[depth + 1][..., None, :]
        hidden.append(np.maximum(out, 0, out=out) if depth < len(weights) - 2 else out)
    out = hidden.pop()
    out -= out.max(axis=-1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    return hidden, out


def _refuse(twins: Twins, start: Sequence[np.ndarray], labels: int, new: int) -> None:
    X, X_new, positions = twins._X, twins._X_new, twins.positions
    if X.ndim != 2 or X.shape[1] != len(start[0]) or len(X) != labels or X_new.shape != (new, X.shape[1]):
        raise TrueriskError(
            f"inputs of shapes {X.shape} and {X_new.shape} do not fit {labels} and {new} labels and a network of "
            f"{len(start[0])} inputs; pass one row for each example."
        )
    if len(positions) != new or len(set(positions.tolist())) != new or new < 1:
        raise TrueriskError(f"there are {len(positions)} positions for {new} new examples; give each one of its own.")
    if positions.min() < 0 or positions.max() >= labels:
        raise TrueriskError(f"positions must lie between 0 and {labels - 1}; they count the training examples.")
    if twins.rates.shape != twins.decays.shape or not (twins.rates > 0).all() or not (twins.decays >= 0).all():
        raise TrueriskError("rates must be positive and decays at least 0, one of each for every arm; check both.")
