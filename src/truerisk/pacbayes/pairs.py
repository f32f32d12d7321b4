"""Pairs of networks, one from each of two Gaussians: how often each is wrong where the other is not.

For losses of a pair, such as the excess loss of recursive PAC-Bayes. The two networks of a trial are drawn
independently of each other and of all other trials, as ``monte_carlo`` draws one: a pair for each example where that is
possible, else a pair for each group of examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.nets import margins
from truerisk.nets.evaluate import TIE
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.monte_carlo import DrawPlan, at_the_head, drawn_logits, plan_draws
from truerisk.seeds import derive


@dataclass(frozen=True)
class PairCounts:
    """Trials by who was wrong. ``near_ties``: those where another machine's rounding could flip an answer."""

    first_only: int
    second_only: int
    both: int
    near_ties: int
    plan: DrawPlan


def plan_pairs(first: Gaussian, X: np.ndarray, draws: int | None = None) -> DrawPlan:
    """As many pairs as ``plan_draws`` would draw single networks, in the same time: half as many passes."""
    plan = plan_draws(first, X, draws)
    return replace(plan, passes=max(1, plan.passes // 2))


def gibbs_pairs(
    first: Gaussian, second: Gaussian, X: np.ndarray, y: np.ndarray, seed: int, plan: DrawPlan | None = None
) -> PairCounts:
    """Draw pairs of networks and count their errors on (X, y); a tie counts as an error."""
    plan = plan or plan_pairs(first, X)
    if not plan.n == len(X) == len(y):
        raise TrueriskError(f"the plan of the draws is for {plan.n} examples, but there are {len(X)}.")
    with progress.bar("sampling pairs of networks", total=2 * plan.passes * plan.n) as advance:
        # A seed of its own makes the second draw independent; the same plan gives the same rows in the same order.
        wrong, close = _outcomes(first, X, y, derive(seed, "first"), plan, advance)
        wrong_too, close_too = _outcomes(second, X, y, derive(seed, "second"), plan, advance)
    both, ties = int((wrong & wrong_too).sum()), int((close | close_too).sum())
    return PairCounts(int(wrong.sum()) - both, int(wrong_too.sum()) - both, both, ties, plan)


def _outcomes(
    gaussian: Gaussian, X: np.ndarray, y: np.ndarray, seed: int, plan: DrawPlan, advance: Callable[..., None]
) -> tuple[Tensor, Tensor]:
    """(wrong, close to a tie) of every trial, as ``tally`` counts them."""
    gaussian, inputs = at_the_head(gaussian, X)
    labels = torch.from_numpy(y)
    wrong, close = [], []
    for rows, logits in drawn_logits(gaussian, inputs, seed, plan):
        margin, scale = margins(logits, labels[rows])
        wrong.append(~(margin > 0))
        close.append(margin.abs() <= TIE.get(logits.dtype, 1e-2) * scale)
        advance(len(rows))
    return torch.cat(wrong), torch.cat(close)
