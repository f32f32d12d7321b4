"""The line through two networks, against plain sums of weights and plain means and variances."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.interpolate import at, flat_weights, line, renew_statistics


def plain(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2))


def normed(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
Y = np.random.default_rng(1).integers(2, size=50)


@pytest.mark.parametrize("t", [-1.0, 0.0, 0.3, 1.0, 2.0])
def test_weights_and_losses_by_hand(t):
    a, b = plain(0), plain(1)
    first, second = a.state_dict(), b.state_dict()
    W, c, V, d = ((1 - t) * first[name] + t * second[name] for name in first)
    found = at(a, b, t)
    assert not found.training
    assert torch.allclose(
        flat_weights(found).float(), torch.cat([part.reshape(-1) for part in (W, c, V, d)]), atol=1e-6
    )
    loss = wrong = 0.0
    for x, y in zip(X, Y, strict=True):
        hidden = np.maximum(W.numpy() @ x + c.numpy(), 0)
        logits = (V.numpy() @ hidden + d.numpy()).astype(float)
        loss += math.log(sum(math.exp(v) for v in logits)) - logits[y]
        wrong += int(np.argmax(logits) != y)
    got = line(a, b, X, Y, [t])
    assert got.losses[0] == pytest.approx(loss / 50, rel=1e-5)
    assert got.errors[0] == pytest.approx(wrong / 50)


def test_the_ends_stay_as_they_are():
    a, b = plain(0).train(), plain(1).train()
    before = copy.deepcopy(a.state_dict()), copy.deepcopy(b.state_dict())
    line(a, b, X, Y, [-1.0, 0.5])
    for module, kept in zip((a, b), before, strict=True):
        assert module.training
        assert all(torch.equal(kept[name], value) for name, value in module.state_dict().items())


def test_statistics_are_means_and_variances_of_the_inputs():
    net = normed(0)
    net[1].running_var.fill_(-7.0)  # what an extrapolation could make of it
    renew_statistics(net, X)
    inside = X @ net[0].weight.detach().numpy().T + net[0].bias.detach().numpy()
    assert torch.allclose(net[1].running_mean, torch.from_numpy(inside.mean(0)), atol=1e-5)
    assert torch.allclose(net[1].running_var, torch.from_numpy(inside.var(0, ddof=1)), atol=1e-4)
    assert net[1].momentum == 0.1
    assert not net[1].training


def test_statistics_over_batches_are_their_averages(monkeypatch):
    monkeypatch.setattr("truerisk.nets.interpolate.BATCH", 10)
    net = normed(0)
    renew_statistics(net, X)
    inside = (X @ net[0].weight.detach().numpy().T + net[0].bias.detach().numpy()).reshape(5, 10, 4)
    assert torch.allclose(net[1].running_mean, torch.from_numpy(inside.mean(1).mean(0)), atol=1e-5)
    assert torch.allclose(net[1].running_var, torch.from_numpy(inside.var(1, ddof=1).mean(0)), atol=1e-4)


def test_batch_norm_along_a_line():
    a, b = normed(0), normed(1)
    found = line(a, b, X, Y, [-1.0, 0.0, 2.0], norms=X)
    assert all(math.isfinite(loss) for loss in found.losses)
    renew_statistics(a, X)
    assert found.losses[1] == pytest.approx(line(a, a, X, Y, [0.0], norms=X).losses[0])


def test_refusals():
    with pytest.raises(TrueriskError, match="pass training inputs"):
        at(normed(0), normed(1), 0.5)
    with pytest.raises(TrueriskError, match="build both the same way"):
        at(plain(0), nn.Linear(3, 2), 0.5)


def test_a_loss_that_overflows_is_infinite():
    a, b = plain(0).eval(), plain(1).eval()
    with torch.no_grad():
        a[0].weight.fill_(3e38)
        a[3].weight.fill_(3e38)
    assert line(a, b, np.abs(X), Y, [0.0]).losses == (math.inf,)
