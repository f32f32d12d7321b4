"""One pass over the per-example gradients, of which only sums and norms are kept.

    g_i = gradient of the cross-entropy of example i with respect to all trainable parameters

A batch of gradients is held at a time, as many as fit into the budget of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from truerisk import progress
from truerisk.nets.evaluate import quiet_vmap

CHUNK, NEAR = 64, 2**26  # rows and bytes of a chunk


@dataclass(frozen=True)
class Gradients:
    """What is kept of the gradients of m examples, in float64."""

    total: dict[str, Tensor]  # sum over i of g_i, by parameter
    squares: dict[str, Tensor]  # ||g_i||^2 of each example, by parameter
    along: Tensor  # <w, g_i> of each example

    @property
    def count(self) -> int:
        return len(self.along)

    @property
    def squared_norms(self) -> Tensor:
        """||g_i||^2 over all parameters."""
        return torch.stack(list(self.squares.values())).sum(0)

    @property
    def variances(self) -> dict[str, float]:
        """(1/m) sum_i ||g_i - g||^2 = (1/m) sum_i ||g_i||^2 - ||g||^2 with the mean gradient g, by parameter."""
        means = {name: (t / self.count).square().sum() for name, t in self.total.items()}
        return {name: max(0.0, float(self.squares[name].mean() - mean)) for name, mean in means.items()}

    @property
    def squared_total(self) -> float:
        """||sum of g_i||^2."""
        return float(sum(t.square().sum() for t in self.total.values()))


def gradients(module: nn.Module, X: Tensor, y: Tensor, budget: int) -> Gradients:
    """All of it, in chunks of at most ``budget`` bytes.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> found = gradients(net, torch.eye(2), torch.tensor([0, 1]), budget=10**6)
    >>> found.count, found.total["weight"].shape
    (2, torch.Size([2, 2]))
    """
    weights = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    rest = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    rest |= dict(module.named_buffers())

    def loss(own: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(module, own | rest, (x[None],))
        return F.cross_entropy(logits, label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    one = sum(w.numel() * w.element_size() for w in weights.values())
    # twice: autograd keeps as much again; small chunks stay near the processor, which is twice as fast
    rows = max(1, min(len(X), CHUNK, min(budget, NEAR) // (2 * max(1, one))))
    total = {name: torch.zeros_like(w, dtype=torch.float64) for name, w in weights.items()}
    squares: dict[str, list[Tensor]] = {name: [] for name in weights}
    along = []
    with progress.bar("per-example gradients", len(X)) as advance, quiet_vmap():
        for start in range(0, len(X), rows):
            chunk = each(weights, X[start : start + rows], y[start : start + rows])
            inner = torch.zeros(len(X[start : start + rows]), dtype=torch.float64)
            for name, g in chunk.items():
                flat = g.flatten(1).double()
                total[name] += flat.sum(0).reshape(total[name].shape)
                squares[name].append(flat.square().sum(1))
                inner += flat @ weights[name].flatten().double()
            along.append(inner)
            advance(len(inner))
    return Gradients(total, {name: torch.cat(parts) for name, parts in squares.items()}, torch.cat(along))
