"""Rule 8 first: a certificate on random labels must be worse than chance. Then other ways to cheat."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import truerisk
from truerisk.data import load, random_labels
from truerisk.nets import mlp


def memorizing_network(data) -> nn.Module:
    """A network that knows every label of ``data`` by heart (100 % right on it)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = mlp(data.input_shape, data.classes, hidden=(512,))
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(400):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    assert (net(X).argmax(1) == y).float().mean() > 0.99
    return net


@pytest.fixture(scope="module")
def noise():
    """300 digits with labels that mean nothing: the true risk of any predictor is 0.9."""
    return random_labels(load("digits").take(np.arange(300)), seed=1)


@pytest.fixture(scope="module")
def memorizer(noise):
    return memorizing_network(noise)


@pytest.mark.parametrize("prior", ["zero", "init", "split:0.5", "split:0.2"])
@pytest.mark.parametrize("seed", [0, 1])
def test_random_labels_certify_nothing(noise, prior, seed):
    # The certificate may fail with probability 0.05; at 0.9 it sits far above what a failure needs.
    cert = truerisk.certify("mlp:32", noise, method="pac-bayes-kl", prior=prior, seed=seed, epochs=20)
    assert cert.risk_bound >= 0.9


@pytest.mark.parametrize("objective", ["quadratic", "lambda", "kl", "tempered"])
def test_random_labels_certify_nothing_whatever_is_minimized(noise, objective):
    cert = truerisk.certify(
        "mlp:32", noise, method="pac-bayes-kl", prior="init", objective=objective, epochs=10, tried=1
    )
    assert cert.risk_bound >= 0.9


@pytest.mark.parametrize("prior", ["zero", "init", "split:0.5"])
def test_trained_module_never_becomes_the_prior(noise, memorizer, prior):
    """With its weights as the prior's centre the certificate would be near 0; the truth is 0.9."""
    cert = truerisk.certify(memorizer, noise, method="pac-bayes-kl", prior=prior, epochs=2)
    assert cert.risk_bound >= 0.9
    given = dict(memorizer.named_parameters())
    for name, mean in cert.evidence.prior.mean.items():
        assert not torch.allclose(mean.float(), given[name], atol=1e-3), name


def test_the_test_above_would_see_it(noise, memorizer):
    """Put the memorizer's weights in by vouching falsely: the false certificate does come out low."""
    cert = truerisk.certify(
        lambda: memorizer, noise, method="pac-bayes-kl", prior="init", epochs=40, prior_std=1e-3, trust_factory=True
    )
    assert cert.risk_bound < 0.5
    assert any("You vouch" in line for line in cert.assumptions)


@pytest.mark.parametrize("prior", ["init", "split:0.5"])
def test_factory_that_hands_out_trained_weights_is_refused(noise, memorizer, prior):
    with pytest.raises(truerisk.TrueriskError, match="same weights whatever the seed"):
        truerisk.certify(lambda: memorizer, noise, method="pac-bayes-kl", prior=prior)


def test_module_with_learnt_weights_outside_its_parameters_is_refused(noise):
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.randn(64, 10)  # neither parameter nor buffer
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            return self.fc(x.flatten(1)) + x.flatten(1) @ self.table

    with pytest.raises(truerisk.TrueriskError, match="table"):
        truerisk.certify(Hidden(), noise, method="pac-bayes-kl", prior="init")


def list_of_modules(net: nn.Module) -> nn.Module:
    """Layers in a plain list: neither a state dict nor a reset reaches them."""

    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = list(net)
            self.last = nn.Linear(10, 10)
            nn.init.eye_(self.last.weight)
            nn.init.zeros_(self.last.bias)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.last(x)

    return Listed()


def replaced_forward(net: nn.Module) -> nn.Module:
    """A wrapper's trick: copies of the module still run the original's weights."""
    net = copy.deepcopy(net)
    old = net.forward
    net.forward = lambda x: old(x)
    return net


@pytest.mark.parametrize("trick", [list_of_modules, replaced_forward])
@pytest.mark.parametrize("prior", ["init", "split:0.5"])
def test_tricks_that_once_certified_random_labels(noise, memorizer, trick, prior):
    with pytest.raises(truerisk.TrueriskError):
        truerisk.certify(trick(memorizer), noise, method="pac-bayes-kl", prior=prior)
    with pytest.raises(truerisk.TrueriskError):  # nor by a factory that wraps it
        truerisk.certify(lambda: trick(memorizer), noise, method="pac-bayes-kl", prior=prior)


def test_fit_gets_the_priors_examples_only_and_a_fresh_network(noise, memorizer):
    seen = []

    def fit(module, dataset):
        X, y = dataset.tensors
        seen.append((X.clone(), y.clone()))
        weights = dict(module.named_parameters())
        assert all(not torch.equal(weights[n], p) for n, p in memorizer.named_parameters())
        X += 1  # spoiling its copy must not reach the certifying data

    cert = truerisk.certify(memorizer, noise, method="pac-bayes-kl", fit=fit, prior="split:0.5", epochs=1)
    parts = cert.evidence.parts
    assert len(seen) == 1
    assert torch.equal(seen[0][1], torch.from_numpy(noise.y[parts.prior]))
    assert len(seen[0][0]) + cert.record["n_certify"] == len(noise)
    assert cert.record["data"]["sha256"] == noise.sha256
    assert any("training function" in line for line in cert.assumptions)


@pytest.mark.long
def test_coverage_on_a_known_distribution():
    """Two Gaussian blobs with 20 % label noise: the true risk of any predictor is computable.

    100 certificates at delta 0.2 (hold-out method, tried=1) may fail 20 times on average. More than 35
    failures have probability 2e-4 if each fails with probability exactly 0.2: the false-alarm rate.
    """
    rng = np.random.default_rng(0)
    big = sample(rng, 20_000)
    failures = 0
    for seed in range(100):
        cert = truerisk.certify(
            line, sample(rng, 100), method="hold-out", prior="split:0.5", delta=0.2, epochs=1, seed=seed
        )
        true_risk = float((cert.predictor(big[0]) != big[1]).mean())
        failures += true_risk > cert.risk_bound
    assert failures <= 35
    assert failures >= 2, "a bound that never fails at delta 0.2 is not the exact one (2 or fewer: 1e-8)"


def sample(rng, n):
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + 2.0 * (2 * y[:, None] - 1)
    return X.astype(np.float32), np.where(rng.random(n) < 0.2, 1 - y, y)


def line() -> nn.Module:
    return nn.Linear(2, 2)


def test_double_precision_is_refused_for_training_and_fine_for_fresh_data():
    data = sample(np.random.default_rng(1), 60)
    with pytest.raises(truerisk.TrueriskError, match="float32"):
        truerisk.certify(lambda: line().double(), data, method="pac-bayes-kl")
    assert truerisk.certify(line().double(), fresh=data).risk_bound <= 1


def test_copies_across_the_split_are_told():
    X, y = sample(np.random.default_rng(2), 60)
    twice = (np.concatenate([X, X]), np.concatenate([y, y]))
    cert = truerisk.certify(line, twice, method="hold-out", epochs=1)
    parts = cert.evidence.parts
    copies = len(set((parts.prior % 60).tolist()) & set((parts.certify % 60).tolist()))
    assert copies > 10
    told = " ".join(cert.record["warnings"])
    assert f"{copies} certification examples have the same inputs" in told
    assert "remove" not in told, "equal values are not the same draw"
    without = truerisk.certify(line, (X, y), method="hold-out", epochs=1).record["warnings"]
    assert not any("same inputs" in line for line in without)
