"""Networks that came trained, for tests of what is certified about them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from truerisk.data import Data
from truerisk.nets import mlp


def trained(data: Data, hidden: int, steps: int, lr: float) -> nn.Module:
    """A network that knows ``data`` well: full-batch Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = mlp(data.input_shape, data.classes, hidden=(hidden,))
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    return net
