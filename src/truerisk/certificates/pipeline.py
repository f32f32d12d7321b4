"""The way to a certificate, on one screen: choose, produce, freeze, count, derive, seal.

This is the only place that knows the order. ``certify`` walks it once, ``verify`` calls ``conclude`` on evidence of its
own. Nothing changes after ``freeze``: what is counted is what the files hold, and all draws are seeded by their hash.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from truerisk._version import __version__
from truerisk.bounds import clopper_pearson
from truerisk.certificates import sentences
from truerisk.certificates.certificate import Certificate
from truerisk.certificates.choose import choose
from truerisk.certificates.counts import FLOOR, Counts
from truerisk.certificates.diagnosis import diagnose
from truerisk.certificates.evidence import split_data
from truerisk.certificates.frozen import Frozen, Seed, freeze, hashes
from truerisk.certificates.given import Given
from truerisk.certificates.ledger import Entry, paid
from truerisk.certificates.made import now
from truerisk.certificates.record import DataCard, Derivation, Floor, Record
from truerisk.certificates.request import Request
from truerisk.certificates.settings import Settings
from truerisk.certificates.software import software
from truerisk.certificates.workshop.material import Material, gather
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Data
from truerisk.threads import limited
from truerisk.training.device import training_on


def run(request: Request) -> Certificate:
    """Make all certificates that a request asks for and return the best, which knows the others."""
    material = gather(request)
    DataCard.of(material.data)  # all refusals come before the first training
    chosen = choose(request, material)
    with ExitStack() as stack:
        stack.enter_context(training_on(request.device))
        work = request.work
        if work is None and len(chosen) > 1:  # a training that methods share is made once
            work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = [make(settings, material, request, work) for settings in chosen]
    best, *others = sorted(made, key=lambda certificate: certificate.risk_bound)
    return replace(best, others=tuple(others))


def make(settings: Settings, material: Material, request: Request, work: Path | None) -> Certificate:
    """One certificate."""
    data, arch = material.data, material.arch
    trainer = Trainer(settings, data, arch, request.fit, work, material.unlabelled)
    parts = material.parts or split_data(settings, len(data))
    with limited(settings.threads):
        evidence = settings.method.produce(trainer, parts)
        frozen = freeze(settings, data, arch, evidence)
        counts, derivation = conclude(settings, data, frozen, frozen.seed)
    given = Given.asked(request, data.source, arch.kind)
    return Certificate(seal(settings, data, frozen, counts, derivation), frozen, given=given)


def conclude(settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> tuple[Counts, Derivation]:
    """What follows from frozen evidence. ``frozen.seed`` makes a predictor; ``seed`` only estimates."""
    counts = settings.method.count(settings, data, frozen, seed)
    return counts, derived(settings, counts)


def derived(settings: Settings, counts: Counts, ledger: list[Entry] | None = None) -> Derivation:
    """What follows from counts by arithmetic: the bound, and the lower end where it was asked for."""
    entries, method = settings.ledger if ledger is None else ledger, settings.method
    found = method.derive(counts, entries)
    return replace(found, lower=method.lower_end(counts, entries)) if settings.two_sided else found


def seal(settings: Settings, data: Data, frozen: Frozen, counts: Counts, derivation: Derivation) -> Record:
    """Everything that a certificate says."""
    tested = counts[FLOOR]
    own = paid(settings.delta, settings.tried)  # whoever compares configurations shares delta among their tests as well
    bound = clopper_pearson(tested.value, tested.trials, own)
    return Record(
        settings=settings,
        data=DataCard.of(data),
        n_certify=counts.n_certify,
        n_prior=counts.n_prior,
        counts={name: count.value for name, count in counts.items.items()},
        floor=Floor(bound, tested.value, tested.trials, own, settings.method.floor(settings)),
        ledger=settings.ledger,
        derivation=derivation,
        assumptions=tuple(sentences.assumptions(settings, data, counts, derivation)),
        warnings=tuple(sentences.warnings(settings, data, counts, derivation)),
        sentence=sentences.headline(settings, derivation),
        files=hashes(frozen.files),
        software=software(),
        version=__version__,
        made=now(),
        fit=diagnose(settings, counts, derivation),
    )


def after_tries(settings: Settings, counts: Counts, tries: int) -> Derivation:
    """What would follow if ``tries`` seeds, splits or draws had been tried: every share of delta is divided by that."""
    return derived(settings, counts, [{**entry, "delta": entry["delta"] / tries} for entry in settings.ledger])
