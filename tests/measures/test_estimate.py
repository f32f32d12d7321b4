"""What is told before the expensive passes."""

from __future__ import annotations

import re

import pytest
import torch
from measures.cases import build, mlp

from truerisk.measures import Subject
from truerisk.measures.estimate import estimate


def test_bytes_by_hand(images):
    """A 64-12-3 network without biases in float64: 804 weights of 8 bytes."""
    weights, classes, n = 64 * 12 + 12 * 3, 3, 60
    net = build("mlp without biases")
    found = estimate(Subject(net, images, rows=20))
    assert (found.rows, found.sample) == (20, 20)
    assert found.chunk == 20 * 2 * 8 * weights
    assert found.kept == 8 * (2 * weights + 2 * 64 * 12 + n * classes)
    assert found.seconds > 0
    twice = estimate(Subject(net, images, build("mlp without biases", 1), rows=20))
    assert twice.kept - found.kept == 8 * 2 * weights


@pytest.mark.parametrize("budget", [1, 10**5, 10**9])
def test_chunks_fit_into_the_budget(images, budget):
    """As many examples as fit, all of them at most, one at least."""
    found = estimate(Subject(build("mlp without biases"), images, rows=20, budget=budget))
    each = 2 * 8 * 804
    assert found.rows == max(1, min(20, budget // each))
    assert found.chunk <= max(budget, each)


def test_the_sentence(images):
    with torch.random.fork_rng(devices=[]):
        sentence = estimate(Subject(mlp(64, 4000, 3).float(), images, rows=20, budget=10**7)).sentence
    assert re.fullmatch(
        r"measuring takes up to \d+ MiB of memory \(gradients of 4 of 20 examples at a time\) and about \d+ seconds",
        sentence,
    )
