"""The loss of a network at any point of a plane: weights are set in place, nothing is copied or loaded.

Three things make it faster than loading a state dict and running the network: weights are written where they are, in
two passes and without a dictionary; no graph is recorded; and convolutions run in torch's channels-last layout, where
that gives the same outputs, which is two to four times as fast on a processor.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from truerisk.errors import TrueriskError
from truerisk.landscape.planes import Plane
from truerisk.nets.evaluate import as_input, precision

CHUNK = 500  # examples at a time
IMAGES = 100  # the same for convolutions, whose values are many
RADII, HALVINGS = 14, 5  # of a search along a ray
SAME = 1e-4  # relative difference of outputs that another layout may have, by rounding


class Probe:
    """A copy of a network in eval mode (batch norms use their stored statistics, dropout is off) on a plane.

    >>> from truerisk.landscape.directions import weights_of
    >>> from truerisk.landscape.planes import line
    >>> net = nn.Linear(2, 2)
    >>> probe = Probe(net, np.ones((4, 2), np.float32), np.array([0, 1, 0, 1]), line(weights_of(net)))
    >>> loss, error = probe.at(0.0, 0.0)
    >>> expected = F.cross_entropy(net(torch.ones(4, 2)), torch.tensor([0, 1, 0, 1]))
    >>> round(loss, 5) == round(expected.item(), 5)
    True
    """

    def __init__(self, module: nn.Module, X: np.ndarray, y: np.ndarray, plane: Plane) -> None:
        self.module = copy.deepcopy(module).eval()
        x = as_input(X, precision(module))
        chunk = IMAGES if any(isinstance(m, _ConvNd) for m in self.module.modules()) else CHUNK
        if x.ndim == 4 and chunk == IMAGES:
            self.module, x = _channels_last(self.module, x)
        labels = torch.from_numpy(np.ascontiguousarray(y)).long()
        self.batches = list(zip(x.split(chunk), labels.split(chunk), strict=True))
        self.n, self.is_line = len(labels), plane.second is None
        parameters = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        self.moves = []
        for name, d in plane.first.items():
            p = parameters[name].detach()
            e = None if plane.second is None else _like(plane.second[name], p)
            if bool(d.any()) or (e is not None and bool(e.any())):
                self.moves.append((p, p.clone(), _like(d, p), e))

    def at(self, a: float, b: float = 0.0) -> tuple[float, float]:
        """(mean cross-entropy, error rate) at w + a d1 + b d2. A loss that is not finite is NaN.

        A tie or an output that is not a number counts as an error.
        """
        total, wrong = 0.0, 0
        with torch.no_grad():
            self.move(a, b)
            for x, label in self.batches:
                logits = self.module(x)
                losses = F.cross_entropy(logits, label, reduction="none")
                highest = (logits >= logits.gather(1, label[:, None])).sum(1) == 1  # the label's output alone
                total += float(losses.sum(dtype=torch.float64))
                wrong += len(label) - int((highest & losses.isfinite()).sum())
        return (total / self.n if np.isfinite(total) else float("nan")), wrong / self.n

    def rays(self, reach: tuple[float, float], factor: float = 2.0) -> list[float]:
        """Distance at which the loss reaches ``factor`` times its value, along eight rays (on a line: two).

        Radii double from 2^-14 of the reach on until the loss is that high; then the interval is halved, on the scale
        of logarithms, to 2%. Infinite where the loss stays below up to the reach; NaN where it is 0 at the network.
        """
        level = factor * self.at(0.0, 0.0)[0]
        angles = [0.0, math.pi] if self.is_line else [k * math.pi / 4 for k in range(8)]
        return [self._ray(reach[0] * math.cos(t), reach[1] * math.sin(t), level) for t in angles]

    def _ray(self, a: float, b: float, level: float) -> float:
        if not level > 0:
            return math.nan
        high = next((r for r in (2.0**k for k in range(-RADII, 1)) if not self.at(r * a, r * b)[0] < level), math.inf)
        if high == math.inf:
            return math.inf
        low = high / 2
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.at(middle * a, middle * b)[0] < level else (low, middle)
        return high * math.hypot(a, b)

    def move(self, a: float, b: float) -> None:
        """Set the weights to w + a d1 + b d2."""
        for p, center, d, e in self.moves:
            torch.add(center, d, alpha=a, out=p)
            if e is not None and b:
                p.add_(e, alpha=b)

    def outputs(self) -> Tensor:
        """Outputs at the weights themselves."""
        with torch.no_grad():
            self.move(0.0, 0.0)
            return torch.cat([self.module(x) for x, _ in self.batches])


def _like(direction: Tensor, weight: Tensor) -> Tensor:
    """A direction in the dtype and the memory layout of its weight."""
    if direction.shape != weight.shape:
        raise TrueriskError("a direction has other shapes than the weights; make it for this network.")
    return torch.empty_like(weight).copy_(direction)


def _channels_last(module: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor]:
    """In the layout that convolutions like, if the network computes the same in it."""
    few = x[:4]
    with torch.no_grad():
        before = module(few)
        try:
            other = copy.deepcopy(module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            after = other(few.contiguous(memory_format=torch.channels_last))
        except Exception:  # a view that needs the usual layout, say: networks complain in their own ways
            return module, x
    same = before.shape == after.shape and bool(
        ((after - before).abs().max() <= SAME * before.abs().max().clamp_min(1e-30)).item()
    )
    return (other, x.contiguous(memory_format=torch.channels_last)) if same else (module, x)
