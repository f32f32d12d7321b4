"""Shampoo: a preconditioner for each axis of a weight tensor (Gupta, Koren, and Singer 2018).

For a matrix W with gradients G_t (Algorithm 1):

    L_t = e I + sum_s G_s G_s^T     R_t = e I + sum_s G_s^T G_s     W <- W - lr L_t^(-1/4) G_t R_t^(-1/4)

A tensor with k axes has k such matrices, each with the power -1/(2k) (Algorithm 2); for a vector this is AdaGrad with
a full matrix. The powers come from eigenvalues and are computed anew ``every`` few steps. With ``graft``, the step of
each tensor keeps its direction and gets the length of a step of SGD (Agarwal et al. 2020). Algorithm numbers are from
memory. Libraries with Shampoo cut a matrix into blocks and leave vectors alone, so the published update is written out
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from truerisk.errors import TrueriskError
from truerisk.training.loop import DivergedError


class Shampoo(Optimizer):
    """Shampoo for tensors of any shape. An axis longer than ``longest`` has no preconditioner of its own.

    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    >>> optimizer = Shampoo([w], lr=1.0, epsilon=1e-12, graft=False)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.detach().round(decimals=4).tolist()  # the first step is the gradient with all singular values set to 1
    [[2.0, 0.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.0,
        epsilon: float = 1e-6,
        every: int = 1,
        graft: bool = True,
        longest: int = 2048,
    ) -> None:
        if not (math.isfinite(lr) and lr > 0 and math.isfinite(epsilon) and epsilon > 0):
            raise TrueriskError(f"lr and epsilon are {lr} and {epsilon}, but must be positive numbers; try lr=0.1.")
        if not 0 <= momentum < 1:
            raise TrueriskError(f"momentum is {momentum}, but must be at least 0 and less than 1; try momentum=0.9.")
        if every < 1:
            raise TrueriskError(f"every is {every}, but must be at least 1; try every=10.")
        self.epsilon, self.every, self.graft, self.longest = epsilon, every, graft, longest
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update with the gradients that are there, or with those that the closure computes."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                move = self._preconditioned(p.grad, state)
                if group["momentum"]:
                    move = state["velocity"] = group["momentum"] * state.get("velocity", 0.0) + move
                p.add_(move, alpha=-group["lr"])
        return loss

    def _preconditioned(self, gradient: Tensor, state: dict[str, Any]) -> Tensor:
        if not gradient.ndim:
            gradient = gradient[None]
            return self._preconditioned(gradient, state)[0]
        axes = [axis for axis, size in enumerate(gradient.shape) if size <= self.longest]
        if not state.get("sums"):
            state["sums"] = {axis: self.epsilon * _identity(gradient, axis) for axis in axes}
            state["steps"] = 0
        for axis in axes:
            rows = gradient.movedim(axis, 0).flatten(1) if gradient.ndim > 1 else gradient[:, None]
            state["sums"][axis] += (rows @ rows.T).double()
        if state["steps"] % self.every == 0:
            power = -1 / (2 * gradient.ndim)
            state["powers"] = {axis: matrix_power(state["sums"][axis], power).to(gradient.dtype) for axis in axes}
        state["steps"] += 1
        move = gradient
        for axis in axes:
            move = torch.tensordot(state["powers"][axis], move, dims=([1], [axis])).movedim(0, axis)
        if self.graft:
            size = float(move.norm())
            move = move * (float(gradient.norm()) / size) if size > 0 else move
        return move


def matrix_power(matrix: Tensor, power: float) -> Tensor:
    """A real power of a symmetric positive matrix, from its eigenvalues; rounding below the smallest is cut off.

    >>> matrix_power(torch.diag(torch.tensor([16.0, 1.0])), -0.25).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    if not bool(matrix.isfinite().all()):
        raise DivergedError("Shampoo has gradients that are not finite numbers; lower the learning rate.")
    values, vectors = torch.linalg.eigh(matrix)
    least = torch.finfo(values.dtype).eps * float(values[-1].clamp(min=torch.finfo(values.dtype).tiny))
    return (vectors * values.clamp(min=least) ** power) @ vectors.T


def _identity(like: Tensor, axis: int) -> Tensor:
    return torch.eye(like.shape[axis], dtype=torch.float64)
