"""Snapshots: against a plain loop with the published rate, and their shape."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import mlp
from truerisk.plan import Plan
from truerisk.seeds import derive, seeded_globals
from truerisk.training.snapshots import snapshots

RNG = np.random.default_rng(0)
DATA = Data("toy", RNG.normal(size=(30, 3)).astype(np.float32), RNG.integers(0, 2, 30), classes=2)
PLAN = Plan(epochs=6, batch_size=10, optimizer="sgd", lr=0.3, momentum=0.9, seed=4)


def net():
    torch.manual_seed(0)
    return mlp((3,), 2, (5,))


def plain(cycles):
    """The same batches, the rate a / 2 (cos(pi t / T) + 1) of Huang et al., and momentum by hand."""
    module, X, y = net(), torch.from_numpy(DATA.X), torch.from_numpy(DATA.y)
    found, length = [], PLAN.epochs // cycles
    for cycle in range(cycles):
        speed = [torch.zeros_like(p) for p in module.parameters()]
        for epoch in range(length):
            with seeded_globals(derive(derive(PLAN.seed, "cycle", cycle), "epoch", epoch)):
                batches = torch.randperm(30).tensor_split(3)
            for step, batch in enumerate(batches):
                rate = PLAN.lr / 2 * (math.cos(math.pi * (3 * epoch + step) / (3 * length)) + 1)
                grads = torch.autograd.grad(F.cross_entropy(module(X[batch]), y[batch]), list(module.parameters()))
                with torch.no_grad():
                    for p, v, g in zip(module.parameters(), speed, grads, strict=True):
                        v.mul_(0.9).add_(g)
                        p.sub_(rate * v)
        found.append([p.detach().clone() for p in module.parameters()])
    return found


@pytest.mark.parametrize("cycles", [1, 2, 3])
def test_against_a_plain_loop(cycles):
    for found, slow in zip(snapshots(net(), DATA, PLAN, cycles), plain(cycles), strict=True):
        for p, q in zip(found.parameters(), slow, strict=True):
            assert torch.allclose(p, q, atol=1e-5)


def test_snapshots_are_copies_and_the_last_is_the_network():
    module = net()
    found = snapshots(module, DATA, PLAN, 3)
    weights = [next(iter(one.parameters())) for one in found]
    assert (weights[0] != weights[1]).any()
    assert (weights[2] == next(iter(module.parameters()))).all()
    assert weights[2] is not next(iter(module.parameters()))
    assert not any(one.training for one in found)


@pytest.mark.parametrize(
    ("plan", "cycles", "said"),
    [
        (PLAN, 4, "6 epochs do not divide into 4 cycles"),
        (PLAN, 0, "at least 1"),
        (Plan(epochs=6, schedule="constant"), 2, "cosine"),
        (Plan(epochs=6, target_loss=0.1), 2, "target loss"),
    ],
)
def test_refusals(plan, cycles, said):
    with pytest.raises(TrueriskError, match=said):
        snapshots(net(), DATA, plan, cycles)
