"""The training loop: what it computes, when it stops, that it repeats itself exactly."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training import Plan, fit, run


def data(n=60, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.standard_normal((n, 4)) + 2 * np.eye(4)[y]
    return Data("toy", X, y, classes)


def net(seed=0, *, dropout=True):
    torch.manual_seed(seed)
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()]
    return nn.Sequential(*layers, *([nn.Dropout(0.3)] if dropout else []), nn.Linear(8, 3))


def weights(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
def test_against_a_plain_loop(optimizer, schedule):
    """The slow twin: torch's optimizer, the learning rate set by hand, even batches of a seeded shuffle."""
    plan = Plan(epochs=4, batch_size=7, optimizer=optimizer, lr=0.05, schedule=schedule, step_every=2, seed=3)
    toy, fast, slow = data(30), net(dropout=False), net(dropout=False)
    history = fit(fast, toy, plan)
    assert plan.weight_decay == 0
    optim = {"sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), "adam": lambda p: torch.optim.Adam(p, lr=0.05)}
    step = optim[optimizer](slow.parameters())
    X, y, means = torch.tensor(toy.X), torch.tensor(toy.y), []
    slow.train()
    for epoch in range(4):
        generator = torch.Generator().manual_seed(derive(3, "epoch", epoch))
        order = torch.randperm(30, generator=generator).tolist()
        total, start = 0.0, 0
        for k, size in enumerate([6, 6, 6, 6, 6]):
            progress = (epoch + k / 5) / 4
            rate = {"constant": 1.0, "cosine": 0.5 + 0.5 * math.cos(math.pi * progress), "step": 0.1 ** (epoch // 2)}
            step.param_groups[0]["lr"] = 0.05 * rate[schedule]
            rows = order[start : start + size]
            step.zero_grad()
            loss = F.cross_entropy(slow(X[rows]), y[rows])
            loss.backward()
            step.step()
            total, start = total + float(loss.detach()) * size, start + size
        means.append(total / 30)
    assert history.losses == pytest.approx(means, rel=1e-6)
    for key, value in slow.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[key], value, rtol=1e-4, atol=1e-6)


def test_nesterov_smoothing_and_augmentation_against_a_plain_loop():
    rng = np.random.default_rng(0)
    toy = Data("toy", rng.random((20, 1, 4, 4)), rng.integers(0, 3, 20), 3)
    fast, slow = (nn.Sequential(nn.Flatten(), nn.Linear(16, 3)) for _ in range(2))
    slow.load_state_dict(fast.state_dict())
    options = {"momentum": 0.8, "weight_decay": 0.01, "nesterov": True}
    fit(fast, toy, Plan(4, 10, "sgd", 0.3, schedule="triangle", seed=2, label_smoothing=0.3, augment="flip", **options))
    step = torch.optim.SGD(slow.parameters(), lr=0.3, **options)
    coins = torch.rand(20, generator=torch.Generator().manual_seed(derive(2, "flip"))) < 0.5
    for epoch in range(4):
        order = torch.randperm(20, generator=torch.Generator().manual_seed(derive(2, "epoch", epoch))).tolist()
        for k in range(2):
            progress = (2 * epoch + k) / 8
            step.param_groups[0]["lr"] = 0.3 * (0.2 + 4 * progress if progress < 0.2 else 1.25 * (1 - progress))
            loss = torch.zeros(())
            for row in order[10 * k : 10 * k + 10]:
                image = torch.tensor(toy.X[row, :, :, ::-1].copy() if coins[row] != epoch % 2 else toy.X[row])
                target = torch.full((3,), 0.1)
                target[toy.y[row]] += 0.7
                loss = loss - (target * slow(image[None])[0].log_softmax(dim=0)).sum() / 10
            step.zero_grad()
            loss.backward()
            step.step()
    for key, value in slow.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[key], value, rtol=1e-4, atol=1e-5)


def test_it_learns_and_ends_in_eval_mode():
    module = net().eval()
    history = fit(module, data(), Plan(epochs=30, batch_size=20, lr=0.02))
    assert history.epochs == 30
    assert history.losses[-1] < 0.5 * history.losses[0]
    assert not history.reached_target
    assert not any(layer.training for layer in module.modules())


def test_same_seed_same_weights_and_the_global_generator_is_untouched():
    results = []
    for seed in (5, 5, 6):
        module = net()
        torch.manual_seed(len(results))  # must not matter
        before = torch.random.get_rng_state()
        fit(module, data(), Plan(epochs=3, batch_size=16, seed=seed))
        assert torch.equal(before, torch.random.get_rng_state())
        results.append(weights(module))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def test_every_example_once_an_epoch_in_another_order_each_time():
    holder, seen = nn.Linear(1, 1), []

    def loss(batch):
        seen.append(batch.tolist())
        return holder.weight.square().sum()

    run(holder, [{"params": holder.parameters()}], loss, 23, Plan(epochs=3, batch_size=5))
    sizes = [len(batch) for batch in seen]
    assert sizes == [5, 5, 5, 4, 4] * 3
    epochs = [[k for batch in seen[5 * e : 5 * e + 5] for k in batch] for e in range(3)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert epochs[0] != list(range(23))


def test_the_epoch_loss_is_the_mean_over_examples_not_over_batches():
    holder = nn.Linear(1, 1)
    values = torch.arange(7.0)
    history = run(
        holder,
        [{"params": holder.parameters()}],
        lambda batch: values[batch].mean() + 0 * holder.weight.sum(),
        7,
        Plan(epochs=1, batch_size=3),
    )
    assert history.losses == [pytest.approx(3.0)]


def test_groups_keep_their_own_learning_rates():
    holder = nn.ParameterList([nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))])
    groups = [{"params": [holder[0]]}, {"params": [holder[1]], "lr": 0.5}]
    plan = Plan(epochs=1, batch_size=4, optimizer="sgd", momentum=0.0, lr=0.1, schedule="constant")
    run(holder, groups, lambda batch: holder[0] + holder[1], 4, plan)
    assert [p.item() for p in holder] == [pytest.approx(-0.1), pytest.approx(-0.5)]


def test_target_loss_stops_after_the_first_epoch_that_reaches_it():
    everything = fit(net(), data(), Plan(epochs=40, batch_size=20, lr=0.02, schedule="constant"))
    target = everything.losses[9]
    first = next(k for k, value in enumerate(everything.losses) if value <= target)
    stopped = fit(net(), data(), Plan(epochs=40, batch_size=20, lr=0.02, schedule="constant", target_loss=target))
    assert stopped.reached_target
    assert stopped.losses == everything.losses[: first + 1]
    never = fit(net(), data(), Plan(epochs=2, batch_size=20, lr=0.02, target_loss=-1.0))
    assert (never.epochs, never.reached_target) == (2, False)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_divergence_is_one_clear_error(optimizer):
    module = nn.Sequential(nn.Linear(4, 3))
    toy = data()
    huge = Data("huge", toy.X * 1e18, toy.y, 3)
    with pytest.raises(TrueriskError, match="diverged"):
        fit(module, huge, Plan(epochs=20, batch_size=10, lr=1e25, optimizer=optimizer, schedule="constant"))


@pytest.mark.parametrize(("n", "batch_size"), [(21, 20), (11, 10), (41, 20), (61, 5), (5, 4), (4, 3), (9, 250)])
def test_no_batch_of_one_example_breaks_batch_norm(n, batch_size):
    history = fit(net(), data(n), Plan(epochs=1, batch_size=batch_size))
    assert history.epochs == 1
    assert math.isfinite(history.losses[0])


def test_frozen_parameters_stay():
    module = net()
    module[0].weight.requires_grad_(False)
    before = weights(module)
    fit(module, data(), Plan(epochs=2, batch_size=20, lr=0.1, weight_decay=0.1))
    assert torch.equal(module[0].weight, before["0.weight"])
    assert not torch.equal(module[0].bias, before["0.bias"])


def test_weight_decay_shrinks():
    holder = nn.Linear(1, 1, bias=False)
    nn.init.ones_(holder.weight)
    plan = Plan(epochs=1, batch_size=4, optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.5, schedule="constant")
    run(holder, [{"params": holder.parameters()}], lambda batch: 0 * holder.weight.sum(), 4, plan)
    assert holder.weight.item() == pytest.approx(1 - 0.1 * 0.5)
