"""``truerisk.certify``: one call from a network and data to a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from truerisk.certificates.certificate import Certificate, complete
from truerisk.certificates.evidence import Evidence, split_data
from truerisk.certificates.fresh import leave_out
from truerisk.certificates.methods import find_method
from truerisk.certificates.record import assemble, measure, spend
from truerisk.certificates.settings import (
    DATA_FREE_STD,
    HOLD_OUT,
    PAC_BAYES_KL,
    Settings,
    already_tried,
    default_plans,
    split_fraction,
)
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.nets import BUILTIN, FACTORY, Architecture, architecture, check_network, load_weights
from truerisk.pacbayes.objectives import objective as known_objective


def certify(
    build: object = None,
    data: object = None,
    prior: str = "split:0.5",
    delta: float = 0.05,
    seed: int = 0,
    *,
    method: str = PAC_BAYES_KL,
    fit: Fit | None = None,
    fresh: object = None,
    trained_on: object = None,
    weights: str | Path | None = None,
    tried: int | None = None,
    objective: str = "tempered",
    epochs: int | None = None,
    prior_std: float | None = None,
    trust_factory: bool = False,
    options: dict[str, Any] | None = None,
    data_dir: str | Path | None = None,
    work: str | Path | None = None,
) -> Certificate:
    """A certified upper bound on the true risk of a network.

    ``build`` is a factory, a module (its weights are used with ``fresh`` only), or a built-in name;
    ``data`` a torch Dataset, a pair (X, y), a name or a path.

    * ``prior="zero"`` or ``"init"``: data-free, all examples certify. ``"split:0.5"``: half of the
      examples train the prior, the other half certify.
    * ``fit(module, dataset)``: your own training, for the prior and for the hold-out floor.
    * ``fresh=data``: certify the module as it is (or with ``weights`` from a file) on data it never saw.
      ``trained_on`` (indices or data) is checked for overlap.
    * ``tried``: how many configurations (network, prior, seed) were compared on this data, this one
      included. Each gets an equal share of ``delta``. (The built-in networks were chosen with a look at digits,
      MNIST and Fashion-MNIST; there each of your configurations counts 32 times.)
    * ``work``: a folder for checkpoints; the same call goes on where a killed one was.

    >>> cert = certify("mlp:16", "digits", epochs=2)
    >>> cert.empirical_risk < cert.risk_bound <= 1
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TrueriskError(f"the seed is {seed!r}, but must be a whole number that is not negative.")
    if fresh is not None:
        if data is not None:
            raise TrueriskError(
                "give either data (to train and certify) or fresh (to certify what is trained), not both."
            )
        return _certify_trained(build, load(fresh, data_dir), weights, trained_on, delta, seed, tried, data_dir)
    if weights is not None or trained_on is not None:
        raise TrueriskError(
            "weights and trained_on are for a network that is already trained: give fresh data too (--fresh), "
            "labelled examples that it never saw."
        )
    loaded = load("digits" if data is None else data, data_dir)
    arch = architecture(build, loaded.input_shape, loaded.classes, trust_factory=trust_factory)
    settings = _settings(
        loaded, arch, prior, delta, seed, method, fit, trust_factory, tried, objective, epochs, prior_std, options
    )
    trainer = Trainer(settings, loaded, arch, fit, Path(work) if work else None)
    evidence = find_method(method).produce(trainer, split_data(settings, len(loaded)))
    return _finish(settings, loaded, arch, evidence)


def _settings(
    data: Data,
    arch: Architecture,
    prior: str,
    delta: float,
    seed: int,
    method: str,
    fit: Fit | None,
    trust_factory: bool,
    tried: int | None,
    objective: str,
    epochs: int | None,
    prior_std: float | None,
    options: dict[str, Any] | None,
) -> Settings:
    """All choices with their defaults filled in, refused here if they can't work."""
    known_objective(objective)
    fraction = split_fraction(prior)
    if prior_std is not None and not 0 < prior_std < float("inf"):
        raise TrueriskError(f"prior_std is {prior_std}, but must be a positive number.")
    std = DATA_FREE_STD if prior_std is None and not fraction else prior_std
    total = (1 if tried is None else tried) * already_tried(arch.name, arch.kind, data, prior, seed)
    n_prior = round(fraction * len(data))
    settings = Settings(
        method=method,
        prior=prior,
        delta=float(delta),
        seed=seed,
        tried=total,
        model=arch.name,
        model_kind=arch.kind,
        own_training=fit is not None,
        trust_factory=trust_factory and arch.kind == FACTORY,
        objective=objective,
        prior_std=None if std is None else float(std),
        plans=default_plans(arch.name, data, n_prior, seed, epochs),
        options=options or {},
    )
    find_method(method).refuse(settings)
    spend(settings)  # refuses a delta or a count that makes no sense before anything is trained
    return settings


def _certify_trained(
    build: object,
    data: Data,
    weights: str | Path | None,
    trained_on: object,
    delta: float,
    seed: int,
    tried: int | None,
    data_dir: str | Path | None,
) -> Certificate:
    """Clopper-Pearson on fresh data: exact, and as tight as anything that only counts errors."""
    arch = architecture(build, data.input_shape, data.classes, trust_factory=True)
    if weights is None and arch.kind == BUILTIN:
        raise TrueriskError("a built-in network has no trained weights of its own: give --weights FILE.")
    settings = Settings(HOLD_OUT, "none", float(delta), seed, 1 if tried is None else tried, arch.name, arch.kind)
    spend(settings)
    module = _trained_module(arch, weights)
    parts = leave_out(data, trained_on, data_dir)
    network = check_network(module, data.X[parts.certify], data.classes)
    return _finish(settings, data, arch, Evidence(parts, {"network": network}))


def _trained_module(arch: Architecture, weights: str | Path | None) -> nn.Module:
    module = arch.template()
    if weights is not None:
        load_weights(module, weights)
    return module


def _finish(settings: Settings, data: Data, arch: Architecture, evidence: Evidence) -> Certificate:
    record: dict[str, Any] = assemble(settings, data, evidence, measure(settings, data, evidence))
    record["model"] = {"name": arch.name, "kind": arch.kind}
    return Certificate(complete(record, settings, evidence), evidence)
