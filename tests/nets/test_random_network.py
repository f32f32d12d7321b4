"""Random features as a module: the least-norm readout against a plain pseudoinverse, and what certify asks of it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import truerisk
from truerisk.errors import TrueriskError
from truerisk.nets.random_network import RandomNetwork, fit_least_norm, random_network


def examples(n=30, d=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return TensorDataset(torch.tensor(rng.standard_normal((n, d)), dtype=torch.float32), torch.arange(n) % classes)


def by_hand(network, dataset):
    """The same readout from the weights alone: numpy's pseudoinverse of ReLU features, targets with mean 0."""
    X, y = (tensor.numpy().astype(np.float64) for tensor in dataset.tensors)
    features = np.maximum(X @ network.hidden.weight.numpy().astype(np.float64).T, 0)
    classes = network.readout.weight.shape[0]
    targets = np.where(y[:, None] == np.arange(classes), 1 - 1 / classes, -1 / classes)
    return np.linalg.pinv(features) @ targets


@pytest.mark.parametrize("width", [4, 20, 200])
def test_readout_is_that_of_the_pseudoinverse(width):
    dataset = examples()
    network = RandomNetwork(5, width, 3, seed=1)
    assert fit_least_norm(network, dataset) is network
    np.testing.assert_allclose(network.readout.weight.detach().numpy().T, by_hand(network, dataset), atol=2e-5)


def test_wide_networks_fit_every_label_and_narrow_ones_do_not():
    dataset = examples()
    wrong = {}
    for width in (4, 200):
        outputs = fit_least_norm(RandomNetwork(5, width, 3, seed=1), dataset)(dataset.tensors[0])
        wrong[width] = int((outputs.argmax(1) != dataset.tensors[1]).sum())
    assert wrong[200] == 0 < wrong[4]


def test_the_features_are_frozen_and_come_from_the_seed_alone():
    one, two = (random_network(20, seed=3)(input_shape=(1, 2, 3), classes=4) for _ in range(2))
    assert torch.equal(one.hidden.weight, two.hidden.weight)
    assert torch.equal(one.hidden.weight, random_network(50, seed=3)((6,), 4).hidden.weight[:20])
    assert not torch.equal(one.hidden.weight, random_network(20, seed=4)((6,), 4).hidden.weight)
    assert [name for name, p in one.named_parameters() if p.requires_grad] == ["readout.weight"]
    before = one.hidden.weight.clone()
    fit_least_norm(one, examples(d=6, classes=4))
    assert torch.equal(one.hidden.weight, before)


@pytest.mark.parametrize("inputs", [np.arange(40) % 5, np.full(40, 1e6), np.zeros(40)])
def test_features_of_one_input_have_rank_one_whatever_rounding_says(inputs):
    """In float32, all features of one positive input are multiples of one another but for rounding."""
    X, y = torch.tensor(inputs, dtype=torch.float32)[:, None], torch.arange(40) % 2
    network = fit_least_norm(RandomNetwork(1, 40, 2, seed=0), TensorDataset(X, y))
    norms = network.readout.weight.norm() * network.features(X).norm(dim=1).max()
    assert norms < 10  # noise that is taken for a feature makes it a million


def test_other_networks_are_refused():
    with pytest.raises(TrueriskError, match="random_network"):
        fit_least_norm(nn.Linear(5, 3), examples())
    with pytest.raises(TrueriskError, match="positive"):
        RandomNetwork(5, 0, 3, seed=0)


def test_fixed_features_need_your_word():
    """They ignore the seed of a certificate, so nobody but their maker knows that they saw no data."""
    X, y = (tensor.numpy() for tensor in examples(100).tensors)
    with pytest.raises(TrueriskError, match="trust"):
        truerisk.certify(random_network(20), (X, y), fit=fit_least_norm)
    assert truerisk.certify(random_network(20), (X, y), fit=fit_least_norm, trust_factory=True).risk_bound <= 1


def test_an_interpolating_readout_runs_alone_as_in_a_batch():
    """A class that is absent from the first examples has outputs of -1/K, not of 0 up to rounding."""
    X, y = (tensor.numpy() for tensor in examples(60, classes=6).tensors)
    order = np.argsort(y == 5, kind="stable")  # no example of the last class comes early
    network = fit_least_norm(random_network(300)((5,), 6), TensorDataset(torch.tensor(X), torch.tensor(y)))
    settings = {"method": "pac-bayes-around", "epochs": 1, "options": {"draws": 100}, "trust_factory": True}
    found = truerisk.certify(
        random_network(300), (X[order], y[order]), weights=network.state_dict(), fit=fit_least_norm, **settings
    )
    assert found.kl > 0
