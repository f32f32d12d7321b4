"""Masked networks: against a forward pass by hand, and their average against scaled weights where both are equal."""

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import mlp
from truerisk.nets.dropout import dropout_mlp, masked_probabilities

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return dropout_mlp((3,), 4, (20,), p=0.5)


def logits(probabilities):
    logs = np.log(probabilities.astype(np.float64))
    return logs - logs.mean(axis=-1, keepdims=True)


def test_each_result_is_one_network_with_units_switched_off(net):
    """A mask is found by hand: exactly one of the 2^8 subsets of 8 hidden units gives these outputs."""
    torch.manual_seed(1)
    small = dropout_mlp((3,), 4, (8,), p=0.25)
    first, last = small[1], small[4]
    hidden = np.maximum(X @ first.weight.detach().numpy().T + first.bias.detach().numpy(), 0)
    for found in masked_probabilities(small, X, 5, seed=2):
        close = 0
        for bits in range(256):
            mask = np.array([bits >> i & 1 for i in range(8)]) / 0.75
            out = (hidden * mask) @ last.weight.detach().numpy().T + last.bias.detach().numpy()
            close += np.allclose(np.exp(out) / np.exp(out).sum(axis=1, keepdims=True), found, atol=1e-5)
        assert close >= 1


def test_the_mean_logit_over_masks_is_that_of_scaled_weights(net):
    """With one hidden layer the outputs are linear in the mask, so the scaled pass is the mean: 5 standard errors."""
    each = logits(masked_probabilities(net, X, 800, seed=3))
    with torch.no_grad():
        scaled = logits(net.eval()(torch.from_numpy(X)).softmax(dim=1).numpy())
    error = each.std(axis=0) / np.sqrt(len(each))
    assert (np.abs(each.mean(axis=0) - scaled) < 5 * error + 1e-6).all()
    assert error.min() > 1e-4


def test_masks_are_shared_by_inputs_drawn_by_the_seed_and_leave_no_trace(net):
    twice = masked_probabilities(net, np.concatenate([X, X]), 4, seed=5)
    assert np.allclose(twice[:, :6], twice[:, 6:], atol=1e-6)
    assert (twice[0] != twice[1]).any()
    assert (twice == masked_probabilities(net, np.concatenate([X, X]), 4, seed=5)).all()
    before = torch.get_rng_state()
    masked_probabilities(net, X, 2, seed=6)
    assert (before == torch.get_rng_state()).all()
    assert not net[3]._forward_hooks


@pytest.mark.parametrize(("p", "same"), [(0.0, True), (1.0, True), (0.5, False)])
def test_nothing_or_everything_dropped(p, same):
    torch.manual_seed(0)
    found = masked_probabilities(dropout_mlp((3,), 4, (20,), p=p), X, 2, seed=0)
    assert (found[0] == found[1]).all() == same


def test_refusals(net):
    with pytest.raises(TrueriskError, match="no masks"):
        masked_probabilities(mlp((3,), 4), X, 2, seed=0)
    with pytest.raises(TrueriskError, match="at least 1"):
        masked_probabilities(net, X, 0, seed=0)
    assert isinstance(net[0], nn.Flatten)
