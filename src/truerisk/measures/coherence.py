"""Do the gradients of single examples point the same way? (Chatterjee 2020; Chatterjee and Zielinski 2020.)

With g_1, ..., g_m the gradients of the losses of m examples, and S their sum:

    m-coherence            ||S||^2 / sum over i of ||g_i||^2           from 0 (they cancel) to m (all equal)
    share of a group A     sum over i in A of <g_i, S> / ||S||^2       shares of groups that cover all add up to 1
    alignment              cos(g_i, S) = <g_i, S> / (||g_i|| ||S||)
    transfer               (m-coherence - 1) / (m - 1)

Orthogonal gradients have m-coherence 1. To first order, a step on one example lowers the loss of another one by
``transfer`` times as much as its own, on average: sum over i != j of <g_i, g_j> is ||S||^2 - sum ||g_i||^2.

All of it follows from <g_i, S> and ||g_i||^2, so two passes over the examples are enough, and no tensor of examples x
weights is made. m-coherence does not change if all gradients are scaled, but zeros dilute it, and it is about examples:
gradients of batches have a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import quiet_vmap
from truerisk.nets.signals import Batch, Loss, cross_entropies, each_loss, per_example, refuse_mixing, signals

ROWS, MEMORY = 1000, 2**26  # examples, and bytes of per-example gradients of layers that are not linear, at a time
COPIES = 4  # tensors of that size while they are computed


@dataclass(frozen=True)
class Coherence:
    """<g_i, S> and ||g_i||^2 of m examples by parameter, in float64."""

    inner: dict[str, Tensor]
    squares: dict[str, Tensor]

    @property
    def count(self) -> int:
        return len(next(iter(self.inner.values())))

    @property
    def m_coherence(self) -> float:
        """||S||^2 / sum ||g_i||^2; 0 where all gradients are 0."""
        return _ratio(sum(one.sum() for one in self.inner.values()), sum(one.sum() for one in self.squares.values()))

    @property
    def layers(self) -> dict[str, float]:
        """m-coherence of the gradients of one layer's parameters, by the layer's name."""
        names = {name: name.rpartition(".")[0] for name in self.inner}
        return {
            layer: _ratio(
                sum(self.inner[name].sum() for name, own in names.items() if own == layer),
                sum(self.squares[name].sum() for name, own in names.items() if own == layer),
            )
            for layer in dict.fromkeys(names.values())
        }

    @property
    def transfer(self) -> float:
        """Loss that a small step on one example removes from another one, over what it removes from its own."""
        return (self.m_coherence - 1) / (self.count - 1) if self.count > 1 else 0.0

    @property
    def with_sum(self) -> Tensor:
        """<g_i, S> over all parameters."""
        return torch.stack(list(self.inner.values())).sum(0)

    @property
    def alignments(self) -> Tensor:
        """cos(g_i, S); 0 where a gradient or the sum is 0."""
        norms = torch.stack(list(self.squares.values())).sum(0).sqrt()
        length = self.with_sum.sum().clamp(min=0).sqrt()
        return torch.where(norms * length > 0, self.with_sum / (norms * length), 0.0).clamp(-1, 1)

    def share(self, group: Tensor) -> Tensor:
        """Share of the squared sum that comes from a group: a mask of examples, or rows of masks.

        >>> twice = Coherence({"w": torch.tensor([6.0, 3.0])}, {"w": torch.tensor([4.0, 1.0])})  # of 2 and 1
        >>> twice.m_coherence, round(float(twice.share(torch.tensor([True, False]))), 4)
        (1.8, 0.6667)
        """
        own = self.with_sum
        return group.to(own.dtype) @ own / own.sum()


def coherence(
    module: nn.Module, X: Tensor, y: Tensor, loss: Loss = cross_entropies, memory: int = MEMORY, rows: int = ROWS
) -> Coherence:
    """Two passes over the examples, ``rows`` at a time: the sum of the gradients, then each example against it.

    Layers that are not linear go through ``vmap``, with at most about ``memory`` bytes of per-example gradients.

    >>> found = coherence(nn.Linear(2, 2, bias=False), torch.eye(2), torch.tensor([0, 1]))
    >>> round(found.m_coherence, 6)  # inputs are orthogonal, so gradients are
    1.0
    """
    if not len(X):
        raise TrueriskError("there are no examples, so no gradient has a direction; give at least one.")
    total: dict[str, Tensor] = {}
    squares: dict[str, list[Tensor]] = {}
    for batch, x, labels in _batches(module, X, y, loss, rows):
        for name, own in batch.total.items():
            total[name] = total.get(name, 0.0) + own.double()
        for one in batch.signals:
            sizes = one.deltas.double().square().sum(1)
            squares.setdefault(one.weight, []).append(sizes * one.inputs.double().square().sum(1))
            if one.bias:
                squares.setdefault(one.bias, []).append(sizes)
        for name, own in _rest(module, batch, x, labels, loss, memory):
            squares.setdefault(name, []).append(own.double().square().sum(1))
    inner: dict[str, list[Tensor]] = {name: [] for name in total}
    for batch, x, labels in _batches(module, X, y, loss, rows):
        for one in batch.signals:
            deltas = one.deltas.double()
            inner[one.weight].append(((deltas @ total[one.weight]) * one.inputs.double()).sum(1))
            if one.bias:
                inner[one.bias].append(deltas @ total[one.bias])
        for name, own in _rest(module, batch, x, labels, loss, memory):
            inner[name].append(own.double() @ total[name].flatten())
    return Coherence(*({name: torch.cat(parts[name]) for name in total} for parts in (inner, squares)))


def one_step(
    module: nn.Module, x: Tensor, y: Tensor, others: Tensor, labels: Tensor, lr: float, loss: Loss = cross_entropies
) -> tuple[Tensor, Tensor]:
    """Loss that one step of SGD on a single example removes: from its own, and from that of others, on average.

    Each example of ``x`` gets a step of its own, w - lr g_i, from the same weights and an entry in both results.

    >>> x, y = torch.eye(2), torch.tensor([0, 1])
    >>> own, other = one_step(nn.Linear(2, 2, bias=False), x, y, x.flip(0)[:1], y.flip(0)[:1], lr=0.1)
    >>> bool((own > 0).all()), bool(other[0] == 0)  # the second example shares no feature with the first
    (True, True)
    """
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    start = {name: p.detach() for name, p in module.named_parameters()}
    gradients = next(per_example(module, names, x, y, loss, rows=len(x)))
    moved = {name: start[name] - lr * own for name, own in gradients.items()}

    def after(weights: dict[str, Tensor], one: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        def losses(inputs: Tensor, targets: Tensor) -> Tensor:
            outputs = functional_call(module, {**start, **weights}, (inputs,))
            return each_loss(loss, outputs, targets, len(inputs)).mean()

        return losses(one[None], label[None]), losses(others, labels)

    with torch.no_grad(), quiet_vmap():
        own, other = vmap(after, chunk_size=16)(moved, x, y)
        before = each_loss(loss, module(x), y, len(x)), each_loss(loss, module(others), labels, len(others)).mean()
    return before[0] - own, before[1] - other


def _batches(module: nn.Module, X: Tensor, y: Tensor, loss: Loss, rows: int) -> Iterator[tuple[Batch, Tensor, Tensor]]:
    for first in range(0, len(X), rows):
        x, labels = X[first : first + rows], y[first : first + rows]
        yield signals(module, x, labels, loss), x, labels


def _rest(
    module: nn.Module, batch: Batch, x: Tensor, y: Tensor, loss: Loss, memory: int
) -> Iterator[tuple[str, Tensor]]:
    """Per-example gradients of parameters that no signal covers, flat: some examples of one parameter at a time."""
    weights = dict(module.named_parameters())
    for name in batch.rest:
        rows, found = max(1, memory // (COPIES * 8 * weights[name].numel())), torch.zeros(())
        norms = torch.zeros(())
        for one in per_example(module, [name], x, y, loss, rows):
            found, norms = found + one[name].sum(0), norms + one[name].flatten(1).norm(dim=1).sum()
            yield name, one[name].flatten(1)
        refuse_mixing(name, found, batch.total[name], norms)


def _ratio(above: Tensor | float, below: Tensor | float) -> float:
    return float(above) / float(below) if float(below) > 0 else 0.0
