"""``truerisk.certify``: one call from a network and data to a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from truerisk.certificates.certificate import Certificate
from truerisk.certificates.draws import Draws
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.fresh import leave_out
from truerisk.certificates.methods import METHODS
from truerisk.certificates.methods.base import DETERMINISTIC
from truerisk.certificates.methods.disagreement import settle_inputs
from truerisk.certificates.record import spend
from truerisk.certificates.settings import HOLD_OUT, Settings, check_seed
from truerisk.certificates.together import Request, choose, finish, run
from truerisk.certificates.trainer import Fit
from truerisk.data import Data, load, load_inputs
from truerisk.errors import TrueriskError
from truerisk.nets import BUILTIN, MODULE, Architecture, architecture, check_network, load_weights
from truerisk.threads import check_threads, threads_for
from truerisk.training.device import CPU, training_on

Weights = str | Path | Mapping[str, Tensor]


def certify(
    build: object = None,
    data: object = None,
    prior: str | None = None,
    delta: float = 0.05,
    seed: int = 0,
    *,
    method: str | None = None,
    predictor: str | None = None,
    fit: Fit | None = None,
    fresh: object = None,
    trained_on: object = None,
    weights: Weights | None = None,
    unlabelled: object = None,
    tried: int | None = None,
    objective: str = "tempered",
    epochs: int | None = None,
    lr: float | None = None,
    prior_std: float | None = None,
    trust_factory: bool = False,
    repeats_are_draws: bool = False,
    ids: object = None,
    trained_on_ids: object = None,
    options: dict[str, Any] | None = None,
    device: str = CPU,
    threads: int | None = None,
    data_dir: str | Path | None = None,
    work: str | Path | None = None,
) -> Certificate:
    """A certified upper bound on the true risk of a network.

    ``build`` is a factory, a module (its weights are used with ``fresh`` or ``unlabelled`` only), or a built-in name;
    ``data`` a torch Dataset, a pair (X, y), a name or a path.

    * ``prior="split:0.5"`` (the usual one): half of the examples train the prior, the other half certify.
      ``"zero"`` or ``"init"``: data-free, all examples certify.
    * ``method``: a name, or "all" for the best of all that apply (delta is split among them); ``options`` are the
      method's. ``predictor``: only methods for this kind of predictor, "stochastic", "single-draw" or "deterministic".
    * ``fit(module, dataset)``: your own training, for the prior and for the hold-out floor.
    * ``fresh=data``: certify the module as it is (or with ``weights``, a file or a state dict) on data it never saw.
      ``trained_on`` (indices or data) is checked for overlap.
    * ``repeats_are_draws=True``: your word that rows with equal values (in two data sets, or among unlabelled inputs)
      are separate draws. Or give identities, one integer or word per row: ``ids`` of the fresh or unlabelled rows,
      ``trained_on_ids`` of the data that the network was trained on. Rows with one identity are one draw, all others
      are separate draws, whatever their values.
    * ``weights`` without ``fresh``: a network that was trained on all of ``data``. With ``unlabelled`` inputs that it
      never saw, it is also certified unchanged, by how often it agrees with a certified network.
    * ``tried``: how many configurations (network, prior, seed) were compared on this data, this one
      included. Each gets an equal share of ``delta``. (The built-in networks were chosen with a look at digits,
      MNIST, Fashion-MNIST and CIFAR-10; there each of your configurations counts 32 times.)
    * ``lr``: the peak learning rate of the network's training (of the prior's and the floor's). ``truerisk.search``
      finds one on rows that never certify.
    * ``device``: where networks are trained, "cpu", "cuda" or "auto". What is certified is computed on the CPU.
    * ``threads``: how many compute; by default 1 for small networks and 2 for large ones. The same call with the same
      number gives the same certificate, whatever else the machine is doing.
    * ``work``: a folder for checkpoints; the same call goes on where a killed one was.

    >>> cert = certify("mlp:16", "digits", epochs=2)
    >>> cert.empirical_risk < cert.risk_bound <= 1
    True
    """
    check_seed(seed)
    threads = None if threads is None else check_threads(threads)
    draws = Draws.of(repeats_are_draws, ids, trained_on_ids)
    if fresh is not None:
        _refuse_beside_fresh(data, unlabelled, method, predictor)
        return _certify_fresh(
            build, load(fresh, data_dir), weights, trained_on, delta, seed, tried, threads, data_dir, draws
        )
    if trained_on is not None:
        raise TrueriskError("trained_on says what fresh examples must not overlap: give fresh data too (--fresh).")
    if unlabelled is None and draws.recorded()["row_ids"]:
        raise TrueriskError("ids are of rows that the network never saw: give --fresh or --unlabelled with --ids.")
    loaded = load("digits" if data is None else data, data_dir)
    arch = architecture(build, loaded.input_shape, loaded.classes, trust_factory=trust_factory)
    trained = weights is not None or unlabelled is not None
    trained = trained or (method in METHODS and METHODS[method].needs_weights and arch.kind == MODULE)
    if trained:
        if weights is None and arch.kind != MODULE:
            raise TrueriskError("unlabelled inputs are for a network that is already trained: give --weights FILE too.")
        module = check_network(_trained_module(arch, weights), loaded.X, loaded.classes)
        arch = replace(arch, given=module)
    inputs = None if unlabelled is None else load_inputs(unlabelled, data_dir)[0]
    request = Request(
        data=loaded,
        arch=arch,
        prior=prior,
        delta=delta,
        seed=seed,
        tried=tried,
        objective=objective,
        epochs=epochs,
        prior_std=prior_std,
        trust_factory=trust_factory,
        options=options or {},
        fit=fit,
        trained=trained,
        unlabelled=inputs,
        lr=lr,
        threads=threads or threads_for(arch.template(), loaded.X),
        draws=draws if inputs is None else settle_inputs(inputs, loaded, draws),
    )
    choices = choose(request, method, predictor)
    with training_on(device):
        return run(request, choices, Path(work) if work else None)


def _refuse_beside_fresh(data: object, unlabelled: object, method: str | None, predictor: str | None) -> None:
    if data is not None:
        raise TrueriskError("give either data (to train and certify) or fresh (to certify what is trained), not both.")
    if unlabelled is not None:
        raise TrueriskError("fresh examples have labels and need no unlabelled ones: give either of the two.")
    if method not in (None, HOLD_OUT) or predictor not in (None, DETERMINISTIC):
        raise TrueriskError(f"fresh examples certify a network as it is, by {HOLD_OUT}: leave out --method and --for.")


def _certify_fresh(
    build: object,
    data: Data,
    weights: Weights | None,
    trained_on: object,
    delta: float,
    seed: int,
    tried: int | None,
    threads: int | None,
    data_dir: str | Path | None,
    draws: Draws,
) -> Certificate:
    """Clopper-Pearson on fresh data: exact, and as tight as anything that only counts errors."""
    arch = architecture(build, data.input_shape, data.classes, trust_factory=True)
    settings = Settings(HOLD_OUT, "none", float(delta), seed, 1 if tried is None else tried, arch.name, arch.kind)
    spend(settings)
    module = _trained_module(arch, weights)
    parts, draws = leave_out(data, trained_on, data_dir, draws)
    settings = replace(settings, threads=threads or threads_for(module, data.X), **draws.recorded())
    network = check_network(module, data.X[parts.certify], data.classes)
    return finish(settings, data, arch, Evidence(parts, {"network": network}))


def _trained_module(arch: Architecture, weights: Weights | None) -> nn.Module:
    if weights is None and arch.kind == BUILTIN:
        raise TrueriskError("a built-in network has no trained weights of its own: give --weights FILE.")
    module = arch.template()
    if weights is not None:
        load_weights(module, weights)
    return module
