"""Progressive validation: train on a growing prefix, test each model on the block that comes next.

Blum, Kalai and Langford (1999). Most of the data trains, and every example after the first prefix certifies too. The
certified predictor draws one of the models for each prediction, with the sizes of their blocks as weights.

Who sees what: the rows come in a seeded order. Model j is trained on all rows before block j and on nothing else, so
block j is fresh to it. The last block trains no certified model. The bound's parameter t must be fixed before the
blocks are seen; a good t needs a rough idea of the error rate. The user may say it (``expect``); otherwise a probe at
the end of the first prefix is tested before it is trained on.
"""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from truerisk.bounds import progressive, progressive_t
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import FLOOR, Facts, errors_of
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import STOCHASTIC, Method, Shares
from truerisk.certificates.origins import TRAINED, File
from truerisk.certificates.settings import Settings
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split, duplicates_across
from truerisk.errors import TrueriskError
from truerisk.nets import predict_labels
from truerisk.seeds import derive

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

EVENT = "progressive validation: the tested blocks are misleading"
PROBE = "probe"
LEAST = 10  # examples in a block


class Progressive(Method):
    """p_bar <= (1 - delta^(1/N) exp(-t p_hat)) / (1 - exp(-t)): a martingale bound (see ``bounds.progressive``)."""

    name = "progressive"
    predictor = STOCHASTIC
    summary = "models trained on growing parts, each tested on the next block; one is drawn for each prediction"
    needs_split = True
    options = MappingProxyType({"blocks": 5, "expect": 0.0})  # expect 0: find out with a probe

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if not 1 <= _blocks(settings) <= 99:
            raise TrueriskError(f"blocks is {_blocks(settings)}, but must lie between 1 and 99.")
        if not 0 <= _expected(settings) < 1:
            raise TrueriskError(f"expect is {_expected(settings)}, but must be an error rate below 1 (0: find out).")

    def events(self, settings: Settings) -> Shares:
        return [(EVENT, Decimal(1))]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        blocks, first = cut(parts, trainer.settings)
        model = trainer.network("prior", first)
        networks: dict[str, nn.Module] = {} if len(first) == len(parts.prior) else {_name(0): model}
        seen = parts.prior
        for j, block in enumerate(blocks, start=1):
            if j > 1 or networks:
                model = trainer.continued(model, f"update-{j:02d}", seen)
            networks[_name(j)] = model
            seen = np.concatenate([seen, block])
        return Evidence(parts, networks)

    def files(self, settings: Settings) -> dict[str, File]:
        models = range(1 if _expected(settings) else 0, _blocks(settings) + 1)
        return {_name(j): File(TRAINED, predicts=j > 0) for j in models}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return self.produce(trainer, stored.parts) if retrain else stored

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence, parts = frozen.evidence, frozen.evidence.parts
        blocks, first = cut(parts, settings)
        counts = {FLOOR: errors_of(evidence.network, data.X[parts.certify], data.y[parts.certify])}
        if not _expected(settings):
            probe = parts.prior[len(first) :]
            counts[PROBE] = errors_of(evidence.networks[_name(0)], data.X[probe], data.y[probe])
        for j, block in enumerate(blocks, start=1):
            counts[f"block {j}"] = errors_of(evidence.networks[_name(j)], data.X[block], data.y[block])
        return Facts(counts, duplicates_across(data, parts))

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        tested = [count for name, count in facts.counts.items() if name.startswith("block")]
        errors, n = sum(count.value for count in tested), sum(count.trials for count in tested)
        expected, delta = _expected(settings), share(entries, EVENT)
        if not expected:
            expected = facts.counts[PROBE].value / facts.counts[PROBE].trials
        t = progressive_t(expected, n, delta)
        bound, risk = progressive(errors, n, delta, t), errors / n
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": risk,
            "progressive": {
                "t": t,
                "expected_risk": expected,
                "blocks": [{"n": count.trials, "errors": count.value} for count in tested],
            },
            "breakdown": [
                {"part": "errors on the tested blocks", "value": risk},
                {"part": "confidence (delta)", "value": bound - risk},
            ],
        }

    def floor(self, settings: Settings) -> str:
        return "the first model, tested on all certifying examples"

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        return ["that each model was trained on the rows before its block only (verify --retrain trains them again)"]

    def subject(self, settings: Settings) -> str:
        return "this predictor, which draws one of its networks for each prediction,"

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        return ["The order of the examples is a seeded shuffle that has nothing to do with what they show."]

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """Each example is answered by a model of its own, drawn with the blocks' sizes as weights."""
        models, evidence = _blocks(settings), frozen.evidence
        sizes = np.array([len(b) for b in cut(evidence.parts, settings)[0]])
        chosen = np.random.default_rng(derive(seed, "model")).choice(models, size=len(X), p=sizes / sizes.sum())
        out = np.empty(len(X), dtype=np.int64)
        for j in np.unique(chosen):
            rows = chosen == j
            out[rows] = predict_labels(evidence.networks[_name(int(j) + 1)], X[rows])
        return out


def cut(parts: Split, settings: Settings) -> tuple[list[np.ndarray], np.ndarray]:
    """The blocks of certifying rows, and the rows that the first training sees.

    Where no error rate is expected, these leave a probe, as large as a block but at most a fifth of the prefix.
    """
    blocks = _blocks(settings)
    if len(parts.certify) // blocks < LEAST:
        raise TrueriskError(
            f"{len(parts.certify)} certifying examples do not fill {blocks} blocks of {LEAST} or more; ask for fewer."
        )
    pieces = np.array_split(parts.certify, blocks)
    probe = 0 if _expected(settings) else min(len(pieces[0]), len(parts.prior) // 5)
    if probe < LEAST and not _expected(settings):
        raise TrueriskError(f"the first part of {len(parts.prior)} examples is too small to look ahead; enlarge it.")
    return pieces, parts.prior[: len(parts.prior) - probe]


def _name(j: int) -> str:
    """Model 1 is the floor's network."""
    return "network" if j == 1 else f"network-{j:02d}"


def _blocks(settings: Settings) -> int:
    return int(settings.options.get("blocks", Progressive.options["blocks"]))


def _expected(settings: Settings) -> float:
    return float(settings.options.get("expect", Progressive.options["expect"]))
