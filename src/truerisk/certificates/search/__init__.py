"""``truerisk.search``: a network, a learning rate and a split for a certificate, found on rows that never certify.

Rule 3 of docs/design.rst: a search is done on data that never certifies, or paid for. The width of a prior needs no
search. That of a learnt prior is chosen on the prior's own rows anyway (``settings.LEARNT_STDS``), and a grid of scales
pays in the ledger for those of a data-free prior.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from truerisk import words
from truerisk.certificates.choose import settings_for
from truerisk.certificates.draws import NOTHING_SAID
from truerisk.certificates.methods import BASELINE
from truerisk.certificates.prior import Prior, splits_of
from truerisk.certificates.request import Request
from truerisk.certificates.search.contest import Entrant, Field, compete, free_rows, shortened
from truerisk.certificates.search.curve import Curve, Prediction, best_split, predict_floors
from truerisk.certificates.settings import check_seed
from truerisk.certificates.workshop.material import Material
from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.names import CPU
from truerisk.nets import BUILTIN, Architecture, architecture, fitted
from truerisk.threads import limited, threads_for
from truerisk.training.device import training_on

PRIORS = ("split:0.5", "split:0.8", "split:0.9")
FACTORS = (0.3, 1.0, 3.0)  # learning rates that are tried, in units of the plan's own
USUAL = {
    "delta": 0.05,
    "epochs": None,
    "trust_factory": False,
    "device": CPU,
    "outputs": None,
    "data_dir": None,
}  # certify's own


@dataclass(frozen=True)
class Candidate:
    """One network with one learning rate: its errors on the ``n`` validating rows after its longest training."""

    model: str
    kind: str
    lr: float
    epochs: int
    errors: int  # all of them, if the training diverged
    n: int


@dataclass(frozen=True)
class Search:
    """What was found: give ``arguments`` to ``truerisk.certify``, or run ``command``."""

    winner: Candidate
    prior: str
    seed: int
    rows: int  # that were looked at
    candidates: tuple[Candidate, ...]
    curve: Curve
    predictions: tuple[Prediction, ...]  # one for each split, smallest first
    data: str = "DATA"  # how the command names the data
    options: dict[str, Any] = field(default_factory=dict)  # of certify, as the search was given them

    @property
    def model(self) -> str:
        return self.winner.model

    @property
    def lr(self) -> float:
        return self.winner.lr

    @property
    def arguments(self) -> dict[str, Any]:
        """For ``truerisk.certify(model, data, **arguments)``."""
        return {"prior": self.prior, "lr": self.lr, "seed": self.seed, **self.options}

    @property
    def command(self) -> str:
        """The line to run next; DATA and FILE.py stand for what came as a Python object."""
        named = self.winner.kind == BUILTIN or ":" in self.model
        model = self.model if named else f"FILE.py:{self.model}"
        words = ["truerisk", "certify", "--data", self.data, "--model", model]
        for name, value in self.arguments.items():
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)

    @property
    def sentence(self) -> str:
        """Which rows were used, and that this uses no delta."""
        least = Prior(self.predictions[0].prior).fraction
        return (
            f"Used {self.rows:,} rows that do not certify with seed {self.seed} and a split of at least {least:g}. "
            "This uses no delta; leave --tried at 1."
        )

    def record(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self) | {"sentence": self.sentence, "command": self.command}

    def __str__(self) -> str:
        best, floor = self.winner, best_split(self.predictions).floor
        return (
            f"{self.sentence}\n{best.model} with learning rate {best.lr:g}: {best.errors:,} errors on {best.n:,} "
            f"validation rows; {self.prior}: predicted baseline {words.bound(floor)}\n{self.command}"
        )


def search(
    models: object = None,
    data: object = None,
    *,
    lrs: Sequence[float] | None = None,
    priors: Sequence[str] = PRIORS,
    delta: float = 0.05,
    seed: int = 0,
    epochs: int | None = None,
    trust_factory: bool = False,
    device: str = CPU,
    outputs: str | None = None,
    data_dir: str | Path | None = None,
    work: str | Path | None = None,
) -> Search:
    """A good network, learning rate, and split for a certificate, found without its certification rows.

    ``models`` is one network or a list of them, each as ``truerisk.certify`` takes it; ``data``, ``delta``, ``seed``,
    ``epochs``, ``trust_factory``, ``device``, ``outputs`` and ``work`` are as there. Every network is trained with
    every rate of ``lrs`` (default: its usual one times 0.3, 1 and 3), many of them for a part of the epochs only; the
    fewest errors on rows that did not train win. Then a learning curve of the winner predicts which of the splits
    ``priors`` has the smallest hold-out baseline.

    Only rows that none of these splits certifies on are used, so a certificate with the same ``seed`` and one of
    ``priors`` (or a larger split) keeps all of its delta. One with another seed or a smaller split does.

    >>> found = search(["mlp:4", "mlp:16"], "digits", lrs=[1e-3, 1e-2], epochs=2)
    >>> found.model, found.lr, len(found.candidates)
    ('mlp:16', 0.01, 4)
    """
    check_seed(seed)
    splits = splits_of([priors] if isinstance(priors, str) else priors)
    loaded = load("digits" if data is None else data, data_dir)
    given: dict[str, Any] = {"delta": delta, "epochs": epochs, "trust_factory": trust_factory, "outputs": outputs}
    networks, loaded = _architectures(models, loaded, trust_factory, outputs)
    entrants = [entrant for arch in networks for entrant in _entrants(arch, loaded, splits[0], seed, lrs, given)]
    if not entrants:
        raise TrueriskError("there is nothing to compare; give at least one model and one learning rate.")
    rows = free_rows(entrants[0].settings, splits, len(loaded))
    with training_on(device), limited(max(entrant.settings.threads for entrant in entrants)):
        winner, results, curve = compete(entrants, Field.of(loaded, rows, Path(work) if work else None))
    candidates = [_candidate(e, share, wrong, curve.n) for e, (share, wrong) in zip(entrants, results, strict=True)]
    predictions = predict_floors(curve, splits, len(loaded), delta)
    given |= {"device": device, "data_dir": None if data_dir is None else str(data_dir)}
    return Search(
        winner=candidates[winner],
        prior=best_split(predictions).prior,
        seed=seed,
        rows=len(rows),
        candidates=tuple(candidates),
        curve=curve,
        predictions=predictions,
        data=str(data) if isinstance(data, str | Path) else loaded.source or Search.data,
        options={name: value for name, value in given.items() if value != USUAL[name]},
    )


def _architectures(
    models: object, data: Data, trust_factory: bool, outputs: str | None
) -> tuple[list[Architecture], Data]:
    """The networks without repeats, and the data as they take them; two of one name could not be told apart."""
    specs = models if isinstance(models, list | tuple) else [models]
    once = {spec if isinstance(spec, str) else id(spec): spec for spec in specs}.values()
    found = [architecture(spec, data.input_shape, data.classes, trust_factory=trust_factory) for spec in once]
    names = [arch.name for arch in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TrueriskError(f"two of the models are called {twice}; rename one of them.")
    both = [fitted(arch, data, outputs) for arch in found]
    if len({taken.integers for _, taken in both}) > 1:
        raise TrueriskError("some of the models take integers and others do not; search among one kind at a time.")
    return [arch for arch, _ in both], both[0][1] if both else data


def _entrants(
    arch: Architecture, data: Data, prior: Prior, seed: int, lrs: Sequence[float] | None, given: dict[str, Any]
) -> Iterator[Entrant]:
    """One for each learning rate, trained as ``certify`` would with the smallest split; bad values are refused here."""

    material = Material(data, arch, False, NOTHING_SAID, threads_for(arch.template(), data.X))

    def entrant(lr: float | None) -> Entrant:
        request = Request(method=BASELINE(), prior=str(prior), seed=seed, lr=lr, **given)
        return Entrant(arch, settings_for(request, material, BASELINE(), prior))

    if lrs is None:
        own = entrant(None).settings.plans["prior"].lr
        lrs = [float(f"{factor * own:.6g}") for factor in FACTORS]
    return (entrant(float(lr)) for lr in dict.fromkeys(lrs))


def _candidate(entrant: Entrant, share: float, errors: int, n: int) -> Candidate:
    plan = shortened(entrant, share)
    return Candidate(entrant.arch.name, entrant.arch.kind, plan.lr, plan.epochs, errors, n)
