"""SGD that listens to many examples: winsorized gradients, and medians of means.

Plain SGD steps along the mean of the gradients g_1, ..., g_B of a batch, so one example with a large gradient can move
a weight alone. Two means that it cannot move as far, both for each weight (coordinate) by itself:

**Winsorized SGD** (Chatterjee 2020). With g_(1) <= ... <= g_(B) the gradients of one weight in order,

    l = g_(c+1)     u = g_(B-c)     mean over i of min(max(g_i, l), u)

The c smallest are raised to the next one, the c largest lowered: c is a number of examples on each side, whatever the
size of the batch. In the paper batches have 100 examples, and c is a percentile. c = 0 is plain SGD; c = (B-1)/2 is the
median. 2c must be smaller than B.

**Median of means** (Zielinski, Krishnan and Chatterjee 2020, arXiv 2003.07422): the median over three means. M3 cuts a
batch into three parts; RM3 takes the means of the last three batches, which costs no more than plain SGD.

Clipping is on both sides, also where all gradients agree, so the step is biased and may not lower the loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.signals import (
    Loss,
    cross_entropies,
    each_loss,
    per_example,
    refuse_batch_norm,
    refuse_mixing,
    signals,
)
from truerisk.training.loop import DivergedError

MEMORY = 2**26  # bytes
NEAR = 2**20  # bytes: what stays near the processor is sorted faster
COPIES = 4  # tensors of the size of per-example gradients that torch holds while it computes them


class _Robust(ABC):
    """``step`` puts a gradient other than the mean into ``torch.optim.SGD``, which is ``optimizer``."""

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        loss: Loss = cross_entropies,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self.model, self.loss = model, loss
        self.weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.weights:
            raise TrueriskError("the network has no trainable parameter; call requires_grad_(True) on those to train.")
        self.optimizer = torch.optim.SGD(self.weights.values(), lr=lr, momentum=momentum, weight_decay=weight_decay)

    def step(self, x: Tensor, y: Tensor) -> float:
        """One step on a batch; returns its mean loss before the step."""
        if len(x) == 0 or len(x) != len(y):
            raise TrueriskError(f"the batch has {len(x)} inputs and {len(y)} targets; give one target for each input.")
        loss, gradient = self.gradient(x, y)
        if not np.isfinite(loss):
            raise DivergedError(f"the loss of a batch is {loss}; lower the learning rate.")
        for name, weight in self.weights.items():
            weight.grad = gradient[name]
        self.optimizer.step()
        return loss

    @abstractmethod
    def gradient(self, x: Tensor, y: Tensor) -> tuple[float, dict[str, Tensor]]:
        """The mean loss of a batch, and the gradient that a step on it follows."""


class WinsorizedSGD(_Robust):
    """SGD on winsorized means of per-example gradients.

    ``loss`` gives one number per example (cross-entropy unless you say otherwise). ``memory`` bounds the bytes that
    per-example gradients take at any moment, beyond what a plain step needs; no tensor of B x all weights exists.
    Linear layers multiply their inputs by backpropagated signals, a few rows at a time. Other layers go through
    ``vmap``, some parameters at a time; one that is too large for that goes in slices, each with a pass of its own.

    Batch norm in training mode is refused, and so is a network in which examples change each other's outputs.
    ``momentum`` and ``weight_decay`` are those of ``torch.optim.SGD``; schedulers take ``optimizer``.

    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(100, 5), torch.arange(100) % 2
    >>> opt = WinsorizedSGD(nn.Linear(5, 2), lr=0.1, c=2)
    >>> first, *_, last = [opt.step(x, y) for _ in range(20)]
    >>> last < first
    True
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        c: int = 2,
        loss: Loss = cross_entropies,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        memory: int = MEMORY,
    ) -> None:
        if isinstance(c, bool) or not isinstance(c, int) or c < 0:
            raise TrueriskError(f"c is {c!r}, but must be an integer of at least 0; try c=2.")
        if memory < 1:
            raise TrueriskError(f"memory is {memory} bytes, but must be at least 1; try memory=2**26.")
        refuse_batch_norm(model)
        super().__init__(model, lr, loss, momentum, weight_decay)
        self.c, self.memory = c, memory

    def gradient(self, x: Tensor, y: Tensor) -> tuple[float, dict[str, Tensor]]:
        if 2 * self.c >= len(x):
            raise TrueriskError(
                f"the batch has {len(x)} examples, but c = {self.c} needs at least {2 * self.c + 1}; drop the last "
                "batch, or lower c."
            )
        found = signals(self.model, x, y, self.loss)
        mean, loss = {name: total / len(x) for name, total in found.total.items()}, float(found.losses.mean())
        if self.c == 0 or not np.isfinite(loss):
            return loss, mean
        for signal in found.signals:
            inputs, deltas = signal.inputs.T.contiguous(), signal.deltas.T.contiguous()
            self._products(deltas, inputs, mean[signal.weight])
            if signal.bias:
                mean[signal.bias] = winsorized_mean(deltas, self.c)
        for names in self._groups(found.rest, len(x)):
            self._by_example(names, x, y, found.total, mean)
        return loss, mean

    def _products(self, deltas: Tensor, inputs: Tensor, out: Tensor) -> None:
        """The winsorized means of d_i h_i^T into ``out``, a block of rows and columns at a time."""
        count = max(1, min(self.memory, NEAR) // (inputs.shape[1] * inputs.element_size()))  # weights of a block
        wide = min(len(inputs), count)
        for top in range(0, len(deltas), rows := max(1, count // wide)):
            for left in range(0, len(inputs), wide):
                block = deltas[top : top + rows, None] * inputs[None, left : left + wide]
                out[top : top + rows, left : left + wide] = winsorized_mean(block, self.c)

    def _groups(self, names: Sequence[str], examples: int) -> Iterator[list[str]]:
        """Parameters whose per-example gradients fit into the memory together; a larger one comes alone."""
        group: list[str] = []
        for name in names:
            if group and self._bytes([*group, name], examples) > self.memory:
                yield group
                group = []
            group.append(name)
        if group:
            yield group

    def _bytes(self, names: Sequence[str], examples: int) -> int:
        return COPIES * examples * sum(self.weights[name].numel() * self.weights[name].element_size() for name in names)

    def _by_example(
        self, names: Sequence[str], x: Tensor, y: Tensor, total: dict[str, Tensor], mean: dict[str, Tensor]
    ) -> None:
        """The winsorized means of some parameters from per-example gradients: at once, or in slices."""
        slices = -(-self._bytes(names, len(x)) // self.memory)
        rows = len(x) if slices == 1 else max(1, self.memory // (2 * self._bytes(names, 1)))
        for name in names if slices > 1 else ():
            flat, width = mean[name].view(-1), -(-mean[name].numel() // slices)
            for left in range(0, len(flat), width):
                part = slice(left, left + width)
                each = per_example(self.model, [name], x, y, self.loss, rows)
                own = torch.cat([one[name].flatten(1)[:, part].clone() for one in each])  # a view would keep all
                refuse_mixing(name, own.sum(0), total[name].view(-1)[part], own.norm(dim=1))
                flat[part] = winsorized_mean(own.T.contiguous(), self.c)
        for one in per_example(self.model, names, x, y, self.loss, rows) if slices == 1 else ():
            for name, own in one.items():
                refuse_mixing(name, own.sum(0), total[name], own.flatten(1).norm(dim=1))
                mean[name] = winsorized_mean(own.movedim(0, -1).contiguous(), self.c)


class MedianOfMeansSGD(_Robust):
    """SGD on the median of three means, for each weight: M3, and RM3 with ``running=True``.

    M3 cuts a batch into ``groups`` consecutive parts (sizes differ by at most one). RM3 takes the mean gradients of
    this batch and of the last ``groups`` - 1 ones, each at the weights that it was computed with; the first steps use
    as many as there are. An even number of means has the mean of the two in the middle as its median.

    >>> x, y = torch.randn(99, 5), torch.arange(99) % 2
    >>> 0 < MedianOfMeansSGD(nn.Linear(5, 2), lr=0.1).step(x, y) < 2
    True
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        groups: int = 3,
        loss: Loss = cross_entropies,
        *,
        running: bool = False,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise TrueriskError(f"groups is {groups!r}, but must be an integer of at least 1; try groups=3.")
        super().__init__(model, lr, loss, momentum, weight_decay)
        self.groups, self.running = groups, running
        self.past: deque[list[Tensor]] = deque(maxlen=groups)

    def gradient(self, x: Tensor, y: Tensor) -> tuple[float, dict[str, Tensor]]:
        if self.running:
            loss, own = self._mean(x, y)
            self.past.append(own)
            return loss, self._median(list(self.past))
        if len(x) < self.groups:
            raise TrueriskError(
                f"the batch has {len(x)} examples, but must have at least {self.groups}; drop the last batch."
            )
        parts = list(zip(x.tensor_split(self.groups), y.tensor_split(self.groups), strict=True))
        found = [self._mean(*part) for part in parts]
        loss = sum(one * len(part[0]) for (one, _), part in zip(found, parts, strict=True)) / len(x)
        return loss, self._median([own for _, own in found])

    def _mean(self, x: Tensor, y: Tensor) -> tuple[float, list[Tensor]]:
        loss = each_loss(self.loss, self.model(x), y, len(x)).mean()
        found = torch.autograd.grad(loss, list(self.weights.values()), allow_unused=True)
        return float(loss.detach()), [
            torch.zeros_like(p) if g is None else g for p, g in zip(self.weights.values(), found, strict=True)
        ]

    def _median(self, found: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        pairs = zip(self.weights, zip(*found, strict=True), strict=True)
        if len(found) == 3:  # max(min(a, b), min(max(a, b), c)), ten times as fast as sorting
            return {name: torch.maximum(a.minimum(b), a.maximum(b).minimum(c)) for name, (a, b, c) in pairs}
        low, high = (len(found) - 1) // 2, len(found) // 2
        ordered = {name: torch.stack(parts).sort(dim=0).values for name, parts in pairs}
        return {name: (own[low] + own[high]) / 2 for name, own in ordered.items()}


def winsorized_mean(values: Tensor, c: int) -> Tensor:
    """The mean over the last axis after the c smallest and c largest values are pulled in to the next ones.

    Sorts a contiguous tensor in place: numpy sorts floats in vector instructions, ten times as fast as torch here.

    >>> winsorized_mean(torch.tensor([-90.0, 1.0, 2.0, 3.0, 80.0]), 1)
    tensor(2.)
    """
    count = values.shape[-1]
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64) and values.is_contiguous():
        values.numpy().sort(axis=-1)
    else:
        values = values.sort(dim=-1).values
    middle = values[..., c : count - c].sum(dim=-1)
    return (middle + c * (values[..., c] + values[..., count - c - 1])) / count
