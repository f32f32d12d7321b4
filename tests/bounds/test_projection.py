"""Compression by random projections: the formula against loops, and compression done for real."""

from __future__ import annotations

import math

import numpy as np
import pytest

from truerisk import TrueriskError
from truerisk.bounds import ProjectedLayer, arora_2018

DELTA = 0.05


def plain_numbers(margins, lengths, layers, delta, n):
    """k of each layer, from rows of the kept examples; layers are tuples (rows, entries, F, s, rho, biases)."""
    d, found = len(layers), []
    total_rows = sum(layer[0] for layer in layers)
    for i, (rows, entries, F, s, rho, _) in enumerate(layers):
        t = s / (d * F)
        for m, z in zip(margins, lengths, strict=True):
            rest = rho
            for later in layers[i + 1 :]:
                rest *= later[4] * (1 + 1 / d) * later[3]
            if z[i] > 0:
                t = min(t, m / (math.sqrt(2) * d * F * z[i] * rest))
        eps = (t - entries * 2**-53) / math.sqrt(rows)
        found.append(math.ceil(math.log(4 * n * total_rows / delta) / (eps**2 / 4 - eps**3 / 6)))
    return found


LAYERS = [(7, 35, 3.0, 1.5, 1.0, 7), (4, 28, 2.0, 1.2, 2.0, 0), (3, 12, 2.5, 2.0, 1.0, 3)]


def test_against_loops():
    """The share of examples that stays is the best of forty, or, above 1, the best that loses at most half."""
    rng = np.random.default_rng(0)
    margins, lengths = rng.normal(3, 2, 200), rng.uniform(0.5, 2, (200, 3))
    bound, numbers = arora_2018(margins, lengths, [ProjectedLayer(*layer) for layer in LAYERS], DELTA)
    order = sorted(range(200), key=lambda i: -margins[i])
    right = sum(m > 0 for m in margins)
    options = []
    for part in range(1, 41):
        kept = order[: math.ceil(right * part / 40)]
        k = plain_numbers([margins[i] for i in kept], [lengths[i] for i in kept], LAYERS, DELTA / 2, 200)
        bits = 64 * (sum(k) + 10)
        nats = bits * math.log(2) + sum(math.log(x * (x + 1)) for x in k) + math.log(2 / DELTA)
        loss = 1 - len(kept) / 200
        if loss <= 0.5 * (2 - right / 200):
            options.append((loss + math.sqrt(nats / 400), k))
    value, k = min(options)
    assert bound.value == pytest.approx(value, rel=1e-7)
    assert numbers == pytest.approx(k, rel=1e-7)


def test_it_can_say_something():
    """One number, margins that nothing can move, a million examples."""
    found, numbers = arora_2018([1.0] * 10**6, [[0.1]] * 10**6, [ProjectedLayer(1, 1, 1.0, 1.0)], DELTA)
    assert found.value < 0.1
    assert numbers[0] < 1000


@pytest.mark.parametrize("what", ["margins", "frobenius", "spectral", "lipschitz", "biases", "lengths", "delta"])
def test_each_part_makes_it_worse(what):
    def bound(margin=1.0, frobenius=2.0, spectral=1.0, lipschitz=1.0, biases=0, length=3.0, delta=0.05):
        last = ProjectedLayer(2, 10, frobenius, spectral, lipschitz, biases)
        return arora_2018([margin] * 50, [[length, length]] * 50, [ProjectedLayer(5, 20, 2.0, 1.0), last], delta)[0].log

    worse = {"margins": {"margin": 0.5}, "lengths": {"length": 6.0}, "delta": {"delta": 0.01}, "biases": {"biases": 9}}
    assert bound(**worse.get(what, {what: 4.0})) > bound()


def compressed(matrix, k, rng):
    """(1/k) sum of <A, M> M over k random-sign matrices, a thousand at a time."""
    total = np.zeros(matrix.size)
    for chunk in np.array_split(np.arange(k), max(1, k // 1000)):
        signs = 2.0 * rng.integers(0, 2, (len(chunk), matrix.size)) - 1
        total += signs.T @ (signs @ matrix.ravel())
    return (total / k).reshape(matrix.shape)


def network():
    """Two layers of rank one with a ReLU between, 12 examples that it gets right, what enters each layer."""
    rng = np.random.default_rng(1)
    first = np.outer(np.ones(3), [1.0, -1.0]) / math.sqrt(6)
    second = np.outer([1.0, -1.0], np.ones(3)) / math.sqrt(6)
    X = np.stack([1 + rng.uniform(0, 0.1, 12), rng.uniform(0, 0.05, 12)], axis=1)
    hidden = np.maximum(X @ first.T, 0)
    logits = hidden @ second.T
    lengths = np.stack([np.linalg.norm(X, axis=1), np.linalg.norm(hidden, axis=1)], axis=1)
    return first, second, X, logits[:, 0] - logits[:, 1], lengths


def broken(k, trials=40):
    """In how many trials the compressed network gets one of the examples wrong."""
    first, second, X, _, _ = network()
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(trials):
        one, two = compressed(first, k[0], rng), compressed(second, k[1], rng)
        logits = np.maximum(X @ one.T, 0) @ two.T
        wrong += bool((logits[:, 0] <= logits[:, 1]).any())
    return wrong


def test_so_many_numbers_keep_the_answers_and_few_do_not():
    """An answer may be lost with probability 0.025: six or more of 40 trials have a chance of under 1e-3."""
    first, second, _, margins, lengths = network()
    layers = [ProjectedLayer(3, 6, np.linalg.norm(first), 1.0), ProjectedLayer(2, 6, np.linalg.norm(second), 1.0)]
    found, numbers = arora_2018(margins, lengths, layers, DELTA)
    assert found.loss <= 0.5
    k = plain_numbers(margins, lengths, [(3, 6, 1.0, 1.0, 1.0, 0), (2, 6, 1.0, 1.0, 1.0, 0)], DELTA / 2, 12)
    assert all(ours <= whole for ours, whole in zip(numbers, k, strict=True))
    assert broken(k) < 6
    assert broken([3, 3]) >= 6


def test_a_product_of_norms_that_nothing_survives():
    deep = [ProjectedLayer(9, 81, 1e60, 1e60)] * 4
    found, numbers = arora_2018([1.0] * 20, [[1.0] * 4] * 20, deep, DELTA)
    assert found.value == math.inf
    assert math.inf in numbers


@pytest.mark.parametrize(
    ("margins", "lengths", "words"),
    [
        ([1.0, 2.0], [[1.0]], "same examples"),
        ([1.0, 2.0], [[1.0, 1.0]] * 2, "one column per layer"),
        ([1.0, 2.0], [[-1.0]] * 2, "finite"),
        ([-1.0, 0.0], [[1.0]] * 2, "no example is right"),
    ],
)
def test_bad_input(margins, lengths, words):
    with pytest.raises(TrueriskError, match=words):
        arora_2018(margins, lengths, [ProjectedLayer(1, 1, 1.0, 1.0)], DELTA)
