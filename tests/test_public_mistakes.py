"""Mistakes found in public code of this field, each with a test that fails where we repeat it.

Tested where their subject is: rows or delta counted twice in any certificate (certificates/test_n_doubled.py), the
misplaced root of Golowich et al. and the constants of all bounds (bounds/, against plain formulas), the dimension in
the logarithm of Bartlett et al. (bounds/test_covering.py), the constant of random projections that is too small
(measures/test_cushions.py), an ECLipsE loop that starts one layer late (measures/test_lipschitz.py), reshaped kernels
taken for operator norms (measures/test_products.py), m-coherence below 1 (measures/test_fisher.py), AlexNets with a
second layer of 256 channels (nets/test_classics.py).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import truerisk
from truerisk import bounds
from truerisk.data import Data, load
from truerisk.lab import Rows
from truerisk.lab.experiments.predictiveness import predictions
from truerisk.measures import BOUNDS, MEASURES, Subject
from truerisk.measures.perturbation import Movable, noise, radius
from truerisk.nets import evaluate
from truerisk.pacbayes import Gaussian
from truerisk.seeds import seeded_globals


def digits(count: int) -> Data:
    return load("digits").take(np.arange(count))


def network(seed: int = 0) -> nn.Module:
    with seeded_globals(seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10)).double().eval()


def test_n_counts_the_rows_that_certify():
    """Public code asks the data set for its length, and a sampler has put half of it aside: n is twice too large."""
    cert = truerisk.certify("mlp:8", digits(300), prior="split:0.5", method="hold-out", epochs=2, seed=0)
    assert (cert.record["n_prior"], cert.record["n_certify"]) == (150, 150)
    errors, delta = round(cert.record["empirical_risk"] * 150), cert.ledger[0]["delta"]
    assert cert.risk_bound == pytest.approx(bounds.clopper_pearson(errors, 150, delta))
    assert cert.risk_bound > bounds.clopper_pearson(2 * errors, 300, delta)


@pytest.mark.parametrize("rows", [7, 50, 101])
def test_means_over_uneven_batches(rows, monkeypatch):
    """Public code divides a sum over batches by the index of the last one, or takes all batches for full ones."""
    data, module = digits(101), network()
    X, y = torch.from_numpy(data.X).double(), torch.from_numpy(data.y)
    logits = module(X).detach()
    monkeypatch.setattr(evaluate, "ROWS", rows)
    monkeypatch.setattr("truerisk.measures.perturbation.CHUNK", rows)
    monkeypatch.setattr("truerisk.measures.gradients.CHUNK", rows)
    subject = Subject(module, data)
    assert evaluate.count_errors(module, data.X, data.y)[0] == int((logits.argmax(1) != y).sum())
    assert Movable(subject).loss(X, y) == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-12)
    slope = torch.autograd.grad(F.cross_entropy(module(X), y), module[1].weight)[0]
    assert torch.allclose(subject.gradients.total["1.weight"] / 101, slope, rtol=1e-9, atol=1e-15)
    assert torch.allclose(Movable(subject).gradient(X, y)[1][0], slope, rtol=1e-9, atol=1e-15)


def test_every_event_has_a_delta_of_its_own(monkeypatch):
    """Public code uses one delta for the drawn networks and again for the bound: both fail together too often."""
    monkeypatch.setattr("truerisk.pacbayes.monte_carlo.TRIALS", 10_000)  # how many are drawn plays no part
    cert = truerisk.certify("mlp:8", digits(300), prior="init", method="pac-bayes-kl", epochs=1, seed=0)
    shares = [float(entry["delta"]) for entry in cert.ledger]
    assert len(shares) >= 2
    assert all(share > 0 for share in shares)
    assert sum(shares) == pytest.approx(0.05, rel=1e-12)


def test_delta_is_inside_the_logarithm():
    """Public code has ln(2 sqrt(n)) / delta."""
    n, delta = 400, 0.05
    assert bounds.confidence_term(n, delta) == pytest.approx(math.log(2 * math.sqrt(n) / delta))
    assert bounds.confidence_term(n, delta / 10) - bounds.confidence_term(n, delta) == pytest.approx(math.log(10))
    slack = (3 + math.log(40 / 0.05)) / 400
    assert bounds.kl_bernoulli(0.1, bounds.pac_bayes_kl(0.1, 3, n, delta)) == pytest.approx(slack, rel=1e-9)


def test_standard_deviations_are_no_variances():
    """In the noise of flatness, in drawn networks and in the KL. sigma = 1/4, where both are far apart.

    Sample deviations of N numbers are within 5 / sqrt(2 N) of the truth, relatively; a false alarm has a chance of
    6e-7 each.
    """
    module = nn.Linear(100, 100).double()
    prior, posterior = Gaussian.around(module, 1.0), Gaussian.around(module, 0.25)
    expected = 10_100 * (math.log(1 / 0.25) + 0.25**2 / 2 - 0.5)
    assert posterior.kl(prior) == pytest.approx(expected, rel=1e-9)
    drawn = truerisk.pacbayes.draw(posterior, seed=0)
    assert float((drawn["weight"] - posterior.mean["weight"]).std()) == pytest.approx(0.25, rel=5 / math.sqrt(2e4))
    unit = noise(Subject(module, Data("normal", np.eye(100), np.arange(100) % 100, 100)), 0, [module.weight])[0]
    assert float(unit.std()) == pytest.approx(1, rel=5 / math.sqrt(2e4))


def test_noise_is_scaled_by_its_deviation():
    """Margins of 1 and noise of deviation sigma on two weights each: a tenth is lost where Phi(-1/(sigma sqrt 2)) = .1.

    2,500 independent examples: the share that is lost has a standard deviation of 0.006, sigma one of 0.02, and the
    bracket is 5 % wide: a tolerance of 0.14 allows for five of each. With sigma^2 for sigma it would be 0.74.
    """
    y = np.arange(2500) % 2
    module = nn.Linear(2500, 2, bias=False).double()
    module.weight.data = torch.from_numpy(np.eye(2)[y].T.copy())
    found = radius(Subject(module, Data("rows", np.eye(2500), y, 2), rows=2500), "gaussian").value
    assert found == pytest.approx(1 / (math.sqrt(2) * 1.2816), abs=0.14)


@pytest.mark.parametrize("draws", [100, 10_000])
def test_drawn_networks_are_not_taken_for_their_mean(draws):
    """Public code puts the error of a few drawn networks into the inverse of kl as if it were the mean over all."""
    estimated = bounds.chernoff_upper(0.1, draws, 0.01)
    assert estimated > 0.1
    assert bounds.kl_bernoulli(0.1, estimated) == pytest.approx(math.log(2 / 0.01) / draws, rel=0.2)
    assert bounds.pac_bayes_kl(estimated, 3, 400, 0.04) > bounds.pac_bayes_kl(0.1, 3, 400, 0.04)


def test_bounds_are_whole():
    """Public code leaves out constants and logarithms. No bound is below what even a single function would have."""
    data = digits(200)
    subject = Subject(network(), data, network())
    found = {name: entry(subject, 0.05).value for name, entry in BOUNDS.items()}
    error = float((subject.margins <= 0).double().mean())
    assert len(found) >= 8
    for value in found.values():
        assert value >= min(1.0, error + math.sqrt(math.log(1 / 0.05) / (2 * 200)))


def test_margins_have_a_sign_and_a_rival():
    """Public code takes |margin|, or subtracts the largest logit of all: 0 for every example that is right."""
    module = nn.Linear(3, 3, bias=False).double()
    module.weight.data = torch.tensor([[2.0, 0.0, 1.0], [5.0, 4.0, 0.0], [0.0, 1.0, 1.5]]).double()
    margins = Subject(module, Data("rows", np.eye(3), np.array([0, 1, 2]), 3)).margins
    assert margins.tolist() == [-3.0, 3.0, 0.5]


def test_a_tenth_of_nine_examples():
    """Public code asks for the 0th smallest margin of fewer than ten and fails."""
    data = digits(9)
    module = network()
    sure = Data("sure", data.X, module(torch.from_numpy(data.X).double()).argmax(1).numpy(), 10)
    assert MEASURES["inverse-margin"](Subject(module, sure)).value > 0


def test_outputs_have_passed_the_activation():
    """Public code of a lecture computes margins of the linear network without its ReLUs."""
    data, module = digits(20), network()
    (w1, b1), (w2, b2) = (
        (layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in (module[1], module[3])
    )
    hidden = data.X.reshape(20, 64) @ w1.T + b1
    found = Subject(module, data).logits.numpy()
    assert np.allclose(found, np.maximum(hidden, 0) @ w2.T + b2, atol=1e-12)
    assert not np.allclose(found, hidden @ w2.T + b2, atol=0.01)


def test_another_seed_is_another_run(monkeypatch):
    """Public code overwrites its seed, and what is called two seeds is one run, twice."""
    monkeypatch.setattr("truerisk.pacbayes.monte_carlo.TRIALS", 10_000)  # how many are drawn plays no part
    data, module = digits(200), network()
    draws = [noise(Subject(module, data, seed=seed), 0, [module[1].weight])[0] for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    kls = [truerisk.certify("mlp:8", data, prior="init", epochs=1, seed=seed).record["kl"] for seed in (0, 0, 1)]
    assert kls[0] == kls[1] != kls[2]


def test_negative_gaps_are_kept():
    """Public code takes max(test - train, 0): networks that do better on the test set all look alike."""
    hyper = {"width": 8, "depth": 1, "batch_size": 16, "lr": 0.1}
    row = hyper | {"test_error": 0.1, "train_error": 0.3, "measures": {}, "seed": 0, "n_test": 100, "fitted": True}
    assert predictions(Rows([row]))[0]["gap"] == pytest.approx(-0.2)
