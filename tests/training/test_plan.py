"""Plans: schedules against their definitions, nonsense refused."""

import json
import math

import pytest

from truerisk.errors import TrueriskError
from truerisk.training import Plan


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_constant_and_cosine(progress):
    assert Plan(schedule="constant").rate(progress) == 1.0
    assert Plan(schedule="cosine").rate(progress) == pytest.approx(math.cos(math.pi * progress / 2) ** 2)


@pytest.mark.parametrize(
    ("progress", "factor"), [(0.0, 0.2), (0.05, 0.4), (0.1, 0.6), (0.2, 1.0), (0.4, 0.75), (0.8, 0.25), (1.0, 0.0)]
)
def test_the_triangle_rises_from_a_fifth_for_a_fifth_and_falls_to_zero(progress, factor):
    assert Plan(schedule="triangle").rate(progress) == pytest.approx(factor, abs=1e-12)


@pytest.mark.parametrize(("epochs", "every"), [(20, 10), (20, 7), (3, 1), (30, 50), (7, 3)])
def test_step_falls_after_every_so_many_whole_epochs(epochs, every):
    plan = Plan(schedule="step", epochs=epochs, step_every=every, step_factor=0.5)
    steps = 13
    for epoch in range(epochs):
        for step in (0, 6, 12):
            progress = (epoch * steps + step) / (epochs * steps)
            assert plan.rate(progress) == 0.5 ** (epoch // every), (epoch, step)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": -1},
        {"batch_size": 0},
        {"step_every": 0},
        {"lr": 0.0},
        {"lr": -1.0},
        {"lr": math.nan},
        {"lr": math.inf},
        {"optimizer": "lion"},
        {"schedule": "linear"},
        {"nesterov": True},
        {"nesterov": True, "optimizer": "sgd", "momentum": 0.0},
        {"label_smoothing": 1.0},
        {"label_smoothing": -0.1},
        {"label_smoothing": math.nan},
        {"augment": "crop"},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(TrueriskError):
        Plan(**wrong)


def test_the_record_is_plain_and_complete():
    plan = Plan(epochs=3, lr=0.5, target_loss=0.1, seed=4, augment="shift:1", label_smoothing=0.2)
    assert Plan(**json.loads(json.dumps(plan.record()))) == plan
