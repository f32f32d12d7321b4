"""The loss on a grid over a plane: weights set in place, against ``load_state_dict`` and a forward pass per point."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.timing import Row, in_turns
from truerisk.landscape import Plane, random_plane, weights_of
from truerisk.landscape.probe import Probe
from truerisk.landscape.surface import axes
from truerisk.nets.skips import skip_network

SIZE = 9
OPPONENT = "load_state_dict, forward, cross_entropy, for each point"


def rows() -> list[Row]:
    return [
        _compare("convnet, 16 and 32 channels, 28 x 28 pixels", _convnet(), (1, 28, 28), 200),
        _compare("22 dense layers with batch norm and skips", skip_network((64,), 10, 10, 32, skips=True), (64,), 200),
        _compare("mlp:64-64", _mlp(), (64,), 500),
    ]


def _convnet() -> nn.Module:
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(800, 10))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _compare(what: str, net: nn.Module, shape: tuple[int, ...], n: int) -> Row:
    torch.manual_seed(0)
    net.eval()
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, *shape)).astype(np.float32), rng.integers(0, 10, n)
    plane = random_plane(weights_of(net), reach=0.5)
    times = in_turns(lambda: _ours(net, X, y, plane), lambda: _plain(net, X, y, plane), repeats=5)
    apart = float(np.abs(_ours(net, X, y, plane) / _plain(net, X, y, plane) - 1).max())
    note = f"{SIZE} x {SIZE} points, {n} examples, one core; losses differ by at most {apart:.0e}"
    return Row(f"loss surface, {what}", OPPONENT, *times, note=note)


def _ours(net: nn.Module, X: np.ndarray, y: np.ndarray, plane: Plane) -> np.ndarray:
    probe, (across, up) = Probe(net, X, y, plane), axes(plane, SIZE)
    return np.array([[probe.at(float(a), float(b))[0] for a in across] for b in up])


def _plain(net: nn.Module, X: np.ndarray, y: np.ndarray, plane: Plane) -> np.ndarray:
    module, start = copy.deepcopy(net), {name: p.detach().clone() for name, p in net.state_dict().items()}
    x, labels = torch.from_numpy(X), torch.from_numpy(y)
    second = plane.second
    assert second is not None
    steps = (plane.reach[0] * np.linspace(-1, 1, SIZE)).tolist()
    found = np.zeros((SIZE, SIZE))
    with torch.no_grad():
        for i, b in enumerate(steps):
            for j, a in enumerate(steps):
                moved = {name: start[name] + a * d + b * second[name] for name, d in plane.first.items()}
                module.load_state_dict({**start, **moved})
                logits = module(x)
                found[i, j] = float(F.cross_entropy(logits, labels))
                (logits.argmax(1) != labels).double().mean()
    return found
