"""Recurrent cells, and how far a change of their first state reaches: the norm of d h_T / d h_0.

    tanh         h <- tanh(W h + U x + b), W and U uniform as torch's default (variance 1 / (3 hidden))
    orthogonal   h <- tanh(W h + U x + b), W orthogonal (Saxe et al. 2014)
    lstm         Hochreiter and Schmidhuber (1997) with forget gates, whose biases start at ``forget``

The derivative is a product of one Jacobian per step, so that it vanishes or explodes exponentially unless their norms
stay near 1 (Bengio, Simard and Frasconi 1994; Pascanu, Mikolov and Bengio 2013). The state of an LSTM is h and c
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from truerisk.errors import TrueriskError

CELLS = ("tanh", "orthogonal", "lstm")


class Recurrent(nn.Module):
    """Reads a sequence (examples, steps, inputs) and classifies by its last hidden state.

    >>> net = Recurrent("lstm", inputs=2, hidden=8, classes=3)
    >>> net(torch.zeros(5, 20, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(self, cell: str, inputs: int, hidden: int, classes: int, forget: float = 1.0) -> None:
        super().__init__()
        if cell not in CELLS:
            raise TrueriskError(f"the cell is {cell!r}, but must be one of {', '.join(CELLS)}.")
        self.cell, self.hidden = cell, hidden
        make: Any = nn.LSTM if cell == "lstm" else nn.RNN
        self.core: Any = make(inputs, hidden, batch_first=True)
        self.last = nn.Linear(hidden, classes)
        with torch.no_grad():
            if cell == "orthogonal":
                nn.init.orthogonal_(self.core.weight_hh_l0)
                self.core.bias_ih_l0.zero_()
                self.core.bias_hh_l0.zero_()
            elif cell == "lstm":  # gates in torch's order: input, forget, cell, output; two biases are added
                self.core.bias_ih_l0[hidden : 2 * hidden] = forget
                self.core.bias_hh_l0[hidden : 2 * hidden] = 0.0

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.core(x)
        logits: Tensor = self.last(out[:, -1])
        return logits

    def step(self, state: Tensor, x: Tensor) -> Tensor:
        """The next state of one example: h, or h and c of an LSTM one after the other."""
        core = self.core
        if self.cell != "lstm":
            sums = core.weight_ih_l0 @ x + core.bias_ih_l0 + core.weight_hh_l0 @ state + core.bias_hh_l0
            return torch.tanh(sums)
        h, c = state.split(self.hidden)
        sums = core.weight_ih_l0 @ x + core.bias_ih_l0 + core.weight_hh_l0 @ h + core.bias_hh_l0
        take, keep, new, show = sums.split(self.hidden)
        c = keep.sigmoid() * c + take.sigmoid() * new.tanh()
        return torch.cat([show.sigmoid() * c.tanh(), c])

    @property
    def states(self) -> int:
        return self.hidden * (2 if self.cell == "lstm" else 1)


@torch.no_grad()
def state_derivatives(net: Recurrent, x: Tensor, at: Sequence[int]) -> Tensor:
    """Log of the spectral norm of d(state after T steps) / d(state 0), for each T in ``at`` and example, from state 0.

    The product of Jacobians is kept as a matrix of norm 1 and the logarithm of a factor, so that nothing underflows.
    """
    if not at or min(at) < 1 or max(at) > x.shape[1]:
        raise TrueriskError(f"steps {list(at)} must lie between 1 and {x.shape[1]}; give a longer sequence.")
    net = net.double()
    x = x.double()
    state = torch.zeros(len(x), net.states, dtype=torch.float64)
    product = torch.eye(net.states, dtype=torch.float64).expand(len(x), -1, -1)
    logs = torch.zeros(len(x), dtype=torch.float64)
    found = {}
    for t in range(max(at)):
        product = vmap(jacrev(net.step))(state, x[:, t]) @ product
        state = vmap(net.step)(state, x[:, t])
        size = product.flatten(1).norm(dim=1)
        logs += size.log()
        product = product / size.clamp_min(torch.finfo(torch.float64).tiny)[:, None, None]
        if t + 1 in at:
            found[t + 1] = logs + torch.linalg.matrix_norm(product, 2).log()
    return torch.stack([found[t] for t in at])
