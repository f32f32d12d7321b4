"""Recursive PAC-Bayes: a chain of posteriors on growing parts of the data, each the prior of the next.

Wu, Zhang, Cherief-Abdellatif and Seldin (2024). A data-free prior means a large KL; a data-dependent prior
uses up a part of the data, which then certifies nothing. A chain loses neither: with h ~ pi_t and h' ~ pi_(t-1),

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
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING

from truerisk.bounds import grouped_upper, pac_bayes_kl, recursive_step, split_kl
from truerisk.certificates.counts import Counts
from truerisk.certificates.ledger import DIGITS, Entry, share
from truerisk.certificates.methods.base import DISGUISE, SHUFFLED, STOCHASTIC, Method, Shares, floor_counts
from truerisk.certificates.methods.pac_bayes import draws_option, prior_files, prior_told, prior_trusted
from truerisk.certificates.origins import ARRAYS, FREE, GAUSSIAN, TRAINED, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Line, Table, Tale, count, nats, seen, upper
from truerisk.errors import TrueriskError
from truerisk.plan import DrawPlan

if TYPE_CHECKING:
    import numpy as np

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split

MONTE_CARLO_SHARE = Decimal("0.1")
MOST_STEPS = 10
# The steps of the excess loss f = 1(h wrong) - gamma 1(h' wrong), whose values are -gamma, 0, 1 - gamma and 1.
LEVELS = ("f >= 0", "f >= 1 - gamma", "f = 1")
WRONG = "a drawn network wrong"
WORSE, BETTER, BOTH = "only the new one wrong", "only the old one wrong", "both wrong"  # h is new, h' old


@dataclass(frozen=True)
class Step:
    """One step of the chain: what it was tested on, its KL, the upper ends of its means, and its bound."""

    step: int
    n: int
    kl: float
    kl_unrescaled: float
    empirical_risk: float
    uppers: tuple[float, ...]
    draws: DrawPlan
    risk_bound: float = 1.0


@dataclass(frozen=True)
class Steps:
    """What only a recursive certificate has."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Recursive(Method):
    """B_1 by PAC-Bayes-kl; B_t = split-kl bound of the excess loss + gamma B_(t-1)."""

    name = "recursive"
    predictor = STOCHASTIC
    summary = "weights resampled from the last of a chain of posteriors for each prediction (recursive PAC-Bayes)"
    paper = "recursive PAC-Bayes (Wu, Zhang, Cherief-Abdellatif, and Seldin 2024)"
    usual_prior = Prior("init")
    gaussian = counts_weights = True
    above_only = "each of its steps bounds an excess loss from above only"

    steps: int = option(3, "Number of steps in the chain (recursive).", low=2, high=MOST_STEPS)
    gamma: float = option(0.5, "Weight of the previous step in the excess loss (recursive).", above=0, below=1)
    draws: int | None = draws_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < 1 - self.gamma < 1:  # one that rounding leaves at an end
            raise TrueriskError(f"gamma is {self.gamma}, but must be more than 0 and less than 1; try --gamma 0.5.")

    def events(self) -> Shares:
        means = [(t, level) for t in range(1, self.steps + 1) for level in _levels(t)]
        inequality = ((1 - MONTE_CARLO_SHARE) / self.steps).quantize(DIGITS, ROUND_DOWN)
        draws = (MONTE_CARLO_SHARE / len(means)).quantize(DIGITS, ROUND_DOWN)
        shares = [(_inequality(t), inequality) for t in range(1, self.steps + 1)]
        return shares + [(_monte_carlo(t, level), draws) for t, level in means]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.workshop.chain import train_chain

        return train_chain(trainer, parts, self.steps)

    def files(self, settings: Settings) -> dict[str, File]:
        """The links are priors of later steps; the last posterior is unconstrained."""
        links = {link(t, self.steps): File(TRAINED, GAUSSIAN) for t in range(1, self.steps)}
        last = {link(self.steps, self.steps): File(FREE, GAUSSIAN, predicts=True)}
        scales = {f"log_scales-{t}": File(FREE, ARRAYS, optional=True) for t in range(1, self.steps + 1)}
        return prior_files(settings) | links | last | scales

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        from truerisk.certificates.workshop.chain import chain_again

        return chain_again(trainer, stored, self.steps, retrain)

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.certificates.workshop.chain import count_steps

        counts = floor_counts(settings, data, frozen.evidence)
        return count_steps(counts, data, frozen.evidence, self.steps, seed, self.draws)

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        steps = [_step(t + 1, counts, entries) for t in range(len(counts.plans))]
        deltas = [share(entries, _inequality(step.step)) for step in steps]
        bounds = chain_bounds(steps, [step.kl for step in steps], self.gamma, deltas)
        steps = [replace(step, risk_bound=bound) for step, bound in zip(steps, bounds, strict=True)]
        last, bound = steps[-1], bounds[-1]
        risk, above = min(last.empirical_risk, bound), last.uppers[1]
        # Step by step, and never below the one before: a chain's bound need not lie above what was seen at its end.
        without = min(bound, max(risk, chain_bounds(steps, [0.0] * len(steps), self.gamma, deltas)[-1]))
        parts = (
            Part("errors of the sampled networks in the last step", risk),
            Part("Monte Carlo and confidence (delta)", without - risk),
            Part("KL(posterior, prior) of all steps", bound - without),
        )
        return Derivation(bound, last.empirical_risk, above, parts, counts.kls[-1], details=(Steps(tuple(steps)),))

    def details(self) -> tuple[type, ...]:
        return (Steps,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        from truerisk.pacbayes import draw_predictions

        return draw_predictions(frozen.evidence.posterior, X, seed)

    # ---- words -------------------------------------------------------------------------------------------------------

    def tell(self, record: Record) -> Tale:
        steps = record.derivation.detail(Steps).steps
        lines = tuple(
            Line(
                "steps" if step.step == 1 else "",
                upper(step.risk_bound),
                f"bound on the risk of posterior {step.step}, tested on {step.n:,} examples",
            )
            for step in steps
        )
        about = (
            "Each posterior is the prior of the next step. Step 1 is a plain PAC-Bayes-kl bound. Every later step "
            f"bounds the excess loss f: the loss of its posterior minus {self.gamma:g} times that of the previous one. "
            f"It then adds {self.gamma:g} times the previous bound."
        )
        rows = tuple(
            (str(step.step), count(step.n), seen(step.empirical_risk), nats(step.kl), upper(step.risk_bound))
            for step in steps
        )
        columns = ("Step", "Examples", "Observed error", "KL (nats)", "Bound")
        return Tale(
            seen=f"error rate of networks sampled from the last posterior on the {steps[-1].n:,} examples of its step",
            lines=lines,
            tables=(Table("Steps of the chain", about, columns, rows),),
            kl="nats: how far the last posterior moved from the previous one, its prior",
            rescaling="Effect of rescaling on the KL of the last step",
        )

    def disguise(self, derivation: Derivation) -> str:
        return DISGUISE if sum(step.kl for step in derivation.detail(Steps).steps) < 1 else ""

    def training(self, settings: Settings) -> tuple[str, str]:
        return prior_told(settings)

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        return [SHUFFLED]

    def trusted(self, settings: Settings) -> list[str]:
        later = (
            "that no posterior saw a part of the data for which it is the prior later (verify --retrain retrains them)"
        )
        return [*prior_trusted(settings), later]


def chain_bounds(steps: Sequence[Step], kls: Sequence[float], gamma: float, deltas: Sequence[float]) -> list[float]:
    """B_1, ..., B_T from the upper bounds on the means of each step."""
    bounds = [pac_bayes_kl(steps[0].uppers[0], kls[0], steps[0].n, deltas[0])]
    for step, kl, delta in zip(steps[1:], kls[1:], deltas[1:], strict=True):
        excess = split_kl(step.uppers, (-gamma, 0.0, 1.0 - gamma, 1.0), kl, step.n, delta)
        bounds.append(recursive_step(excess, gamma, bounds[-1]))
    return bounds


def counted(t: int, name: str) -> str:
    """The name of a count of step t."""
    return f"step {t}: {name}"


def link(t: int, steps: int) -> str:
    """The file of pi_t."""
    return "prior" if t == 0 else "posterior" if t == steps else f"posterior-{t}"


def _step(t: int, counts: Counts, entries: list[Entry]) -> Step:
    """Step t, its bound aside."""
    plan, kl = counts.plans[t - 1], counts.kls[t - 1]
    trials = plan.n * plan.passes
    if t == 1:
        sums = [counts[counted(1, WRONG)].value]
    else:
        worse, better, both = (counts[counted(t, name)].value for name in (WORSE, BETTER, BOTH))
        sums = [trials - better, worse + both, worse]  # how often f >= 0, f >= 1 - gamma, f = 1
    deltas = [share(entries, _monte_carlo(t, level)) for level in _levels(t)]
    shape = (plan.groups, plan.size, plan.n, plan.passes)
    uppers = tuple(grouped_upper(value, *shape, delta) for value, delta in zip(sums, deltas, strict=True))
    return Step(t, plan.n, kl.kl, kl.original, sums[0 if t == 1 else 1] / trials, uppers, plan)


def _levels(t: int) -> tuple[str, ...]:
    """The means that step t estimates by draws."""
    return (WRONG,) if t == 1 else LEVELS


def _inequality(t: int) -> str:
    kind = "PAC-Bayes-kl inequality" if t == 1 else "PAC-Bayes-split-kl inequality (three events)"
    return f"step {t}, {kind}: the certification examples are unrepresentative"


def _monte_carlo(t: int, level: str) -> str:
    what = "the error rate" if level == WRONG else f"how often {level} for the excess loss f"
    return f"step {t}, Monte Carlo: the sampled networks misestimate {what}"
