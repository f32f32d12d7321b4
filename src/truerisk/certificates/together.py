"""Which methods one call runs, and how they share delta.

With ``method="all"`` every method that applies makes a certificate of its own, each with an equal part of delta, so
that all of them hold at once and the best may be picked (rule 3 of the design). Which methods apply is decided before
anything is trained, by the settings alone: a method that loses is paid for as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.certificates.certificate import Certificate, complete
from truerisk.certificates.draws import NOTHING_SAID, Draws
from truerisk.certificates.evidence import Evidence, split_data
from truerisk.certificates.frozen import freeze
from truerisk.certificates.methods import METHODS, PREDICTORS, Method, find_method
from truerisk.certificates.methods.base import DETERMINISTIC, SINGLE_DRAW, STOCHASTIC
from truerisk.certificates.methods.disagreement import with_target
from truerisk.certificates.record import assemble, measure, spend
from truerisk.certificates.scales import with_layers
from truerisk.certificates.settings import (
    DATA_FREE_STD,
    HOLD_OUT,
    PAC_BAYES_KL,
    Settings,
    check_prior_std,
    split_fraction,
    tried_before,
)
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import FACTORY, Architecture
from truerisk.pacbayes.objectives import objective as known_objective
from truerisk.threads import limited
from truerisk.training.plans import default_plans

ALL = "all"
# The usual method of each kind of predictor, with examples set aside and without.
USUAL = {
    STOCHASTIC: (PAC_BAYES_KL, PAC_BAYES_KL),
    SINGLE_DRAW: ("single-draw", "single-draw"),
    DETERMINISTIC: (HOLD_OUT, "description-length"),
}
Choice = tuple[Method, str]  # a method and its prior


@dataclass(frozen=True)
class Request:
    """What the user asks for, whatever the method."""

    data: Data
    arch: Architecture
    prior: str | None  # None: as the method likes it
    delta: float
    seed: int
    tried: int | None
    objective: str
    epochs: int | None
    prior_std: float | None
    trust_factory: bool
    options: dict[str, Any]
    fit: Fit | None = None
    trained: bool = False  # ``arch.given`` holds weights that saw all of ``data``
    unlabelled: np.ndarray | None = None
    lr: float | None = None  # None: as the plans have it
    threads: int = 1
    draws: Draws = NOTHING_SAID  # about the unlabelled inputs

    def settings(self, method: Method, prior: str, methods: int = 1) -> Settings:
        """All choices with their defaults filled in, refused here if they can't work."""
        known_objective(self.objective)
        fraction, std = split_fraction(prior), self.prior_std
        check_prior_std(std)
        if self.lr is not None and self.fit is not None:
            raise TrueriskError("lr is for truerisk's own training, and fit is yours: set the learning rate in fit.")
        std = DATA_FREE_STD if std is None and not fraction else std
        before = tried_before(self.arch, self.data, prior, self.seed)
        settings = Settings(
            method=method.name,
            prior=prior,
            delta=float(self.delta),
            seed=self.seed,
            tried=(1 if self.tried is None else self.tried) * before,
            model=self.arch.name,
            model_kind=self.arch.kind,
            own_training=self.fit is not None,
            trust_factory=self.trust_factory and self.arch.kind == FACTORY,
            objective=self.objective,
            prior_std=None if std is None else float(std),
            plans=default_plans(
                self.arch.name, self.data, round(fraction * len(self.data)), self.seed, self.epochs, self.lr
            ),
            options=with_layers({**method.options, **self.options}, self.arch.template),
            methods=methods,
            given=self.trained,
            threads=self.threads,
            **(self.draws.recorded() if method.needs_unlabelled else {}),
        )
        method.refuse(settings)
        spend(settings)  # refuses a delta or a count that makes no sense before anything is trained
        return settings

    def certificate(self, choice: Choice, methods: int, work: Path | None) -> Certificate:
        """Train, count, derive."""
        method, prior = choice
        own = replace(self, options=method.takes(self.options))  # all that no method takes was refused before
        settings = own.settings(method, prior, methods)
        trainer = Trainer(settings, self.data, self.arch, self.fit, work)
        with limited(settings.threads):
            evidence = method.produce(trainer, split_data(settings, len(self.data)))
        if method.needs_unlabelled:
            assert self.arch.given is not None
            assert self.unlabelled is not None
            evidence = with_target(evidence, self.arch.given, self.unlabelled)
        return finish(settings, self.data, self.arch, evidence)


def choose(request: Request, method: str | None, predictor: str | None) -> list[Choice]:
    """The methods that a call runs; all that it needs to know is known before anything is trained."""
    if predictor not in (None, *PREDICTORS):
        raise TrueriskError(f"there is no kind of predictor {predictor!r}; choose one of {', '.join(PREDICTORS)}.")
    if method not in (None, ALL):
        return [_one(request, find_method(method), predictor)]
    if method is None and not request.trained:
        aside = request.prior is None or split_fraction(request.prior) > 0
        usual = USUAL[predictor or STOCHASTIC][0 if aside else 1]
        return [_one(request, find_method(usual), predictor)]
    pool = [m for m in METHODS.values() if _takes(m, request) and predictor in (None, m.predictor)]
    if method is None and predictor is None:  # a single draw is no better than the posterior it is drawn from
        pool = [m for m in pool if m.predictor != SINGLE_DRAW]
    return _applicable(request, pool)


def run(request: Request, choices: list[Choice], work: Path | None) -> Certificate:
    """Make all certificates and return the best, which knows the others; a training they share is made once."""
    with ExitStack() as stack:
        if work is None and len(choices) > 1:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = [request.certificate(choice, len(choices), work) for choice in choices]
    best, *others = sorted(made, key=lambda certificate: certificate.risk_bound)
    return replace(best, others=tuple(others))


def finish(settings: Settings, data: Data, arch: Architecture, evidence: Evidence) -> Certificate:
    """From evidence to a certificate: nothing changes once it is frozen."""
    with limited(settings.threads):
        frozen = freeze(settings, data, arch, evidence, find_method(settings.method).origins(settings))
        record = assemble(settings, data, frozen.evidence, measure(settings, data, frozen))
    return Certificate(complete(record, settings, frozen), frozen)


def _one(request: Request, method: Method, predictor: str | None) -> Choice:
    """A method that was asked for by name: what is wrong with it is told."""
    if predictor not in (None, method.predictor):
        raise TrueriskError(
            f"the method {method.name} certifies a {method.predictor} predictor, not a {predictor} one; give either "
            "--method or --for."
        )
    if not _takes(method, request):
        if request.trained and not method.takes_weights:
            raise TrueriskError(
                f"the method {method.name} trains its own network; leave out --weights, or give --fresh data."
            )
        needed = "trained weights (--weights)" + (" and --unlabelled inputs" if method.needs_unlabelled else "")
        raise TrueriskError(f"the method {method.name} is for a network that came trained: give {needed}.")
    prior = request.prior or method.usual_prior
    request.settings(method, prior)
    if request.trained:
        method.refuse_weights(request.arch)
    return method, prior


def _takes(method: Method, request: Request) -> bool:
    if not request.trained:
        return not method.needs_weights
    return method.takes_weights and (request.unlabelled is not None or not method.needs_unlabelled)


def _applicable(request: Request, pool: Iterable[Method]) -> list[Choice]:
    """Those of ``pool`` that these settings suit; a trained network's methods may fall back on their usual prior."""
    choices: list[Choice] = []
    refusals: list[TrueriskError] = []
    unknown = set(request.options)
    for method in pool:
        own = replace(request, options=method.takes(request.options))
        unknown -= own.options.keys()
        priors = [request.prior, method.usual_prior] if request.trained else [request.prior or method.usual_prior]
        for prior in filter(None, priors):
            try:
                own.settings(method, prior)
                if request.trained:
                    method.refuse_weights(request.arch)
            except TrueriskError as error:
                refusals.append(error)
            else:
                choices.append((method, prior))
                break
    if unknown:
        raise TrueriskError(f"none of these methods takes the option {', '.join(sorted(unknown))}.")
    if not choices or (request.prior is not None and request.prior not in [prior for _, prior in choices]):
        raise refusals[0] if refusals else TrueriskError("no method certifies such a predictor of this network.")
    return choices
