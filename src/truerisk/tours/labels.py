"""Act 1. Learned or memorized? Two networks of one shape, trained alike: one on true labels, one on random ones.

This is the experiment of Zhang, Bengio, Hardt, Recht and Vinyals (2017), with a certificate for each network. Half of
the examples train, the other half test, and the exact interval of Clopper and Pearson bounds the true risk on both
sides. Labels are randomized before the split, so unseen examples have random labels as well.
"""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.tours.asked import PRIOR, Asked

if TYPE_CHECKING:
    from truerisk.data import Data

TRUE, RANDOM = "true-labels", "random-labels"  # names of folders
DATA_FILE = "random-labels.npz"
LARGEST_FILE = 50_000_000  # bytes of inputs: larger data with random labels are made again instead of stored
BALANCED = 0.05  # classes count as balanced where the most common one helps guessing by no more than this
MEASURES = ("parameters", "vc", "l2-norm", "median-margin")


@dataclass(frozen=True)
class Network:
    """One network: its training error, and the interval that holds its true risk."""

    train_error: float
    risk_lower: float
    risk_upper: float
    gap_lower: float  # the true risk exceeds the training error by at least this
    diagnosis: str
    errors: int  # on the test examples
    n_train: int
    n_test: int
    epochs: int
    measures: dict[str, float]  # those of MEASURES that this network has


@dataclass(frozen=True)
class Labels:
    """What the first act found."""

    true_labels: Network
    random_labels: Network
    chance: float  # error rate of guessing among equally likely classes
    attempts: int  # trainings: each has twice the epochs of the one before
    majority: float = 1.0  # error rate of always giving the most common class, on true labels

    @property
    def guess(self) -> float:
        """Error rate of the better way to classify true labels without looking at an input."""
        return min(self.chance, self.majority)

    @property
    def true_chance(self) -> float:
        """The error rate to compare true labels with; ``chance`` where the classes are nearly balanced."""
        return self.guess if self.guess < self.chance - BALANCED else self.chance

    @property
    def learned(self) -> bool:
        """Whether the network with true labels certainly beats that."""
        return self.true_labels.risk_upper < self.guess

    @property
    def fitted(self) -> bool:
        """Whether both networks classify all their training examples correctly."""
        return self.true_labels.train_error == self.random_labels.train_error == 0

    @property
    def apart(self) -> bool:
        """Whether the two intervals are disjoint in the expected order."""
        return self.random_labels.risk_lower > self.true_labels.risk_upper

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def trained(asked: Asked, name: str, epochs: int | None, folder: Path, work: Path) -> Network:
    """Train a network on the labels of this name, certify it, and save the certificate under ``folder``."""
    from truerisk import progress
    from truerisk.measures import measure

    data = labeled(asked, name)
    certificate = asked.certify(data, work, method="hold-out", prior=PRIOR, two_sided=True, epochs=epochs)
    certificate.save(folder / name, force=True)  # a second attempt replaces the first
    if name == RANDOM and data.X.nbytes <= LARGEST_FILE:
        (folder / DATA_FILE).write_bytes(_npz(data))
    network, parts, fit = certificate.evidence.network, certificate.evidence.parts, certificate.fit
    with progress.silent():
        found = measure(network, data.take(parts.prior), only=MEASURES, seed=asked.seed, delta=asked.delta)
    return Network(
        train_error=fit.training_error,
        risk_lower=certificate.risk_lower,
        risk_upper=certificate.risk_bound,
        gap_lower=fit.gap_lower,
        diagnosis=fit.diagnosis,
        errors=round(certificate.empirical_risk * certificate.record.n_certify),
        n_train=fit.n,
        n_test=certificate.record.n_certify,
        epochs=certificate.record.settings.plans["prior"].epochs,
        measures={each: found[each] for each in MEASURES if each not in found.skipped},
    )


def labeled(asked: Asked, name: str) -> Data:
    """The data with their own labels or with random ones."""
    from truerisk.data import random_labels

    data = asked.load()
    return random_labels(data, asked.seed) if name == RANDOM else data


def _npz(data: Data) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.savez_compressed(file, X=data.X, y=data.y, classes=data.classes)
    return file.getvalue()
