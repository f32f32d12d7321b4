"""SGD as a function of its training inputs: how much a training example matters for later losses.

    g_x^t = || d L_t / d x ||_1                                               (Arpit et al. 2017, Section 3.2)

L_t is the mean training loss after t steps of SGD, and x an input that those steps used. The derivative goes through
the weights: SGD is unrolled (Maclaurin et al. 2015), that is, every update stays a function of the inputs. L_t itself
is taken on a fixed copy of the inputs, so that an example does not matter merely because L_t counts it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Weights = list[Tensor]  # weight, bias, weight, bias, ...; weights have shape (fan-in, fan-out)


def initial_weights(widths: Sequence[int], seed: int, dtype: torch.dtype = torch.float32) -> Weights:
    """Weights and biases of a ReLU network, uniform on +-1/sqrt(fan-in)."""
    generator = torch.Generator().manual_seed(seed)
    weights = []
    for fan_in, fan_out in itertools.pairwise(widths):
        for shape in ((fan_in, fan_out), (fan_out,)):
            drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
            weights.append(((2 * drawn - 1) / math.sqrt(fan_in)).to(dtype).requires_grad_())
    return weights


def forward(weights: Weights, inputs: Tensor) -> Tensor:
    """Logits of the ReLU network with these weights and biases; a leading axis of all of them is for the network."""
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs = (inputs @ weight + bias).relu()
    return inputs @ weights[-2] + weights[-1]


def influence(
    X: Tensor,
    y: Tensor,
    weights: Weights,
    batches: Sequence[Tensor],
    lr: float,
    marks: Sequence[int],
    groups: Tensor | None = None,
) -> Tensor:
    """dL_t^i/dx for the steps t in ``marks``: shape (marks, groups, examples, features).

    L_t^i is the mean loss over the examples of group i after t steps of SGD on ``batches`` (indices of examples).
    Without groups there is one, which holds all examples. A derivative needs a pass back through all earlier steps: m
    marks, evenly spaced over T steps, need about m T/2 backward steps, where all T would need T^2/2.
    """
    groups = torch.zeros_like(y) if groups is None else groups
    members = [groups == i for i in range(int(groups.max()) + 1)]
    steps: list[Tensor] = []  # the inputs of each step, leaves of the graph
    found = []
    for step, rows in enumerate(batches, 1):
        steps.append(X[rows].requires_grad_())
        loss = F.cross_entropy(forward(weights, steps[-1]), y[rows])
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        weights = [weight - lr * gradient for weight, gradient in zip(weights, gradients, strict=True)]
        if step in marks:
            losses = F.cross_entropy(forward(weights, X), y, reduction="none")
            taken = torch.cat(list(batches[:step]))
            found.append(torch.stack([_gathered(losses[some].mean(), steps, taken, X) for some in members]))
    return torch.stack(found)


def _gathered(loss: Tensor, steps: list[Tensor], taken: Tensor, X: Tensor) -> Tensor:
    """The gradient of the loss at every example: the sum over the steps that used it."""
    gradients = torch.autograd.grad(loss, steps, retain_graph=True)
    return torch.zeros_like(X).index_add_(0, taken, torch.cat(gradients))


def gini(values: np.ndarray) -> float:
    """The Gini coefficient of non-negative numbers: 0 if all are equal, 1 - 1/n if only one is not zero.

    With g_(1) <= ... <= g_(n): G = 2 sum_i i g_(i) / (n sum_i g_i) - (n + 1)/n.

    >>> gini(np.array([3.0, 3.0, 3.0])), gini(np.array([0.0, 0.0, 0.0, 5.0]))
    (0.0, 0.75)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n, total = len(ordered), ordered.sum()
    if total == 0:
        return 0.0
    return float(2 * (np.arange(1, n + 1) @ ordered) / (n * total) - (n + 1) / n)
