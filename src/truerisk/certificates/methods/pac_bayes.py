"""PAC-Bayes-kl: a posterior over weights; the bound grows with its KL from a prior.

The prior has one scale for all layers, or one for each group of layers from a grid that was fixed before any data
(``pacbayes.layer_scales``): then the PAC-Bayes inequality's part of delta is shared among all priors of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from truerisk.bounds import (
    confidence_term,
    grouped_lower,
    grouped_upper,
    kl_inverse,
    mcallester,
    pac_bayes_kl,
    pac_bayes_kl_lower,
    quadratic,
    thiemann,
)
from truerisk.certificates.counts import DRAWS, SURE, Count, Counts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import STOCHASTIC, Method, Shares, floor_counts, how_trained
from truerisk.certificates.origins import ARRAYS, DERIVED, FREE, GAUSSIAN, TRAINED, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Quantity, Table, Tale, upper
from truerisk.errors import TrueriskError
from truerisk.words import several

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split

MONTE_CARLO_SHARE = Decimal("0.1")
EVENT = "PAC-Bayes-kl inequality: the certification examples are unrepresentative"
MONTE_CARLO = "Monte Carlo: the sampled networks erred less often than the posterior does on average"
MONTE_CARLO_BELOW = "Monte Carlo, lower end: the sampled networks erred more often than the posterior does on average"
OTHER_SCALES = "this inequality for the other prior scales on the grid"
ALL, LAST = "all", "last"
FIXED, GRID = "fixed", "grid"
MOST_DRAWS = 100_000_000
SCALES = "scales"  # the file with the chosen points of the grid
POINTS, MOST_LAYERS = 25, 8  # of the grid of ``pacbayes.layer_scales``, which tests compare


def draws_option() -> Any:
    """How many answers of sampled networks estimate the risk of a posterior; by default what is affordable."""
    about = "Number of sampled predictions that estimate the Gibbs risk."
    return option(None, about, shown="by network", low=1, high=MOST_DRAWS, hint="try --draws 100000")


@dataclass(frozen=True)
class Forms:
    """Looser forms of the bound that hold on the same event, so that showing them uses no delta."""

    other_forms: dict[str, float]


@dataclass(frozen=True)
class Posterior(Method):
    """kl(empirical Gibbs risk, true Gibbs risk) <= (KL + ln(2 sqrt(n)/delta)) / n (Maurer 2004)."""

    predictor = STOCHASTIC
    paper = "the PAC-Bayes-kl inequality (Seeger 2002, Maurer 2004)"
    gaussian = counts_weights = fits_certify = True
    above_only = ""

    scales: str = option(
        FIXED,
        "Prior scales: fixed, grid (one per layer), or grid:K (K groups).",
        shown="fixed; grid with --weights",
    )
    warmup: float = option(
        0.0,
        "Fraction of posterior training over which the KL weight rises to 1.",
        low=0,
        below=1,
        hint="try --warmup 0.3",
    )
    draws: int | None = draws_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scales != GRID:
            self.layers  # noqa: B018  refuses what it cannot read

    @property
    def layers(self) -> int:
        """How many groups of layers choose a prior scale; 0 for fixed scales."""
        kind, _, layers = self.scales.partition(":")
        if kind == FIXED and not layers:
            return 0
        if kind != GRID or not layers.isdecimal() or len(layers) > 3 or not 1 <= int(layers) <= MOST_LAYERS:
            raise TrueriskError(
                f"scales is {self.scales[:40]!r}, but must be {FIXED}, {GRID}, or {GRID}:K with K from 1 to "
                f"{MOST_LAYERS}; try --scales {FIXED}."
            )
        return int(layers)

    def resolve(self, network: Callable[[], nn.Module]) -> Method:
        """ "grid" says how many groups of layers this network has, up to a limit."""
        kind, _, layers = self.scales.partition(":")
        if kind != GRID:
            return self
        from truerisk.certificates.workshop.priors import freeze_all_but_last
        from truerisk.pacbayes import layer_groups

        module = network()
        if self.only_last:
            freeze_all_but_last(module)
        most = len(layer_groups(module))
        if layers.isdecimal() and int(layers) > most:
            raise TrueriskError(
                f"scales is {self.scales!r}, but the network has {several(most, 'group')} of layers; give --scales "
                f"{GRID}:{most}."
            )
        return replace(self, scales=f"{GRID}:{layers or most}")

    def refuse(self, prior: Prior, given: bool) -> None:
        super().refuse(prior, given)
        if self.scales != FIXED and not prior.data_free:
            raise TrueriskError(
                "a grid of prior scales needs a data-free prior; give --prior zero or init, or --scales fixed."
            )

    def events(self) -> Shares:
        return [*self.shared(EVENT, 1 - MONTE_CARLO_SHARE), (MONTE_CARLO, MONTE_CARLO_SHARE)]

    def both_ends(self) -> Shares:
        """The inequality limits the divergence on both sides at once; only the draws have two ends to pay for."""
        half = MONTE_CARLO_SHARE / 2
        return [*self.shared(EVENT, 1 - MONTE_CARLO_SHARE), (MONTE_CARLO, half), (MONTE_CARLO_BELOW, half)]

    def shared(self, event: str, part: Decimal) -> Shares:
        """The ``part`` of delta that belongs to an event about the prior, shared among all priors of the grid."""
        own = part / POINTS**self.layers
        return [(event, own)] if own == part else [(event, own), (OTHER_SCALES, part - own)]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.workshop.gaussians import train_gaussians

        return train_gaussians(trainer, parts, self.layers, self.warmup)

    def files(self, settings: Settings) -> dict[str, File]:
        chosen = {SCALES: File(FREE, ARRAYS)} if self.layers else {}
        free = {"posterior": File(FREE, GAUSSIAN, predicts=True), "log_scales": File(FREE, ARRAYS, optional=True)}
        return prior_files(settings) | free | chosen

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        from truerisk.certificates.workshop.gaussians import prior_again

        return prior_again(trainer, stored, retrain)

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.certificates.workshop.rescaling import rescaled_kl
        from truerisk.certificates.workshop.scales import scaled_prior
        from truerisk.pacbayes import gibbs_risk, plan_draws

        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        X, prior = data.X[rows], scaled_prior(evidence, self.layers)
        plan = plan_draws(evidence.posterior, X, self.draws)
        estimate = gibbs_risk(evidence.posterior, X, data.y[rows], seed("draws"), plan)
        drawn = Count(estimate.errors, estimate.near_ties, plan.n * plan.passes, drawn=True, size=plan.size)
        kl = rescaled_kl(evidence.posterior, prior, evidence.log_scales, data.blank)
        items = {DRAWS: drawn} | ({f"{DRAWS}{SURE}": replace(drawn, value=estimate.sure)} if settings.two_sided else {})
        return floor_counts(settings, data, evidence).adding(items, kls=(kl,), plans=(plan,))

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        """risk_bound = kl_inverse(upper, (KL + ln(2 sqrt(n) / delta)) / n), where upper contains the draws' error."""
        (plan,), (kl,), count, delta = counts.plans, counts.kls, counts[DRAWS], share(entries, EVENT)
        risk = count.value / count.trials
        above = grouped_upper(count.value, plan.groups, plan.size, plan.n, plan.passes, share(entries, MONTE_CARLO))
        bound = pac_bayes_kl(above, kl.kl, plan.n, delta)
        without_kl = kl_inverse(above, confidence_term(plan.n, delta) / plan.n)
        arguments = (above, kl.kl, plan.n, delta)
        forms = {
            "McAllester": mcallester(*arguments),
            "quadratic": quadratic(*arguments),
            "Thiemann": thiemann(*arguments),
        }
        parts = (
            Part("errors of the sampled networks", risk),
            Part("Monte Carlo", above - risk),
            Part("confidence (delta)", without_kl - above),
            Part("KL(posterior, prior)", bound - without_kl),
        )
        return Derivation(bound, risk, above, parts, kl, plan, (Forms(forms),))

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        """The other side of the same inequality, at the lower end of what the draws estimate."""
        (plan,), (kl,), count, drawn = counts.plans, counts.kls, counts.sure(DRAWS), share(entries, MONTE_CARLO_BELOW)
        below = grouped_lower(count.value, plan.groups, plan.size, plan.n, plan.passes, drawn)
        return Lower(pac_bayes_kl_lower(below, kl.kl, plan.n, share(entries, EVENT)), below)

    def details(self) -> tuple[type, ...]:
        return (Forms,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        from truerisk.pacbayes import draw_predictions

        return draw_predictions(frozen.evidence.posterior, X, seed)

    def tell(self, record: Record) -> Tale:
        plan = record.derivation.draws
        answers = f" in {plan.n * plan.passes:,} predictions" if plan else ""
        return Tale(
            seen=f"error rate of the sampled networks on the {record.n_certify:,} certification examples",
            counted=f"{record.counts[DRAWS]:,} errors{answers}",
            tables=(_forms(record.derivation),),
        )

    def training(self, settings: Settings) -> tuple[str, str]:
        return prior_told(settings)

    def trusted(self, settings: Settings) -> list[str]:
        return prior_trusted(settings)


@dataclass(frozen=True)
class RandomLayers(Method):
    """For methods that may leave only the last layer to chance."""

    random: str = option(ALL, "Random layers of the posterior: all or last.", among=(ALL, LAST))

    @property
    def only_last(self) -> bool:
        return self.random == LAST


@dataclass(frozen=True)
class PacBayesKL(RandomLayers, Posterior):
    """A prior that is data-free or was trained on examples of its own, and a posterior trained on the others."""

    name = "pac-bayes-kl"
    summary = "weights resampled from a posterior for each prediction (PAC-Bayes-kl)"


def prior_files(settings: Settings) -> dict[str, File]:
    """The prior and the network of the baseline: one of them was trained, and the other follows without training."""
    learnt = bool(settings.prior.fraction)
    return {"network": File(DERIVED if learnt else TRAINED), "prior": File(TRAINED if learnt else DERIVED, GAUSSIAN)}


def prior_trusted(settings: Settings) -> list[str]:
    """The words for what verify does not re-derive automatically."""
    what = "prior" if settings.prior.fraction else "network of the hold-out baseline"
    return [f"that the {what} was trained only on its own examples (verify --retrain retrains it)"]


def prior_told(settings: Settings) -> tuple[str, str]:
    """What the prior is a Gaussian around, and its scale."""
    std, method = settings.prior_std, settings.method
    width = "prior scale chosen on its own examples" if std is None else f"prior scale {std:g}/√fan-in"
    if isinstance(method, Posterior) and method.layers:
        width = f"prior scales of {several(method.layers, 'group')} of layers chosen on a grid around {std:g}/√fan-in"
    if method.only_last:
        width += "; only the last layer is random"
    if settings.prior.fraction:
        centre = f"a network {how_trained(settings)}, only on the prior's examples"
    else:
        centre = "zero" if settings.prior.centred else "the seeded initialization"
    return "Prior", f"{settings.prior}: a Gaussian around {centre}; {width}"


def _forms(found: Derivation) -> Table:
    """The certificate's own form first, then the looser ones."""
    about = (
        "All of these bounds hold on the same event, so showing them uses no delta. The other forms follow from the kl "
        "form by inequalities that always hold, so they are looser. The certificate uses the kl form."
    )
    forms = {"kl": found.risk_bound, **found.detail(Forms).other_forms}
    rows: tuple[tuple[str | Quantity, ...], ...] = tuple((name, upper(value)) for name, value in forms.items())
    notes = ("used by the certificate", *("says nothing" if value >= 1 else "" for value in [*forms.values()][1:]))
    return Table("Other forms of the bound", about, ("Form", "Upper bound on the risk"), rows, notes)
