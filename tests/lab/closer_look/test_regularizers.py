"""Networks with noise in them, adversarial batches, and where a curve crosses a level."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.lab.closer_look.networks import GaussianNoise, build, plan_of
from truerisk.lab.closer_look.regularizers import REGULARIZER_CLAIMS, adversarial, crossing, regularizers_grid
from truerisk.lab.rows import Rows

CLAIMS = {claim.name: claim for claim in REGULARIZER_CLAIMS}
KINDS = ["dropout", "hidden_noise", "input_dropout", "input_noise"]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_disturbs_training_and_not_evaluation(kind):
    plain = build("mlp", (1, 4, 4), 3, [8, 8], seed=1)
    noisy = build("mlp", (1, 4, 4), 3, [8, 8], seed=1, **{kind: 0.5})
    X = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(noisy.eval()(X), plain.eval()(X))
    noisy.train()
    assert not torch.allclose(noisy(X), noisy(X))
    disturbing = [i for i, layer in enumerate(noisy) if isinstance(layer, nn.Dropout | GaussianNoise)]
    assert disturbing == ([0] if kind.startswith("input") else [3, 6])  # after each ReLU, or first of all


def test_gaussian_noise_has_its_deviation():
    torch.manual_seed(0)
    noise = GaussianNoise(0.3)(torch.ones(100_000)) - 1
    # deviations of mean and standard deviation: 0.3/sqrt(n) = 0.001 and 0.0007; 5 sigma
    assert abs(noise.mean().item()) < 0.005
    assert abs(noise.std().item() - 0.3) < 0.0035


def test_the_published_network_takes_cropped_cifar():
    module = build("cnn", (3, 28, 28), 10, [], seed=0, dropout=0.5).eval()
    assert module(torch.zeros(2, 3, 28, 28)).shape == (2, 10)
    # conv 5*5*3*200 + 200, conv 5*5*200*200 + 200, dense 200*384 + 384, 384*192 + 192, 192*10 + 10; batch norm 2 each
    counted = 15_200 + 1_000_200 + 77_184 + 73_920 + 1_930 + 2 * (200 + 200 + 384 + 192)
    assert sum(p.numel() for p in module.parameters()) == counted


def test_other_networks_are_refused():
    with pytest.raises(TrueriskError, match="choose mlp or cnn"):
        build("rnn", (1, 4, 4), 3, [], seed=0)
    with pytest.raises(TrueriskError, match="too small for the cnn"):
        build("cnn", (1, 8, 8), 10, [], seed=0)


def test_the_rate_is_halved_every_so_many_epochs():
    plan = plan_of({"epochs": 60, "batch": 10, "lr": 0.1, "halve_every": 15, "seed": 0})
    assert [plan.rate(epoch / 60) for epoch in (0, 14, 15, 30, 59)] == [1, 1, 0.5, 0.25, 0.125]
    assert plan_of({"epochs": 60, "batch": 10, "lr": 0.1, "halve_every": None, "seed": 0}).rate(0.9) == 1


def test_adversarial_batches_move_the_given_share_within_the_box():
    torch.manual_seed(0)
    module = build("mlp", (1, 4, 4), 3, [8], seed=1, dropout=0.5).train()
    X = torch.randn(2000, 1, 4, 4)
    changed = adversarial(module, 0.3, 0.1, 2)(X)
    assert module.training
    assert all(p.grad is None for p in module.parameters())
    assert (changed - X).abs().max() <= 0.1 + 1e-6
    moved = (changed != X).flatten(1).any(1).double().mean().item()
    assert abs(moved - 0.3) < 0.05  # binomial deviation 0.01: 5 sigma


def test_crossing_is_where_a_straight_line_meets_the_level():
    assert crossing([(1.0, 0.9), (0.6, 0.8), (0.4, 0.6)], 0.5) == pytest.approx(0.7)
    assert crossing([(1.0, 0.9), (0.5, 0.8), (0.4, 0.6)], 0.5) == pytest.approx(0.8)
    assert crossing([(1.0, 0.9), (0.4, 0.8), (1.0, 0.7), (0.1, 0.2)], 0.4) == pytest.approx(0.8)  # the first one
    assert crossing([(1.0, 0.9), (0.8, 0.8)], 0.5) is None


def _rows(kept, dropout_memory=0.3):
    """One strength per regularizer: its test accuracy is ``kept`` there, 0.96 without regularizer."""
    rows = []
    for name, strength, memory, accuracy in [
        ("none", 0.0, 1.0, 0.96),
        *((name, 0.5, dropout_memory if name == "dropout" else 0.0, y) for name, y in kept.items()),
    ]:
        both = {"part": "regularizers", "regularizer": name, "strength": strength}
        rows.append({**both, "noise": "randY", "train_accuracy": memory, "best_accuracy": 0.1})
        rows.append({**both, "noise": "real", "train_accuracy": 1.0, "best_accuracy": accuracy})
    return Rows(rows)


def test_verdicts_on_dropout():
    good = _rows({"dropout": 0.955, "input noise": 0.9, "dropout and adversarial": 0.96})
    assert all(claim.check(good).seen for claim in REGULARIZER_CLAIMS)
    bad = _rows({"dropout": 0.9, "input noise": 0.95, "dropout and adversarial": 0.8})
    assert not any(claim.check(bad).seen for claim in REGULARIZER_CLAIMS)
    weak = _rows({"dropout": 0.955, "input noise": 0.9, "dropout and adversarial": 0.96}, dropout_memory=0.7)
    assert not any(claim.check(weak).seen for claim in REGULARIZER_CLAIMS)
    assert "dropout never there" in CLAIMS["dropout-best"].check(weak).measured


def test_unregularized_networks_are_trained_once_per_kind_of_data_and_seed():
    plain = [s for s in regularizers_grid("quick") if s["strength"] == 0]
    assert [(s["noise"], s["seed"]) for s in plain] == [("real", 0), ("randY", 0), ("real", 1), ("randY", 1)]
