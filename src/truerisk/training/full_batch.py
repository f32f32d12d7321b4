"""Many small networks by descent on all examples at once, each until its own loss is low enough.

The weights of all networks share tensors with a leading axis for the network, so a step of all of them is a few batched
matrix products. Each network stops where its own loss first reaches the target, whatever the others do:

    L_k(w) = sum_i c_ki loss(f_w(x_i), y_ki) / sum_i c_ki          c: how often example i counts for network k
    gd:    w <- w - lr dL/dw        momentum:  v <- 0.9 v + dL/dw,  w <- w - lr v
    adam:  Kingma and Ba 2015, Algorithm 1, with beta = (0.9, 0.999) and eps = 1e-8

There are no batches and no order of examples: the initial weights are all that chance decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.training.unrolled import Weights, forward, initial_weights

RULES = ("gd", "momentum", "adam")
MOMENTUM, BETA, EPS = 0.9, 0.999, 1e-8
SWEEP = 50  # steps after which networks that have stopped are set aside


@dataclass(frozen=True)
class Descended:
    """Networks after descent: their weights, losses, and how many steps each of them took.

    ``reached`` says of each network whether its loss reached the target. A network whose loss is no longer a finite
    number keeps its last weights, and has not reached it.
    """

    weights: Weights
    losses: Tensor
    steps: Tensor
    reached: Tensor


def stacked_weights(widths: Sequence[int], seeds: Sequence[int], scale: float = 1.0) -> Weights:
    """Initial weights of one ReLU network for each seed, with a leading axis for the network.

    Weights and biases are uniform on +-1/sqrt(fan-in), as torch's linear layers have them, times ``scale``.

    >>> [tuple(part.shape) for part in stacked_weights([2, 8, 3], seeds=[0, 1])]
    [(2, 2, 8), (2, 1, 8), (2, 8, 3), (2, 1, 3)]
    """
    each = [initial_weights(widths, seed) for seed in seeds]
    parts = (torch.stack([one if one.ndim == 2 else one[None] for one in same]) for same in zip(*each, strict=True))
    return [scale * part.detach() for part in parts]


def one_of(weights: Weights, k: int) -> Weights:
    """The weights of network ``k`` alone, without the leading axis: weight, bias, weight, bias, ..."""
    return [part[k] if place % 2 == 0 else part[k, 0] for place, part in enumerate(weights)]


def descend(
    weights: Weights,
    X: Tensor,
    y: Tensor,
    *,
    lr: float,
    steps: int,
    rule: str = "gd",
    until: float | Tensor = 0.0,
    counts: Tensor | None = None,
) -> Descended:
    """Lower the mean cross-entropy of each network on all its examples, until it is at most ``until``.

    ``X`` has shape (examples, features) and ``y`` (examples,), or both have a leading axis for the network. ``counts``
    of shape (networks, examples) says how often an example counts; 0 leaves it out. ``until`` may be one number for
    each network. ``weights`` are not changed.

    >>> X, y = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1])
    >>> found = descend(stacked_weights([1, 4, 2], seeds=[0, 1, 2]), X, y, lr=0.5, steps=1000, until=0.01)
    >>> found.reached.tolist(), bool((found.losses <= 0.01).all())
    ([True, True, True], True)
    """
    networks = len(weights[0])
    X, y = (each if each.ndim == ndim else each[None] for each, ndim in ((X, 3), (y, 2)))
    counts = torch.ones(networks, y.shape[1]) if counts is None else counts
    _refuse(networks, X, y, counts, rule, lr)
    goal = torch.as_tensor(until, dtype=torch.float64).expand(networks)
    shares = (counts / counts.sum(1, keepdim=True)).to(weights[0].dtype)
    done = Descended(
        [part.detach().clone() for part in weights],
        torch.full((networks,), torch.inf, dtype=torch.float64),
        torch.full((networks,), steps),
        torch.zeros(networks, dtype=torch.bool),
    )
    active = torch.arange(networks)
    now = [part.detach().clone().requires_grad_() for part in weights]
    state = [[torch.zeros_like(part) for part in weights] for _ in range(2)]
    moving = torch.ones(networks, dtype=torch.bool)
    for step in range(steps + 1):
        losses = _losses(now, X, y, shares, active)
        seen = losses.detach().double()
        stopped = moving & ((seen <= goal[active]) | ~seen.isfinite())
        if step == steps:
            stopped = moving
        if stopped.any():
            _set_down(done, active[stopped], [part.detach()[stopped] for part in now], seen[stopped], step)
            done.reached[active[stopped]] = (seen <= goal[active])[stopped]
            moving = moving & ~stopped
            if not moving.any():
                break
        gradients = torch.autograd.grad(losses[moving].sum(), now)
        with torch.no_grad():
            for part, change in zip(now, _changes(gradients, state, rule, lr, step + 1), strict=True):
                part -= torch.where(moving[:, None, None], change, 0)
        if step % SWEEP == 0 and not moving.all():
            active, state = active[moving], [[part[moving] for part in kind] for kind in state]
            now = [part.detach()[moving].requires_grad_() for part in now]
            moving = torch.ones(len(active), dtype=torch.bool)
    return done


def _losses(weights: Weights, X: Tensor, y: Tensor, shares: Tensor, active: Tensor) -> Tensor:
    """The mean cross-entropy of each of the active networks."""
    inputs = X.expand(len(active), -1, -1) if len(X) == 1 else X[active]
    labels = y.expand(len(active), -1) if len(y) == 1 else y[active]
    logits = forward(weights, inputs)
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").reshape(labels.shape)
    return (each * shares[active]).sum(1)


def _changes(gradients: Sequence[Tensor], state: list[list[Tensor]], rule: str, lr: float, step: int) -> list[Tensor]:
    """What is subtracted from the weights; the state (mean of gradients, and of their squares) is moved along."""
    if rule == "gd":
        return [lr * gradient for gradient in gradients]
    first, second = state
    if rule == "momentum":
        for mean, gradient in zip(first, gradients, strict=True):
            mean.mul_(MOMENTUM).add_(gradient)
        return [lr * mean for mean in first]
    found = []
    for mean, square, gradient in zip(first, second, gradients, strict=True):
        mean.mul_(MOMENTUM).add_(gradient, alpha=1 - MOMENTUM)
        square.mul_(BETA).addcmul_(gradient, gradient, value=1 - BETA)
        size = (square / (1 - BETA**step)).sqrt_().add_(EPS)
        found.append(lr / (1 - MOMENTUM**step) * mean / size)
    return found


def _set_down(done: Descended, where: Tensor, weights: Weights, losses: Tensor, step: int) -> None:
    for kept, part in zip(done.weights, weights, strict=True):
        kept[where] = part
    done.losses[where] = losses
    done.steps[where] = step


def _refuse(networks: int, X: Tensor, y: Tensor, counts: Tensor, rule: str, lr: float) -> None:
    if rule not in RULES:
        raise TrueriskError(f"the rule is {rule!r}, but must be one of {', '.join(RULES)}; choose one.")
    if not 0 < lr < torch.inf:
        raise TrueriskError(f"lr is {lr}, but must be above 0 and finite; try lr=0.1.")
    if {len(X), len(y)} - {1, networks} or counts.shape != (networks, X.shape[1]) or y.shape[1] != X.shape[1]:
        raise TrueriskError(
            f"inputs, labels, and counts have shapes {tuple(X.shape)}, {tuple(y.shape)}, and {tuple(counts.shape)}, "
            f"which do not fit {networks} networks; give one set for all networks, or one for each."
        )
    if not bool((counts.sum(1) > 0).all()) or bool((counts < 0).any()):
        raise TrueriskError("a network has no example that counts; give counts of at least 0 with a positive sum.")
