"""Progressive validation: train on a growing prefix, test each model on the block that comes next.

Blum, Kalai and Langford (1999). Most of the data trains, and every example after the first prefix certifies too. The
certified predictor draws one of the models for each prediction, with the sizes of their blocks as weights.

Who sees what: the rows come in a seeded order. Model j is trained on all rows before block j and on nothing else, so
block j is fresh to it. The last block trains no certified model. The bound's parameter t must be fixed before the
blocks are seen; a good t needs a rough idea of the error rate. The user may say it (``expect``); otherwise a probe at
the end of the first prefix is tested before it is trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from truerisk.bounds import progressive, progressive_lower, progressive_t
from truerisk.certificates.counts import FLOOR, SURE, Count, Counts, both_counts, errors_of
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import SHUFFLED, STOCHASTIC, Method, Shares, halves, how_trained
from truerisk.certificates.origins import TRAINED, File
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Line, Table, Tale, count, seen
from truerisk.data import Data, Split, duplicates_across
from truerisk.errors import TrueriskError
from truerisk.seeds import derive

if TYPE_CHECKING:
    from torch import nn

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer

EVENT = "progressive validation: the test blocks are unrepresentative"
BELOW = "progressive validation, lower end: the test blocks are unrepresentative"
PROBE = "probe"
LEAST = 10  # examples in a block


@dataclass(frozen=True)
class Block:
    """A block of rows, and the errors of the model that was tested on it."""

    n: int
    errors: int


@dataclass(frozen=True)
class Course:
    """How the validation went: the bound's parameter, the error rate that it was chosen for, and the blocks."""

    t: float
    expected_risk: float
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Blocks:
    """What only a progressive certificate has."""

    progressive: Course


@dataclass(frozen=True)
class Progressive(Method):
    """p_bar <= (1 - delta^(1/N) exp(-t p_hat)) / (1 - exp(-t)): a martingale bound (see ``bounds.progressive``)."""

    name = "progressive"
    predictor = STOCHASTIC
    summary = "networks trained on growing parts, each tested on the next block; one is sampled for each prediction"
    paper = "progressive validation (Blum, Kalai, and Langford 1999)"
    needs_split = True
    above_only = ""

    blocks: int = option(5, "Number of test blocks (progressive).", low=1, high=99)
    expect: float = option(0.0, "Expected error rate (progressive); 0 estimates it.", low=0, below=1)

    def events(self) -> Shares:
        return [(EVENT, Decimal(1))]

    def both_ends(self) -> Shares:
        return halves(EVENT, BELOW)

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.evidence import Evidence

        blocks, first = self.cut(parts)
        model = trainer.network("prior", first)
        networks: dict[str, nn.Module] = {} if len(first) == len(parts.prior) else {_name(0): model}
        before = parts.prior
        for j, block in enumerate(blocks, start=1):
            if j > 1 or networks:
                model = trainer.continued(model, f"update-{j:02d}", before)
            networks[_name(j)] = model
            before = np.concatenate([before, block])
        return Evidence(parts, networks)

    def files(self, settings: Settings) -> dict[str, File]:
        models = range(1 if self.expect else 0, self.blocks + 1)
        return {_name(j): File(TRAINED, predicts=j > 0) for j in models}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return self.produce(trainer, stored.parts) if retrain else stored

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        networks, parts = frozen.evidence.networks, frozen.evidence.parts
        blocks, first = self.cut(parts)
        tested = {FLOOR: (_name(1), parts.certify)}
        if not self.expect:
            tested[PROBE] = (_name(0), parts.prior[len(first) :])
        items = {what: errors_of(networks[name], data.X[rows], data.y[rows]) for what, (name, rows) in tested.items()}
        for j, rows in enumerate(blocks, start=1):
            items |= both_counts(f"block {j}", networks[_name(j)], data.X[rows], data.y[rows], settings.two_sided)
        return Counts(items, len(parts.certify), len(parts.prior), duplicates_across(data, parts))

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        tested = [Block(each.trials, each.value) for each in self._blocks(counts)]
        errors, n = sum(block.errors for block in tested), sum(block.n for block in tested)
        delta = share(entries, EVENT)
        expected = self._expected(counts)
        t = progressive_t(expected, n, delta)
        bound, risk = progressive(errors, n, delta, t), errors / n
        parts = Part("errors on the test blocks", risk), Part("confidence (delta)", bound - risk)
        course = Course(t, expected, tuple(tested))
        return Derivation(bound, risk, risk, parts, details=(Blocks(course),))

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        tested, delta = self._blocks(counts, SURE), share(entries, BELOW)
        errors, n = sum(each.value for each in tested), sum(each.trials for each in tested)
        t = progressive_t(1 - self._expected(counts), n, delta)
        return Lower(progressive_lower(errors, n, delta, t), errors / n)

    def _blocks(self, counts: Counts, suffix: str = "") -> list[Count]:
        return [counts[f"block {j}{suffix}"] for j in range(1, self.blocks + 1)]

    def _expected(self, counts: Counts) -> float:
        return self.expect or counts[PROBE].value / counts[PROBE].trials

    def details(self) -> tuple[type, ...]:
        return (Blocks,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """Each example is answered by a model of its own, drawn with the blocks' sizes as weights."""
        from truerisk.nets import predict_labels

        evidence = frozen.evidence
        sizes = np.array([len(block) for block in self.cut(evidence.parts)[0]])
        chosen = np.random.default_rng(derive(seed, "model")).choice(self.blocks, size=len(X), p=sizes / sizes.sum())
        out = np.empty(len(X), dtype=np.int64)
        for j in np.unique(chosen):
            rows = chosen == j
            out[rows] = predict_labels(evidence.networks[_name(int(j) + 1)], X[rows])
        return out

    def cut(self, parts: Split) -> tuple[list[np.ndarray], np.ndarray]:
        """The blocks of certifying rows, and the rows that the first training sees.

        Where no error rate is expected, these leave a probe, as large as a block but at most a fifth of the prefix.
        """
        n = len(parts.certify)
        if n // self.blocks < LEAST:
            raise TrueriskError(
                f"blocks is {self.blocks}, but {n} certification examples fill at most {n // LEAST} blocks of {LEAST}; "
                "give fewer --blocks."
            )
        pieces = np.array_split(parts.certify, self.blocks)
        probe = 0 if self.expect else min(len(pieces[0]), len(parts.prior) // 5)
        if probe < LEAST and not self.expect:
            raise TrueriskError(
                f"the first part has {len(parts.prior)} examples, too few to estimate an error rate; give a larger "
                "--prior split:FRACTION or --expect."
            )
        return pieces, parts.prior[: len(parts.prior) - probe]

    # ---- words -------------------------------------------------------------------------------------------------------

    def tell(self, record: Record) -> Tale:
        blocks = record.derivation.detail(Blocks).progressive.blocks
        lines = tuple(
            Line(
                "blocks" if i == 1 else "",
                seen(block.errors / block.n),
                f"network {i}: {block.errors:,} errors on the {block.n:,} examples of the next block",
            )
            for i, block in enumerate(blocks, start=1)
        )
        about = (
            "Each network was trained on everything before its block, then tested on the block. For each prediction, "
            "one network is sampled with a probability proportional to the size of its block."
        )
        rows = tuple(
            (str(i), count(block.n), count(block.errors), seen(block.errors / block.n))
            for i, block in enumerate(blocks, start=1)
        )
        return Tale(
            seen=f"error rate of the networks on their test blocks, {record.n_certify:,} examples",
            counted=f"{sum(block.errors for block in blocks):,} errors",
            lines=lines,
            tables=(Table("Test blocks", about, ("Network", "Examples", "Errors", "Error rate"), rows),),
        )

    def floor(self, settings: Settings) -> str:
        return "the first network, tested on all certification examples"

    def subtitle(self, settings: Settings) -> str:
        return f"One of its {self.blocks} networks is sampled for each prediction." if self.blocks > 1 else ""

    def predicts(self, settings: Settings) -> str:
        return f"stochastic: one of {self.blocks} networks is sampled for each prediction"

    def training(self, settings: Settings) -> tuple[str, str]:
        first = f"{settings.prior}: {how_trained(settings)} on the first part"
        return "Training", f"{first}, then on each block after testing on it"

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        return [SHUFFLED]

    def trusted(self, settings: Settings) -> list[str]:
        return ["that each network was trained only on the rows before its block (verify --retrain retrains them)"]


def _name(j: int) -> str:
    """Model 1 is the baseline's network."""
    return "network" if j == 1 else f"network-{j:02d}"
