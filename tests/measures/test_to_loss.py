"""Training to a common loss: where it stops, which steps it notes, and the variance of gradients against a loop."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from truerisk.data.mnist1d import generate_mnist1d
from truerisk.measures.to_loss import gradient_variance, train_to_loss
from truerisk.nets import architecture
from truerisk.training import Plan


def test_training_ends_at_the_loss_and_counts_steps():
    train = generate_mnist1d(60, 0)
    network = architecture("mlp:32", train.input_shape, 10).build(0)
    story = train_to_loss(network, train, Plan(epochs=400, batch_size=16, optimizer="sgd", lr=0.1, schedule="constant"))
    with torch.no_grad():
        loss = float(F.cross_entropy(network(torch.from_numpy(train.X)), torch.from_numpy(train.y)))
    assert story.fitted
    assert not story.diverged
    assert loss == pytest.approx(story.loss, rel=1e-6)
    assert loss <= 0.01
    assert story.record["steps_to_0.1"] % 4 == 0  # whole epochs of 60/16 batches
    assert story.record["steps_0.1_to_0.01"] >= 0
    assert story.record["gradient_variance_first_epoch"] > 0


def test_what_is_known_of_a_training_that_stops_early():
    train = generate_mnist1d(60, 0)
    network = architecture("mlp:32", train.input_shape, 10).build(0)
    story = train_to_loss(network, train, Plan(epochs=1, batch_size=16, optimizer="sgd", lr=0.1, schedule="constant"))
    assert not story.fitted
    assert story.loss > 0.1
    assert story.record["steps_to_0.1"] is None
    assert story.record["steps_0.1_to_0.01"] is None


def test_gradient_variance_against_a_loop():
    train = generate_mnist1d(12, 0)
    network = architecture("mlp:5", train.input_shape, 10).build(0).double()
    X, y = torch.from_numpy(train.X).double(), torch.from_numpy(train.y)
    each = []
    for i in range(12):
        parts = torch.autograd.grad(F.cross_entropy(network(X[i : i + 1]), y[i : i + 1]), list(network.parameters()))
        each.append(torch.cat([part.flatten() for part in parts]))
    stacked = torch.stack(each)
    expected = float((stacked - stacked.mean(0)).square().sum(1).mean())
    assert gradient_variance(network, X, y) == pytest.approx(expected, rel=1e-10)
