"""What the cushions are made of, against dense matrices, full Jacobians and loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from measures.cases import build
from measures.twins import CHAINS, dense, folded, slow_interlayer, stages
from torch import nn

from truerisk.measures import MEASURES, Subject, stability


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("budget", [2**30, 1])
def test_interlayer_cushion_against_jacobians(name, budget, images):
    few = images.take(range(7))
    subject = Subject(build(name), few, budget=budget)
    expected = slow_interlayer(folded(name)[1], torch.from_numpy(few.X).double())
    assert np.allclose(stability.interlayer(subject), expected, rtol=1e-10)
    value = MEASURES["interlayer-cushion"](subject)
    assert value.value == pytest.approx(expected.min(), rel=1e-10)
    assert list(value.layers.values()) == pytest.approx(expected.min(1)[:-1], rel=1e-10)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        nn.Conv2d(1, 2, (2, 4), padding="same"),
        nn.Conv2d(1, 2, 3, dilation=2, bias=False),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same'")  # of an even kernel: more zeros on one side
def test_a_convolution_counts_each_use_of_a_weight(conv, images):
    torch.manual_seed(0)
    conv = conv.double()
    width = conv(torch.zeros(1, 1, 8, 8, dtype=torch.float64)).numel()
    net = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(width, 3)).double()
    norm = stability.chain(Subject(net, images)).norms[0]
    assert norm == pytest.approx(dense(conv, torch.zeros(1, 1, 8, 8, dtype=torch.float64)).norm().item(), rel=1e-12)


def test_wide_layers_are_estimated(images, monkeypatch):
    """256 random signs: the relative deviation of ||J||_F^2 is at most sqrt(2/256) = 9 %, of ||J||_F half of that.

    The smallest of ten is asked for within 20 %, 4.5 deviations: false alarms under 1 in 1000; the seed is fixed.
    """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 400), nn.ReLU(), nn.Linear(400, 3))
    few = images.take(range(10))
    estimate = stability.interlayer(Subject(net, few))
    monkeypatch.setattr(stability, "PROBES", 1000)
    exact = stability.interlayer(Subject(net, few))
    assert estimate[0, 2] == exact[0, 2]  # three outputs: no estimate
    assert estimate[0, 1] != exact[0, 1]
    assert float(estimate[0, 1]) == pytest.approx(float(exact[0, 1]), rel=0.2)


@pytest.mark.parametrize("name", CHAINS)
def test_smoothness_against_loops(name, images):
    subject = Subject(build(name), images)
    parts = stability.chain(subject)
    functions = stages(folded(name)[1])[0]
    generator = torch.Generator().manual_seed(0)
    for x in torch.from_numpy(images.X[:5]).double():
        values = list(itertools.accumulate(functions, lambda v, f: f(v), initial=x[None]))[1:]
        for i in range(len(functions) - 1):
            noise = torch.randn(parts.widths[i], generator=generator, dtype=torch.float64)
            eta = (0.1 * values[i].norm() / noise.norm() * noise).reshape(values[i].shape)
            found = stability._roughness(parts, i, x, noise)
            for k, j in enumerate(range(i + 1, len(functions))):
                onward = nn.Sequential(*functions[i + 1 : j + 1])
                J = torch.autograd.functional.jacobian(onward, values[i].detach()).reshape(values[j].numel(), -1)
                off = (onward(values[i] + eta) - values[j]).flatten() - J @ eta.flatten()
                expected = off.norm() * values[i].norm() / (eta.norm() * values[j].norm())
                assert found[k].item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-12)


def test_smoothness_is_what_all_but_one_in_twenty_reach(images, monkeypatch):
    subject = Subject(build("mlp"), images)
    seen = []
    monkeypatch.setattr(stability, "_roughness", lambda parts, i, x, noise: seen.append(i) or noise[:1].abs())
    found = stability.smoothness(subject)
    noise = torch.randn(240, 12, generator=subject.generator("smoothness")).double()[:, 0].abs()
    assert float(found[0, 1]) == pytest.approx(1 / float(noise.sort().values[-12]), rel=1e-12)  # 228th of 240
    assert seen
