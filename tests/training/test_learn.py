"""`learn`: the same examples in every epoch, honest counts, and the right time of fitting."""

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.data import Data, corrupt_labels, load, random_labels
from truerisk.nets import mlp
from truerisk.seeds import seeded_globals
from truerisk.training import Plan, learn

DIGITS = load("digits")
TRAIN, TEST = DIGITS.take(np.arange(203)), DIGITS.take(np.arange(300, 400))  # 203: batches of uneven size
PLAN = Plan(epochs=4, batch_size=50, optimizer="sgd", lr=0.05, schedule="constant", seed=3)


def network(shape=(1, 8, 8)):
    with seeded_globals(0):
        return mlp(shape, 10, (64,))


class Recorder(nn.Module):
    """Keeps what it is given in training mode and in eval mode."""

    def __init__(self):
        super().__init__()
        self.inner, self.seen = network(), {True: [], False: []}

    def forward(self, x):
        self.seen[self.training].append(x.detach().clone())
        return self.inner(x)


def pairs(inputs, labels):
    return sorted((x.tobytes(), int(y)) for x, y in zip(inputs, labels, strict=True))


def test_every_epoch_sees_the_same_examples_with_the_same_labels(monkeypatch):
    seen = []
    entropy = nn.functional.cross_entropy

    def spy(logits, labels):
        seen.append(labels.clone())
        return entropy(logits, labels)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", spy)
    treated = corrupt_labels(TRAIN, 0.5, seed=1)
    module = Recorder()
    learn(module, treated, TEST, PLAN, until_error=None)
    inputs = [x.numpy() for x in module.seen[True]]
    assert len(inputs) == len(seen) == 4 * 5  # ceil(203 / 50) batches in each of 4 epochs
    truth = pairs(treated.X, treated.y)
    orders = set()
    for epoch in range(4):
        batches = slice(5 * epoch, 5 * epoch + 5)
        x, y = np.concatenate(inputs[batches]), np.concatenate([labels.numpy() for labels in seen[batches]])
        assert pairs(x, y) == truth
        orders.add(x.tobytes())
    assert len(orders) == 4  # only their order changes


def test_augmentation_touches_training_batches_only():
    module = Recorder()
    learn(module, TRAIN, TEST, PLAN, until_error=None, augment=lambda x: x + 100.0)
    assert all(x.min() >= 100 for x in module.seen[True])
    assert all(x.max() <= 1 for x in module.seen[False])


def test_fitted_step_is_the_first_count_at_which_the_errors_are_few_enough():
    plan = Plan(epochs=200, batch_size=50, optimizer="sgd", lr=0.1, schedule="constant")
    whole = learn(network(), TRAIN, TEST, plan, until_error=None)
    assert whole.fitted_step is None
    assert whole.steps == list(range(0, 1001, 5))
    assert len(whole.train_loss) == 200
    for limit, every in ((0.0, 1), (0.3, 1), (0.0, 7)):
        curve = learn(network(), TRAIN, TEST, plan, until_error=limit, every=every)
        first = next(s for s, e in zip(whole.steps[::every], whole.train_error[::every], strict=True) if e <= limit)
        assert curve.fitted_step == curve.steps[-1] == first < 1000
        assert all(error > limit for error in curve.train_error[:-1])
        assert curve.test_error == whole.test_error[: first // 5 + 1 : every]  # watching less changes no weight


def test_errors_are_those_of_the_network_at_that_moment():
    module, counted = network(), []

    def watch(epochs):
        assert not module.training
        with torch.no_grad():
            found = [module(torch.from_numpy(d.X)).argmax(1).numpy() != d.y for d in (TRAIN, TEST)]
        counted.append((epochs, found[0].mean(), found[1].mean()))

    curve = learn(module, TRAIN, TEST, PLAN, until_error=None, every=3, watch=watch)
    assert [epochs for epochs, _, _ in counted] == [0, 3, 4]  # the last one even if it is not due
    assert curve.train_error == pytest.approx([a for _, a, _ in counted])
    assert curve.test_error == pytest.approx([b for _, _, b in counted])
    assert curve.best_test_error == min(curve.test_error)


def test_a_network_that_is_right_from_the_start_is_not_trained():
    module = network()
    labels = module(torch.from_numpy(TRAIN.X)).argmax(1).numpy()
    before = [p.clone() for p in module.parameters()]
    curve = learn(module, Data("own labels", TRAIN.X, labels, 10), TEST, PLAN)
    assert curve.fitted_step == 0
    assert not module.training
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_the_end_is_counted_when_the_target_loss_stops_between_two_counts():
    plan = Plan(epochs=50, batch_size=50, optimizer="sgd", lr=0.1, schedule="constant", target_loss=1.0)
    curve = learn(network(), TRAIN, TEST, plan, every=50)
    assert len(curve.steps) == 2
    assert 0 < curve.steps[-1] == 5 * len(curve.train_loss) < 250
    assert curve.train_error[-1] < curve.train_error[0]


def test_divergence_is_flagged_and_ends_the_training():
    plan = Plan(epochs=4, batch_size=50, optimizer="sgd", lr=1e30, schedule="constant")
    curve = learn(network(), TRAIN, TEST, plan)
    assert curve.diverged
    assert curve.fitted_step is None
    assert curve.steps == [0]


def test_same_seed_same_curve():
    treated = random_labels(TRAIN, seed=0)
    one, two = (learn(network(), treated, TEST, PLAN) for _ in range(2))
    other = learn(network(), treated, TEST, Plan(**{**PLAN.record(), "seed": 4}))
    assert one == two
    assert one.train_loss != other.train_loss
