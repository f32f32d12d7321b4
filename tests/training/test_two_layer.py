"""The written-out gradients against torch's autograd and optimizer, and the ways in which training ends."""

import math

import pytest
import torch
import torch.nn.functional as F

from truerisk.errors import TrueriskError
from truerisk.nets.two_layer import TwoLayer, initial_two_layer
from truerisk.training.two_layer import train_two_layer


def toy(n=50, inputs=6, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, inputs, generator=generator)
    return X, (X @ torch.randn(inputs, classes, generator=generator)).argmax(1)


def slow(start, X, y, lr, epochs, seed, momentum, batch_size, target):
    """Autograd, torch.optim.SGD, and the same order of examples."""
    U, V = start.U.clone().requires_grad_(), start.V.clone().requires_grad_()
    optimizer = torch.optim.SGD([U, V], lr=lr, momentum=momentum)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    while len(losses) < epochs and (not losses or losses[-1] >= target):
        total = 0.0
        for batch in torch.randperm(len(X), generator=generator).tensor_split(math.ceil(len(X) / batch_size)):
            loss = F.cross_entropy(torch.relu(X[batch] @ U.T) @ V.T, y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(X))
    return U.detach(), V.detach(), len(losses), losses[-1]


@pytest.mark.parametrize(("momentum", "batch_size"), [(0.9, 16), (0.0, 64), (0.5, 7)])
def test_training_is_that_of_autograd(momentum, batch_size):
    """In float64, so that rounding stays near 1e-16 times the number of steps."""
    X, y = toy()
    start = initial_two_layer(6, 20, 3, seed=1).double()
    how = {"lr": 0.05, "epochs": 30, "seed": 4, "momentum": momentum, "batch_size": batch_size}
    found = train_two_layer(start, X.double(), y, target_loss=0.1, **how)
    U, V, epochs, loss = slow(start, X.double(), y, target=0.1, **how)
    assert found.epochs == epochs
    assert found.loss == pytest.approx(loss, rel=1e-9)
    assert torch.allclose(found.network.U, U, atol=1e-10)
    assert torch.allclose(found.network.V, V, atol=1e-10)


def test_it_stops_at_the_target_or_at_the_cap_and_says_which():
    X, y = toy()
    start = initial_two_layer(6, 20, 3, seed=1)
    kept = start.U.clone()
    short = train_two_layer(start, X, y, lr=0.1, epochs=3, seed=0)
    assert (short.epochs, short.reached, short.diverged) == (3, False, False)
    assert torch.equal(start.U, kept)  # the start is needed afterwards
    full = train_two_layer(start, X, y, lr=0.1, epochs=2000, seed=0)
    assert full.reached
    assert full.epochs < 2000
    assert float(F.cross_entropy(full.network(X), y)) < 0.011
    again = train_two_layer(start, X, y, lr=0.1, epochs=2000, seed=0)
    assert torch.equal(full.network.U, again.network.U)


def test_a_rate_that_is_too_large_diverges():
    X, y = toy()
    assert train_two_layer(initial_two_layer(6, 20, 3, seed=1), 1e3 * X, y, lr=1e30, epochs=50, seed=0).diverged


def test_one_example_is_a_batch():
    found = train_two_layer(
        initial_two_layer(2, 4, 2, 0), torch.ones(1, 2), torch.tensor([1]), lr=1.0, epochs=90, seed=0
    )
    assert found.reached


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": torch.ones(4, 3)}, "pass one row for each example"),
        ({"y": torch.tensor([0, 1, 0])}, "pass one row for each example"),
        ({"y": torch.tensor([0, 1, 2, 0])}, "integers from 0 to 1"),
        ({"lr": 0.0}, "try lr=0.01"),
        ({"momentum": 1.0}, "momentum below 1"),
    ],
)
def test_slips(change, said):
    good = {"X": torch.ones(4, 2), "y": torch.tensor([0, 1, 0, 1]), "lr": 0.1, "epochs": 1, "seed": 0}
    start = TwoLayer(torch.ones(3, 2), torch.ones(2, 3))
    with pytest.raises(TrueriskError, match=said):
        train_two_layer(start, **{**good, **change})
