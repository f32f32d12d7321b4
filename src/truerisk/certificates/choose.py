"""Which methods one call runs, and how they share delta: decided before anything is trained.

With ``method="all"`` every method that applies makes a certificate of its own, each with an equal part of delta, so
that all of them hold at once and the best may be picked (rule 3 of docs/design.rst). Which methods apply is decided by
the settings alone: a method that loses is paid for as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from truerisk.certificates.charge import tried_before
from truerisk.certificates.evidence import split_data
from truerisk.certificates.methods import Method
from truerisk.certificates.prior import NOTHING_TRAINED, Prior
from truerisk.certificates.request import Request
from truerisk.certificates.settings import DATA_FREE_STD, Settings
from truerisk.errors import TrueriskError
from truerisk.names import FACTORY

if TYPE_CHECKING:
    from truerisk.certificates.workshop.material import Material


def choose(request: Request, material: Material) -> list[Settings]:
    """The settings of every certificate that a call makes; a TrueriskError where there is none."""
    candidates = request.candidates(material.trained)
    if request.named is not None or len(candidates) == 1:
        chosen = [_one(request, material, candidates[0])]
    else:
        chosen = _applicable(request, material, candidates)
    if len(chosen) > 1:
        chosen = [replace(settings, methods=len(chosen)) for settings in chosen]
    for settings in chosen:
        settings.ledger  # noqa: B018  refuses a delta that can't be shared like that
    return chosen


def settings_for(request: Request, material: Material, method: Method, prior: Prior) -> Settings:
    """All choices with their defaults filled in, refused here if they can't work."""
    data, arch, came = material.data, material.arch, prior.trained
    method = method.resolve(arch.template)
    method.refuse(prior, material.trained)
    if material.trained:
        method.refuse_weights(arch)
    settings = Settings(
        method=method,
        prior=prior,
        delta=float(request.delta),
        seed=request.seed,
        tried=request.configurations * tried_before(arch, data, prior, request.seed),
        model=arch.name,
        model_kind=arch.kind,
        given=material.trained,
        threads=material.threads,
        two_sided=request.two_sided,
        own_errors=0 if material.own is None else material.own[0],
        own_rows=0 if material.own is None else material.own[1],
        outputs=arch.column,
        **(material.draws.recorded() if method.needs_unlabelled or came else {}),
        **({} if came else _training(request, material, prior)),
    )
    settings.ledger  # noqa: B018
    if not came:
        split_data(settings, len(data))
    return settings


def _training(request: Request, material: Material, prior: Prior) -> dict[str, Any]:
    """The settings that are about what is trained here."""
    from truerisk.training.plans import default_plans

    data, std = material.data, request.prior_std
    std = DATA_FREE_STD if std is None and prior.data_free else std
    trains = round(prior.fraction * len(data))
    return {
        "own_training": request.fit is not None,
        "trust_factory": request.trust_factory and material.arch.kind == FACTORY,
        "objective": request.objective,
        "prior_std": None if std is None else float(std),
        "plans": default_plans(material.arch.name, data, trains, request.seed, request.epochs, request.lr),
    }


def _one(request: Request, material: Material, method: Method) -> Settings:
    """The one method that was asked for: what is wrong with it is told."""
    if request.fresh is not None:
        return settings_for(request, material, method, NOTHING_TRAINED)
    if not request.suits(method, material.trained):
        if material.trained and not method.takes_weights:
            raise TrueriskError(
                f"the method {method.name} trains its own network; leave out --weights, or give --fresh data."
            )
        needed = "trained weights (--weights)" + (
            " and unlabeled inputs (--unlabeled)" if method.needs_unlabelled else ""
        )
        raise TrueriskError(f"the method {method.name} needs an already trained network; give {needed}.")
    return settings_for(request, material, method, request.asked_prior or method.usual_prior)


def _applicable(request: Request, material: Material, candidates: list[Method]) -> list[Settings]:
    """Those that go with the prior; a trained network's methods may fall back on their usual one."""
    chosen: list[Settings] = []
    refusals: list[TrueriskError] = []
    asked = request.asked_prior
    for method in candidates:
        priors = [asked, method.usual_prior] if material.trained else [asked or method.usual_prior]
        for prior in filter(None, priors):
            try:
                chosen.append(settings_for(request, material, method, prior))
                break
            except TrueriskError as error:
                refusals.append(error)
    if not chosen or (asked is not None and asked not in [settings.prior for settings in chosen]):
        raise (
            refusals[0]
            if refusals
            else TrueriskError("no method certifies such a predictor of this network; leave out --for.")
        )
    return chosen
