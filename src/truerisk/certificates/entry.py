"""``truerisk.certify``: one call from a network and data to a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.certificates.request import Fit, Request
from truerisk.names import CPU

if TYPE_CHECKING:
    from torch import Tensor

    from truerisk.certificates.certificate import Certificate
    from truerisk.certificates.methods import Method


def certify(
    build: object = None,
    data: object = None,
    prior: str | None = None,
    delta: float = 0.05,
    seed: int = 0,
    *,
    method: str | Method | None = None,
    predictor: str | None = None,
    two_sided: bool = False,
    fit: Fit | None = None,
    fresh: object = None,
    trained_on: object = None,
    weights: str | Path | Mapping[str, Tensor] | None = None,
    unlabelled: object = None,
    tried: int | None = None,
    objective: str = "tempered",
    epochs: int | None = None,
    lr: float | None = None,
    outputs: str | None = None,
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

    ``build`` is a factory, a module (its weights are used only with ``fresh`` or ``unlabelled``), or a built-in name;
    ``data`` is a torch Dataset, a pair (X, y), a name, or a path.

    * ``prior="split:0.5"`` (the default): half of the examples train the prior, the other half certify.
      ``"zero"`` or ``"init"``: a data-free prior; all examples certify.
    * ``method``: a name with its ``options``; or an object, such as ``Progressive(blocks=8)`` of
      ``truerisk.certificates.methods``; or "all" for the best of all applicable methods (delta is split over them).
      ``predictor``: only methods for this kind of predictor, "stochastic", "single-draw", or "deterministic".
    * ``two_sided=True``: a lower end as well (``cert.risk_lower``). Methods that have none refuse. Where the training
      examples are known (``trained_on``, or rows of ``data``), ``cert.fit`` bounds how much the network overfits.
    * ``fit(module, dataset)``: your own training, for the prior and for the hold-out baseline.
    * ``fresh=data``: certify the unchanged module (or ``weights``, a file or state dict) on labeled data it never saw.
      ``trained_on`` (indices or data) is checked for overlap.
    * ``repeats_are_draws=True``: you vouch that rows with equal values (in two datasets, or among unlabeled inputs)
      are separate draws. Or give identities, one integer or word per row: ``ids`` of the fresh or unlabeled rows,
      ``trained_on_ids`` of the data that the network was trained on. Rows with one identity are one draw, all others
      are separate draws, whatever their values.
    * ``weights`` without ``fresh``: a network already trained on all of ``data``. With ``unlabelled`` inputs that it
      never saw, it is also certified unchanged, by how often it agrees with a certified network.
    * ``tried``: how many configurations (network, prior, seed) were compared on this data, this one
      included. Each gets an equal share of ``delta``. (truerisk's authors tuned the built-in networks on
      digits, MNIST, Fashion-MNIST, and CIFAR-10; there each of your configurations counts several times.)
    * ``lr``: the peak learning rate for training the network (of the prior and of the baseline). ``truerisk.search``
      finds one without using any certification example.
    * ``outputs``: what a network with one output per example gives, "logits" (class 1 above 0) or "probabilities"
      (class 1 above one half). Only needed where all outputs lie between 0 and 1.
    * ``device``: where networks are trained, "cpu", "cuda", or "auto". The bound is computed on the CPU.
    * ``threads``: number of CPU threads; by default 1 for small networks and 2 for large ones. The same call with
      the same number gives the same certificate, whatever else the machine is doing.
    * ``work``: a folder for checkpoints; the same call resumes a stopped one.

    >>> cert = certify("mlp:16", "digits", epochs=2)
    >>> cert.empirical_risk < cert.risk_bound <= 1
    True
    """
    request = Request(
        model=build,
        data=data,
        prior=prior,
        delta=delta,
        seed=seed,
        method=method,
        predictor=predictor,
        two_sided=two_sided,
        fit=fit,
        fresh=fresh,
        trained_on=trained_on,
        weights=weights,
        unlabelled=unlabelled,
        tried=tried,
        objective=objective,
        epochs=epochs,
        lr=lr,
        outputs=outputs,
        prior_std=prior_std,
        trust_factory=trust_factory,
        repeats_are_draws=repeats_are_draws,
        ids=ids,
        trained_on_ids=trained_on_ids,
        options=options or {},
        device=device,
        threads=threads,
        data_dir=data_dir,
        work=None if work is None else Path(work),
    )
    from truerisk.certificates.pipeline import run  # torch is needed from here on

    return run(request)
