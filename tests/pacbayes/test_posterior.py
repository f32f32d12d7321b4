"""Posterior training: it lowers what it minimizes, repeats itself, and stays inside float32."""

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import OBJECTIVES, Gaussian, fan_in_std, gibbs_risk, train_posterior
from truerisk.pacbayes import monte_carlo as mc
from truerisk.pacbayes import posterior as posterior_module
from truerisk.pacbayes.objectives import bounded_cross_entropy, tempered
from truerisk.training import Checkpoint, Plan, checkpoint, run

PLAN = Plan(epochs=15, batch_size=40, lr=0.2, seed=1)


def data(n=400):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return (rng.standard_normal((n, 4)) + 3 * np.eye(4)[y]).astype(np.float32), y


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def conv():
    torch.manual_seed(0)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3))


def tied():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    module[2].weight = module[0].weight
    return module


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return nn.functional.linear(x, self.fc.weight, self.fc.bias)


def prior_of(module, factor=0.5):
    return Gaussian.around(module, fan_in_std(module, factor))


def risk(q, X, y):
    return gibbs_risk(q, X, y, 0, mc.replace(mc.plan_draws(q, X), passes=10)).risk


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_objective_and_the_risk_fall(name):
    X, y = data()
    prior = prior_of(mlp())
    posterior, history = train_posterior(prior, X, y, PLAN, objective_name=name)
    assert history.losses[-1] < history.losses[0]
    assert posterior.kl(prior) > 0.1
    assert risk(posterior, X, y) < risk(prior, X, y) - 0.1


@pytest.mark.parametrize("build", [conv, tied, Functional])
def test_other_structures_train_too(build):
    X, y = data()
    prior = prior_of(build())
    posterior, history = train_posterior(prior, X, y, PLAN, objective_name="tempered")
    assert history.losses[-1] < history.losses[0]
    X, y = X[:100], y[:100]  # each answer takes a network that is drawn as a whole
    assert risk(posterior, X, y) < risk(prior, X, y) - 0.05


def test_float32_numbers_that_a_file_keeps():
    X, y = data()
    posterior, _ = train_posterior(prior_of(mlp()), X, y, PLAN)
    for tensors in (posterior.mean, posterior.std):
        for value in tensors.values():
            assert torch.equal(value, value.float().double())
    for value in posterior.std.values():
        assert (value > 0).all()


def test_the_prior_is_untouched_and_the_seed_decides():
    X, y = data()
    prior = prior_of(mlp())
    mean = {k: v.clone() for k, v in prior.mean.items()}
    before = torch.random.get_rng_state()
    one, again = (train_posterior(prior, X, y, PLAN)[0] for _ in range(2))
    other = train_posterior(prior, X, y, Plan(**{**PLAN.record(), "seed": 2}))[0]
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(prior.mean[k], mean[k]) for k in mean)
    for key in mean:
        assert torch.equal(one.mean[key], again.mean[key])
        assert torch.equal(one.std[key], again.std[key])
        assert not torch.equal(one.mean[key], prior.mean[key])
        assert not torch.equal(one.std[key], prior.std[key])
        assert not torch.equal(one.mean[key], other.mean[key])


def test_it_starts_where_it_is_told():
    X, y = data()
    prior = prior_of(mlp())
    start = Gaussian(prior.module, {k: v + 1 for k, v in prior.mean.items()}, {k: v / 2 for k, v in prior.std.items()})
    posterior, _ = train_posterior(prior, X, y, Plan(epochs=1, batch_size=400, lr=1e-7), start=start)
    for key in start.mean:
        torch.testing.assert_close(posterior.mean[key], start.mean[key], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(posterior.std[key], start.std[key], rtol=1e-4, atol=1e-6)


def test_fixed_parts_stay_so_that_there_is_a_kl():
    X, y = data()
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    module[0].bias.requires_grad_(False)
    module(torch.from_numpy(X))  # running statistics that are not the initial ones
    prior = prior_of(module)
    posterior, _ = train_posterior(prior, X, y, PLAN)
    assert posterior.kl(prior) > 0
    assert torch.equal(posterior.fixed["0.bias"], module[0].bias)
    assert torch.equal(posterior.fixed["1.running_mean"], module[1].running_mean)


def test_random_labels_teach_little():
    """With 400 random labels the bound says so: the objective can't fall under what chance gives."""
    X, _ = data()
    y = np.random.default_rng(5).integers(0, 3, 400)
    prior = prior_of(mlp())
    posterior, _ = train_posterior(prior, X, y, PLAN, objective_name="quadratic")
    assert risk(posterior, X, y) > 0.4


def test_unknown_objective():
    X, y = data()
    with pytest.raises(TrueriskError, match="objective"):
        train_posterior(prior_of(mlp()), X, y, PLAN, objective_name="best")


@pytest.mark.parametrize("warmup", [0.0, 0.6])  # the kill comes after a share of 0.4
def test_a_killed_posterior_goes_on(tmp_path, monkeypatch, warmup):
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    X, y = data()
    prior = prior_of(mlp())
    whole, history = train_posterior(prior, X, y, PLAN, warmup=warmup)
    saves, real = [0], Checkpoint.save

    def save(self, *args, **kwargs):
        real(self, *args, **kwargs)
        saves[0] += 1
        if saves[0] == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", save)
    with pytest.raises(KeyboardInterrupt):
        train_posterior(prior, X, y, PLAN, warmup=warmup, checkpoint=Checkpoint(tmp_path / "c.pt", {}))
    resumed, again = train_posterior(prior, X, y, PLAN, warmup=warmup, checkpoint=Checkpoint(tmp_path / "c.pt", {}))
    assert saves[0] == 6 + 9 + 1  # nine epochs were left, and the last write
    assert history == again
    for key in whole.mean:
        assert torch.equal(whole.mean[key], resumed.mean[key])
        assert torch.equal(whole.std[key], resumed.std[key])


@pytest.mark.parametrize("build", [mlp, conv])
def test_frozen_means_stay_to_the_last_bit(build):
    X, y = data()
    prior, given = prior_of(build()), build()
    with torch.no_grad():
        for p in given.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    start = Gaussian.around(given, {name: 0.1 * std for name, std in prior.std.items()})
    posterior, history = train_posterior(prior, X, y, PLAN, start=start, means=False)
    assert all(torch.equal(posterior.mean[name], p.double()) for name, p in given.named_parameters())
    assert any(not torch.equal(posterior.std[name], start.std[name].float().double()) for name in start.std)
    assert history.losses[-1] < history.losses[0]
    moving, _ = train_posterior(prior, X, y, PLAN, start=start)
    assert any(not torch.equal(moving.mean[name], posterior.mean[name]) for name in start.mean)


def same(a, b):
    return all(torch.equal(x[k], y[k]) for x, y in ((a.mean, b.mean), (a.std, b.std)) for k in x)


def test_without_warmup_nothing_changes():
    """To the last bit: the twin's objective knows of no weight."""
    X, y = data()
    prior = prior_of(mlp())
    weights = posterior_module._Weights(prior, prior, means=True)
    forward = posterior_module._training_forward(prior.module, weights, torch.from_numpy(X))

    def loss(batch):
        risk = bounded_cross_entropy(forward(torch.from_numpy(X)[batch]), torch.from_numpy(y)[batch])
        return tempered(risk, weights.kl(), len(X))

    twin = run(weights, [{"params": list(weights.parameters())}], loss, len(X), PLAN)
    posterior, history = train_posterior(prior, X, y, PLAN)
    assert history == twin
    assert same(posterior, Gaussian(prior.module, *weights.moments()))
    assert same(posterior, train_posterior(prior, X, y, PLAN, warmup=0.0)[0])
    assert not same(posterior, train_posterior(prior, X, y, PLAN, warmup=0.3)[0])


@pytest.mark.parametrize(("warmup", "first_full"), [(0.0, 0), (0.25, 10), (0.5, 20), (0.95, 38)])
def test_the_weight_of_the_kl_rises_as_it_should(monkeypatch, warmup, first_full):
    """Weights that hardly move, so that the KL that the objective gets is the weight times a constant."""
    X, y = data()
    prior, given = prior_of(mlp()), []
    start = Gaussian(prior.module, prior.mean, {name: 0.1 * std for name, std in prior.std.items()})

    def spy(risk, kl, n):
        given.append(float(kl.detach()))
        return risk + kl / n

    monkeypatch.setitem(OBJECTIVES, "spy", spy)
    plan = Plan(epochs=4, batch_size=40, lr=1e-9)
    train_posterior(prior, X, y, plan, start=start, objective_name="spy", warmup=warmup)
    kl = start.kl(prior)
    assert len(given) == 40
    assert given == pytest.approx([min(1, step / (warmup * 40)) * kl if warmup else kl for step in range(40)], rel=1e-5)
    assert [value < (1 - 1e-5) * kl for value in given] == [step < first_full for step in range(40)]


def test_a_head_is_warmed_up_too():
    X, y = data()
    module = mlp()
    module[0].requires_grad_(False)
    prior = Gaussian.around(module, 0.3)
    plain, warm = (train_posterior(prior, X, y, PLAN, warmup=warmup)[0] for warmup in (0.0, 0.5))
    assert not same(plain, warm)
