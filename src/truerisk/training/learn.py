"""Train a classifier and watch it: errors on training and test examples after every epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.nets import count_errors
from truerisk.plan import Plan
from truerisk.training.loop import DivergedError, run


@dataclass
class Curve:
    """Error rates in eval mode at the start and after each watched epoch, and when all training examples were right.

    `steps` counts updates, the unit in which runs with different numbers of examples can be compared.
    `fitted_step` is the first watched step at which training stopped because its error was low enough, or None.
    """

    steps: list[int] = field(default_factory=list)
    train_error: list[float] = field(default_factory=list)
    test_error: list[float] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)  # mean of each epoch, in training mode; empty if diverged
    fitted_step: int | None = None
    diverged: bool = False

    @property
    def best_test_error(self) -> float:
        """The smallest test error on the way: what early stopping could have won at most."""
        return min(self.test_error)


def learn(
    module: nn.Module,
    train: Data,
    test: Data,
    plan: Plan,
    *,
    until_error: float | None = 0.0,
    every: int = 1,
    augment: Callable[[Tensor], Tensor] | None = None,
    watch: Callable[[int], object] | None = None,
) -> Curve:
    """Train ``module`` in place by cross-entropy, until its training error is at most ``until_error``.

    None trains to the end of the plan. Errors are counted every ``every`` epochs, on the plain examples in eval mode;
    ``augment`` changes the batches of training only. ``watch(epochs)`` is called after each count, in eval mode. A
    loss that is no longer finite ends the training, and the curve says so.
    """
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    per_epoch = math.ceil(len(train) / plan.batch_size)
    curve = Curve()

    def loss(batch: Tensor) -> Tensor:
        inputs = X[batch] if augment is None else augment(X[batch])
        return F.cross_entropy(module(inputs), y[batch])

    def look(epochs: int) -> bool:
        """Count errors after so many epochs; True where training may stop."""
        module.eval()
        curve.steps.append(epochs * per_epoch)
        curve.train_error.append(count_errors(module, train.X, train.y)[0] / len(train))
        curve.test_error.append(count_errors(module, test.X, test.y)[0] / len(test))
        if watch is not None:
            watch(epochs)
        done = until_error is not None and curve.train_error[-1] <= until_error
        if done:
            curve.fitted_step = curve.steps[-1]
        else:
            module.train()
        return done

    def after(epochs: int) -> bool:
        return not (epochs % every and epochs != plan.epochs) and look(epochs)

    if look(0):
        return curve
    groups = [{"params": [p for p in module.parameters() if p.requires_grad]}]
    try:
        history = run(module, groups, loss, len(train), plan, after_epoch=after)
    except DivergedError:
        curve.diverged = True
    else:
        curve.train_loss = history.losses
        if curve.steps[-1] != history.epochs * per_epoch:  # stopped by the plan's target loss, between two counts
            look(history.epochs)
    module.eval()
    return curve
