"""A chain of posteriors on growing parts of the data, for ``methods.recursive``, which says who may see what."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from truerisk.certificates.counts import Count, Counts
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.frozen import Seed
from truerisk.certificates.methods.recursive import BETTER, BOTH, WORSE, WRONG, counted, link
from truerisk.certificates.workshop.gaussians import prior_again
from truerisk.certificates.workshop.priors import make_prior
from truerisk.certificates.workshop.rescaling import best_log_scales, followed, moved, rescaled_kl
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, gibbs_risk, plan_draws
from truerisk.pacbayes.pairs import gibbs_pairs, plan_pairs
from truerisk.plan import DrawPlan

LEAST = 10  # examples in a part


def train_chain(trainer: Trainer, parts: Split, steps: int) -> Evidence:
    """The prior, all posteriors with what moved each, and the network of the hold-out baseline."""
    prior = make_prior(trainer, parts)
    links, scales = train_links(trainer, parts, prior, steps, steps)
    network = prior.network() if len(parts.prior) else trainer.tested(parts)
    arrays = {f"log_scales-{t}": found for t, found in enumerate(scales, start=1) if found is not None}
    return Evidence(parts, {"network": network}, _named([prior, *links], steps), arrays)


def chain_again(trainer: Trainer, held: Evidence, steps: int, retrain: bool) -> Evidence:
    """The prior made again, and if ``retrain`` says so all links; the last posterior may have any value."""
    made = prior_again(trainer, held, retrain)
    if not retrain:
        return made
    links, _ = train_links(trainer, held.parts, made.prior, steps, steps - 1)
    return made.having(gaussians=_named([made.prior, *links], steps))


def cut(rows: np.ndarray, steps: int) -> list[np.ndarray]:
    """Parts 1, ..., T of the rows: the last is half of them, the one before half of the others, and so on.

    >>> [len(part) for part in cut(np.arange(100), 3)]
    [25, 25, 50]
    """
    parts: list[np.ndarray] = []
    for _ in range(steps - 1):
        rows, last = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        parts.insert(0, last)
    if len(rows) < LEAST:
        raise TrueriskError(f"steps is {steps}, so the first part has only {len(rows)} examples; give fewer --steps.")
    return [rows, *parts]


def train_links(
    trainer: Trainer, parts: Split, prior: Gaussian, steps: int, count: int
) -> tuple[list[Gaussian], list[dict[str, Tensor] | None]]:
    """The first ``count`` posteriors of ``steps``, and the log-scales that moved each towards the one before.

    Number t is trained on parts 1 to t, with the one before as its prior.
    """
    pieces, symmetry = cut(parts.certify, steps), followed(prior, trainer.data.blank)
    chain, scales, seen = [prior], [], parts.prior
    for t in range(1, count + 1):
        rows, tested = np.concatenate(pieces[:t]), sum(map(len, pieces[t - 1 :]))
        # Training weighs the KL by one over the number of its rows, the bound by one over those that it is tested on.
        repeated = np.resize(rows, max(len(rows), tested))
        new = trainer.posterior(chain[-1], Split(seen, repeated))
        new, log_scales = moved(new, best_log_scales(new, chain[-1], symmetry), symmetry)
        scales.append(log_scales)
        chain.append(new)
        seen = rows  # what the prior of the next one saw
    return chain[1:], scales


def count_steps(counts: Counts, data: Data, evidence: Evidence, steps: int, seed: Seed, draws: int | None) -> Counts:
    """What the draws of all steps gave, and the KL of each."""
    chain = [evidence.gaussian(link(t, steps)) for t in range(steps + 1)]
    pieces, kls, plans = cut(evidence.parts.certify, steps), [], []
    items: dict[str, Count] = {}
    for t in range(1, steps + 1):
        rows = np.concatenate(pieces[t - 1 :])
        old = None if t == 1 else chain[t - 1]
        more, plan = _drawn(chain[t], old, data.X[rows], data.y[rows], seed("draws", t), draws)
        items |= {counted(t, name): each for name, each in more.items()}
        kls.append(rescaled_kl(chain[t], chain[t - 1], evidence.arrays.get(f"log_scales-{t}"), data.blank))
        plans.append(plan)
    return counts.adding(items, kls=tuple(kls), plans=tuple(plans))


def _drawn(
    new: Gaussian, old: Gaussian | None, X: np.ndarray, y: np.ndarray, seed: int, draws: int | None
) -> tuple[dict[str, Count], DrawPlan]:
    """Errors of networks drawn from ``new``, beside networks drawn from ``old`` if there is one.

    What is counted is rare where both are good, and the means of the steps of f follow from it.
    """
    if old is None:
        single = gibbs_risk(new, X, y, seed, plan_draws(new, X, draws))
        values, ties, plan = {WRONG: single.errors}, single.near_ties, single.plan
    else:
        pairs = gibbs_pairs(new, old, X, y, seed, plan_pairs(new, X, draws))
        values = {WORSE: pairs.first_only, BETTER: pairs.second_only, BOTH: pairs.both}
        ties, plan = pairs.near_ties, pairs.plan
    trials = plan.n * plan.passes
    return {name: Count(value, ties, trials, drawn=True, size=plan.size) for name, value in values.items()}, plan


def _named(chain: list[Gaussian], steps: int) -> dict[str, Gaussian]:
    return {link(t, steps): gaussian for t, gaussian in enumerate(chain)}
