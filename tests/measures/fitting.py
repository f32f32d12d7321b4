"""Networks that get their examples right, for measures that divide by margins or look for what spoils answers."""

from __future__ import annotations

import torch
from torch import nn

from truerisk.data import Data

RECORD = {"steps_to_0.1": 100, "steps_0.1_to_0.01": 50, "gradient_variance_first_epoch": 0.5}


def fitted(net: nn.Module, data: Data, steps: int = 100) -> nn.Module:
    """The network itself, after some steps on all of the data. It must be in float64 and in eval mode."""
    x, y = torch.from_numpy(data.X).double(), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net
