"""The distributions of margins that the page of measures draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.data import Data
from truerisk.measures import Subject
from truerisk.measures.margin_shapes import histogram, margin_panels, misclassified


def test_bins_meet_at_zero():
    """A margin of 0 is an error; each example is in one bin, on the right side of the border."""
    margins = np.array([-3.0, -0.1, 0.0, 1e-9, 2.0, 9.0])
    found, step = histogram(margins, 30)
    assert step == pytest.approx(12 / 30)
    assert sum(each.share for each in found if each.wrong) == pytest.approx(misclassified(margins) / 6) == 3 / 6
    assert sum(each.share for each in found) == pytest.approx(1)
    assert all(each.wrong == (each.end <= 0) for each in found)
    assert histogram(np.zeros(5), 30)[0][0].share == 1.0


def test_panels_of_a_network_without_a_chain():
    """Where a normalization is not defined its panel is left out; the plain margins are always there."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.two(torch.relu(self.one(x) + x))

    rng = np.random.default_rng(0)
    data = Data("d", rng.normal(size=(20, 4)), np.arange(20) % 3, 3)
    titles = list(margin_panels(Subject(Twice(), data)))
    assert titles[0] == "margins"
    assert "over spectral complexity" not in titles
    chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    assert len(margin_panels(Subject(chain, data))) == 3
