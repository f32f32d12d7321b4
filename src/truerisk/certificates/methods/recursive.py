"""Recursive PAC-Bayes: a chain of posteriors on growing parts of the data, each the prior of the next.

Wu, Zhang, Cherief-Abdellatif and Seldin (2024). A data-free prior costs much KL; a prior learnt on a part of the data
costs that part, which then certifies nothing. A chain loses neither: with h ~ pi_t and h' ~ pi_(t-1),

    risk(pi_t) = E[1(h wrong) - gamma 1(h' wrong)] + gamma risk(pi_(t-1)),

the first term is bounded by ``split_kl`` with KL(pi_t, pi_(t-1)), and the second by the step before. Step 1 is the
plain PAC-Bayes-kl bound with the usual prior as pi_0. See ``bounds.split_kl``.

Who sees what: the certifying rows, in their seeded order, are cut into parts 1, ..., T. Posterior t is trained on parts
1 to t. Step t is tested on parts t to T. Its prior pi_(t-1) saw the parts before t only, so it is a prior for them;
pi_t may have seen anything, as posteriors may. Step 1 is tested on all rows. Sizes are fixed beforehand: part T is half
of the rows, part T-1 half of the others, and so on; part 1 is what remains, as large as part 2.

Every step has one share of delta for its PAC-Bayes inequality (``split_kl`` divides it among its three events) and one
for each mean that was estimated by draws: one in step 1, three in every other step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from truerisk.bounds import grouped_upper, pac_bayes_kl, recursive_step, split_kl
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Count, Facts
from truerisk.certificates.ledger import DIGITS, Entry, share
from truerisk.certificates.methods.base import STOCHASTIC, Method, Shares, floor_facts, tested_network, usual_floor
from truerisk.certificates.methods.pac_bayes import prior_again, prior_files, prior_trusted
from truerisk.certificates.origins import FREE, TRAINED, File
from truerisk.certificates.priors import make_prior
from truerisk.certificates.rescaling import RescaledKL, best_log_scales, moved, rescaled_kl
from truerisk.certificates.settings import Settings
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError
from truerisk.pacbayes import DrawPlan, Gaussian, draw_predictions, gibbs_risk
from truerisk.pacbayes.pairs import gibbs_pairs

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

MONTE_CARLO_SHARE = Decimal("0.1")
LEAST = 10  # examples in a part
MOST_STEPS = 10
# The steps of the excess loss f = 1(h wrong) - gamma 1(h' wrong), whose values are -gamma, 0, 1 - gamma and 1.
LEVELS = ("f >= 0", "f >= 1 - gamma", "f = 1")
WRONG = "a drawn network wrong"
WORSE, BETTER, BOTH = "only the new one wrong", "only the old one wrong", "both wrong"  # h is new, h' old


@dataclass(frozen=True)
class ChainFacts(Facts):
    """The facts of all steps: KLs and plans of the draws, from step 1 on."""

    kls: tuple[RescaledKL, ...] = ()
    plans: tuple[DrawPlan, ...] = ()


class Recursive(Method):
    """B_1 by PAC-Bayes-kl; B_t = split-kl bound of the excess loss + gamma B_(t-1)."""

    name = "recursive"
    predictor = STOCHASTIC
    summary = "weights drawn from the last of a chain of posteriors, each the prior of the next (recursive PAC-Bayes)"
    usual_prior = "init"
    options = MappingProxyType({"steps": 3, "gamma": 0.5})

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if not 2 <= _steps(settings) <= MOST_STEPS:
            raise TrueriskError(f"steps is {_steps(settings)}, but must lie between 2 and {MOST_STEPS}.")
        gamma = _gamma(settings)
        if not (0 < gamma < 1 and 0 < 1 - gamma < 1):  # the second: one that rounding leaves in between
            raise TrueriskError(f"gamma is {gamma}, but must lie strictly between 0 and 1; 0.5 is usual.")

    def events(self, settings: Settings) -> Shares:
        steps = _steps(settings)
        means = [(t, level) for t in range(1, steps + 1) for level in _levels(t)]
        inequality = ((1 - MONTE_CARLO_SHARE) / steps).quantize(DIGITS, ROUND_DOWN)
        draws = (MONTE_CARLO_SHARE / len(means)).quantize(DIGITS, ROUND_DOWN)
        shares = [(_inequality(t), inequality) for t in range(1, steps + 1)]
        return shares + [(_monte_carlo(t, level), draws) for t, level in means]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        steps, prior = _steps(trainer.settings), make_prior(trainer, parts)
        links, scales = train_links(trainer, parts, prior, steps)
        chain = [prior, *links]
        network = prior.network() if len(parts.prior) else tested_network(trainer, parts)
        arrays = {f"log_scales-{t}": found for t, found in enumerate(scales, start=1) if found is not None}
        gaussians = {_link(t, steps): gaussian for t, gaussian in enumerate(chain)}
        return Evidence(parts, {"network": network}, gaussians, arrays)

    def files(self, settings: Settings) -> dict[str, File]:
        """The links are priors of later steps; the last posterior is free."""
        steps = _steps(settings)
        links = {_link(t, steps): File(TRAINED) for t in range(1, steps)}
        scales = {f"log_scales-{t}": File(FREE, optional=True) for t in range(1, steps + 1)}
        return prior_files(settings) | links | {_link(steps, steps): File(FREE, predicts=True)} | scales

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        made, steps = prior_again(trainer, stored, retrain), _steps(trainer.settings)
        if not retrain:
            return made
        assert made.prior is not None
        links, _ = train_links(trainer, stored.parts, made.prior, steps - 1)
        return made.having({_link(t, steps): link for t, link in enumerate(links, start=1)})

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence = frozen.evidence
        facts = floor_facts(settings, data, evidence)
        steps, counts = _steps(settings), dict(facts.counts)
        chain = [evidence.gaussians[_link(t, steps)] for t in range(steps + 1)]
        pieces, kls, plans = cut(evidence.parts.certify, steps), [], []
        for t in range(1, steps + 1):
            rows = np.concatenate(pieces[t - 1 :])
            old = None if t == 1 else chain[t - 1]
            more, plan = _drawn(chain[t], old, data.X[rows], data.y[rows], seed("draws", t))
            counts |= {f"step {t}: {name}": count for name, count in more.items()}
            kls.append(rescaled_kl(chain[t], chain[t - 1], evidence.arrays.get(f"log_scales-{t}"), data.input_shape))
            plans.append(plan)
        return ChainFacts(counts, facts.duplicates, kls=tuple(kls), plans=tuple(plans))

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        assert isinstance(facts, ChainFacts)
        gamma = _gamma(settings)
        steps = [_step(t + 1, facts, entries) for t in range(len(facts.plans))]
        deltas = [share(entries, _inequality(step["step"])) for step in steps]
        bounds = chain_bounds(steps, [step["kl"] for step in steps], gamma, deltas)
        for step, bound in zip(steps, bounds, strict=True):
            step["risk_bound"] = bound
        last, bound = steps[-1], bounds[-1]
        risk, upper = min(last["empirical_risk"], bound), last["uppers"][1]
        # Step by step, and never below the one before: a chain's bound need not lie above what was seen at its end.
        without = min(bound, max(risk, chain_bounds(steps, [0.0] * len(steps), gamma, deltas)[-1]))
        return {
            "risk_bound": bound,
            "empirical_risk": last["empirical_risk"],
            "empirical_risk_upper": upper,
            "kl": facts.kls[-1].kl,
            "kl_unrescaled": facts.kls[-1].original,
            "rescaling": facts.kls[-1].record(),
            "steps": steps,
            "breakdown": [
                {"part": "errors of the drawn networks in the last step", "value": risk},
                {"part": "Monte Carlo and confidence (delta)", "value": without - risk},
                {"part": "KL(posterior, prior) of all steps", "value": bound - without},
            ],
        }

    def floor(self, settings: Settings) -> str:
        return usual_floor(settings)

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        later = "that no posterior saw a part for which it is a prior later on (verify --retrain trains them again)"
        return [*prior_trusted(settings), later]

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        return ["The order of the examples is a seeded shuffle that has nothing to do with what they show."]

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        assert frozen.evidence.posterior is not None
        return draw_predictions(frozen.evidence.posterior, X, seed)


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
        raise TrueriskError(f"the first of {steps} parts has {len(rows)} examples; ask for fewer steps.")
    return [rows, *parts]


def train_links(
    trainer: Trainer, parts: Split, prior: Gaussian, count: int
) -> tuple[list[Gaussian], list[dict[str, Tensor] | None]]:
    """The first ``count`` posteriors, and the log-scales that moved each towards the one before.

    Number t is trained on parts 1 to t, with the one before as its prior.
    """
    pieces, shape = cut(parts.certify, _steps(trainer.settings)), trainer.data.input_shape
    chain, scales, seen = [prior], [], parts.prior
    for t in range(1, count + 1):
        rows, tested = np.concatenate(pieces[:t]), sum(map(len, pieces[t - 1 :]))
        # Training weighs the KL by one over the number of its rows, the bound by one over those that it is tested on.
        repeated = np.resize(rows, max(len(rows), tested))
        link = trainer.posterior(chain[-1], Split(seen, repeated))
        link, log_scales = moved(link, best_log_scales(link, chain[-1], shape), shape)
        scales.append(log_scales)
        chain.append(link)
        seen = rows  # what the prior of the next one saw
    return chain[1:], scales


def chain_bounds(
    steps: Sequence[dict[str, Any]], kls: Sequence[float], gamma: float, deltas: Sequence[float]
) -> list[float]:
    """B_1, ..., B_T from the upper bounds on the means of each step."""
    bounds = [pac_bayes_kl(steps[0]["uppers"][0], kls[0], steps[0]["n"], deltas[0])]
    for step, kl, delta in zip(steps[1:], kls[1:], deltas[1:], strict=True):
        excess = split_kl(step["uppers"], (-gamma, 0.0, 1.0 - gamma, 1.0), kl, step["n"], delta)
        bounds.append(recursive_step(excess, gamma, bounds[-1]))
    return bounds


def _drawn(
    new: Gaussian, old: Gaussian | None, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[dict[str, Count], DrawPlan]:
    """Errors of networks drawn from ``new``, beside networks drawn from ``old`` if there is one.

    What is counted is rare where both are good, and the means of the steps of f follow from it.
    """
    if old is None:
        single = gibbs_risk(new, X, y, seed)
        values, ties, plan = {WRONG: single.errors}, single.near_ties, single.plan
    else:
        pairs = gibbs_pairs(new, old, X, y, seed)
        values = {WORSE: pairs.first_only, BETTER: pairs.second_only, BOTH: pairs.both}
        ties, plan = pairs.near_ties, pairs.plan
    trials = plan.n * plan.passes
    return {name: Count(value, ties, trials, drawn=True, size=plan.size) for name, value in values.items()}, plan


def _step(t: int, facts: ChainFacts, entries: list[Entry]) -> dict[str, Any]:
    """What the record says of step t, its bound aside."""
    plan, kl = facts.plans[t - 1], facts.kls[t - 1]
    trials = plan.n * plan.passes
    if t == 1:
        sums = [facts.counts[f"step 1: {WRONG}"].value]
    else:
        worse, better, both = (facts.counts[f"step {t}: {name}"].value for name in (WORSE, BETTER, BOTH))
        sums = [trials - better, worse + both, worse]  # how often f >= 0, f >= 1 - gamma, f = 1
    deltas = [share(entries, _monte_carlo(t, level)) for level in _levels(t)]
    shape = (plan.groups, plan.size, plan.n, plan.passes)
    return {
        "step": t,
        "n": plan.n,
        "kl": kl.kl,
        "kl_unrescaled": kl.original,
        "empirical_risk": sums[0 if t == 1 else 1] / trials,
        "uppers": [grouped_upper(value, *shape, delta) for value, delta in zip(sums, deltas, strict=True)],
        "draws": plan.record(),
    }


def _levels(t: int) -> tuple[str, ...]:
    """The means that step t estimates by draws."""
    return (WRONG,) if t == 1 else LEVELS


def _inequality(t: int) -> str:
    kind = "PAC-Bayes-kl inequality" if t == 1 else "PAC-Bayes-split-kl inequality (three events)"
    return f"step {t}, {kind}: the certifying examples are misleading"


def _monte_carlo(t: int, level: str) -> str:
    return f"step {t}, Monte Carlo: the draws are misleading about the mean of {level}"


def _link(t: int, steps: int) -> str:
    """The file of pi_t."""
    return "prior" if t == 0 else "posterior" if t == steps else f"posterior-{t}"


def _steps(settings: Settings) -> int:
    return int(settings.options.get("steps", Recursive.options["steps"]))


def _gamma(settings: Settings) -> float:
    return float(settings.options.get("gamma", Recursive.options["gamma"]))
