"""The one training loop: for classifiers here, for posteriors in ``pacbayes``.

It knows nothing of what is trained: the caller gives a loss of a batch of indices. All randomness of
an epoch derives from (seed, epoch), so a run that was killed and resumed ends with the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.plan import Plan
from truerisk.seeds import derive, seeded_globals
from truerisk.training.checkpoint import Checkpoint


class DivergedError(TrueriskError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True)
class History:
    """What a run did: the mean loss of each epoch, and whether it stopped at its target."""

    losses: list[float]
    reached_target: bool

    @property
    def epochs(self) -> int:
        return len(self.losses)


def run(
    holder: nn.Module,
    groups: Iterable[dict[str, Any]],
    loss: Callable[[Tensor], Tensor],
    n: int,
    plan: Plan,
    *,
    label: str = "training",
    checkpoint: Checkpoint | None = None,
    before_epoch: Callable[[int], None] | None = None,
    before_step: Callable[[float], None] | None = None,
    after_epoch: Callable[[int], bool] | None = None,
) -> History:
    """Minimize the mean of ``loss(indices)`` over batches of ``range(n)``.

    ``holder`` is the module whose state is saved and restored; ``groups`` are the optimizer's parameter
    groups, each with its own ``lr`` if it likes; ``plan`` says the rest. ``before_epoch`` and ``after_epoch`` are
    told how many epochs are done; the latter ends the training by returning True. ``before_step`` is told which share
    of all steps is done, also after a resumption.
    """
    optimizer = _optimizer(groups, plan)
    peak = [group["lr"] for group in optimizer.param_groups]
    first, losses = checkpoint.load(holder, optimizer) if checkpoint else (0, [])
    steps = math.ceil(n / plan.batch_size)
    reached = bool(losses) and _reached(losses[-1], plan)
    with progress.bar(label, total=plan.epochs * steps) as advance:
        advance(first * steps)
        for epoch in range(first, 0 if reached else plan.epochs):
            if before_epoch is not None:
                before_epoch(epoch)
            with seeded_globals(derive(plan.seed, "epoch", epoch)):
                total = 0.0
                # batches of even size: no last batch of one example, which batch norm could not take
                for step, batch in enumerate(torch.randperm(n).tensor_split(steps)):
                    done = (epoch * steps + step) / (plan.epochs * steps)
                    rate = plan.rate(done)
                    for group, lr in zip(optimizer.param_groups, peak, strict=True):
                        group["lr"] = lr * rate
                    if before_step is not None:
                        before_step(done)
                    optimizer.zero_grad(set_to_none=True)
                    value = loss(batch)
                    value.backward()
                    optimizer.step()
                    total += float(value.detach()) * len(batch)
                    advance(note=f"loss {float(value.detach()):.4f}")
            losses.append(total / n)
            if not math.isfinite(total):
                raise DivergedError(f"{label} diverged in epoch {epoch + 1}; lower the learning rate.")
            reached = _reached(losses[-1], plan)
            if checkpoint:
                checkpoint.save(holder, optimizer, epoch + 1, losses, force=False)
            stop = after_epoch is not None and after_epoch(epoch + 1)
            if reached or stop:
                break
    if checkpoint and losses and len(losses) > first:
        checkpoint.save(holder, optimizer, len(losses), losses, force=True)
    return History(losses, reached)


def _reached(loss: float, plan: Plan) -> bool:
    return plan.target_loss is not None and loss <= plan.target_loss


def _optimizer(groups: Iterable[dict[str, Any]], plan: Plan) -> torch.optim.Optimizer:
    if plan.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay, nesterov=plan.nesterov
        )
    return torch.optim.Adam(groups, lr=plan.lr, weight_decay=plan.weight_decay)
