"""Candidates for a certificate, compared on rows that never certify.

For one seed all splits cut the same shuffled order, so the prior's rows of the smallest split belong to the prior in
every larger one. These rows, and no others, are handed to what trains here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from truerisk import progress
from truerisk.certificates.evidence import split_data
from truerisk.certificates.prior import Prior
from truerisk.certificates.search.curve import Curve, Point, fit_curve
from truerisk.certificates.settings import Settings
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture, count_errors
from truerisk.training import Plan

VALIDATE = 0.2  # share of the rows that validate
LEAST = 10  # rows that validate
FEW = 4  # candidates that are all trained to the end
PARTS = (0.25, 0.5, 1.0)  # of the training rows: the points of the winner's learning curve


@dataclass(frozen=True)
class Entrant:
    """A network, and how it is trained: the plan "prior" of its settings."""

    arch: Architecture
    settings: Settings


@dataclass(frozen=True)
class Field:
    """The rows that may be looked at, as data of their own; numbers of those that train and those that validate."""

    data: Data
    train: np.ndarray
    validate: np.ndarray
    work: Path | None = None

    @classmethod
    def of(cls, data: Data, rows: np.ndarray, work: Path | None = None) -> Field:
        """Take ``rows`` out of ``data``; the rows come shuffled, so the last ones validate."""
        validating = round(VALIDATE * len(rows))
        if validating < LEAST:
            raise TrueriskError(
                f"only {validating} of {len(rows)} usable rows are for validation, but at least {LEAST} are needed; "
                "give more data, or a larger smallest split."
            )
        cut, order = len(rows) - validating, np.arange(len(rows))
        return cls(data.take(rows), order[:cut], order[cut:], work)

    def turned(self) -> Field:
        """Another cut of the same rows: those that validated train, as many of the others validate."""
        k = len(self.validate)
        return replace(self, train=np.concatenate([self.validate, self.train[k:]]), validate=self.train[:k])

    def check(self, entrant: Entrant) -> None:
        """Refuse a network that can't be certified before anything is trained."""
        Trainer(entrant.settings, self.data, entrant.arch).fresh()

    def errors(self, entrant: Entrant, share: float = 1.0, part: float = 1.0) -> int:
        """Errors on the validating rows, trained for a share of the epochs on the first part of the training rows."""
        settings = replace(entrant.settings, plans={"prior": shortened(entrant, share)})
        trainer = Trainer(settings, self.data, entrant.arch, work=self.work)
        try:
            network = trainer.network("prior", self.train[: round(part * len(self.train))])
        except TrueriskError:  # the untrained network was sound (``check``), so the training went astray
            return len(self.validate)
        return count_errors(network, self.data.X[self.validate], self.data.y[self.validate])[0]


def free_rows(settings: Settings, priors: Sequence[Prior], n: int) -> np.ndarray:
    """The rows, in shuffled order, that none of these splits of ``n`` rows certifies on."""
    parts = [split_data(replace(settings, prior=prior), n) for prior in priors]
    smallest = min((each.prior for each in parts), key=len)
    return smallest[~np.isin(smallest, np.concatenate([each.certify for each in parts]))]


def shortened(entrant: Entrant, share: float) -> Plan:
    """The entrant's plan with a share of its epochs."""
    plan = entrant.settings.plans["prior"]
    return replace(plan, epochs=max(1, round(share * plan.epochs)))


def rounds(count: int) -> list[tuple[int, float]]:
    """(candidates, share of the epochs) of each round: half as many for twice as long, until few are left.

    >>> rounds(4), rounds(9)
    ([(4, 1.0)], [(9, 0.25), (5, 0.5), (3, 1.0)])
    """
    sizes = [count]
    while sizes[-1] > FEW:
        sizes.append(math.ceil(sizes[-1] / 2))
    return [(size, 0.5 ** (len(sizes) - 1 - i)) for i, size in enumerate(sizes)]


def halve(count: int, errors: Callable[[int, float], int]) -> tuple[int, list[tuple[float, int]]]:
    """Successive halving (Jamieson and Talwalkar, 2016): the winner, and the last (share, errors) of each candidate.

    ``errors(i, share)`` trains candidate i for a share of its epochs. Each round starts anew, because a schedule of
    learning rates belongs to its length. Of candidates with as many errors the first goes on.
    """
    results: dict[int, tuple[float, int]] = {}
    best = list(range(count))
    for size, share in rounds(count):
        results |= {i: (share, errors(i, share)) for i in best[:size]}
        best = sorted(best[:size], key=lambda i: (results[i][1], i))
    return best[0], [results[i] for i in range(count)]


def compete(entrants: Sequence[Entrant], field: Field) -> tuple[int, list[tuple[float, int]], Curve]:
    """The winner, the last (share, errors) of every entrant, and the winner's learning curve.

    The errors that made it win are fewer than it deserves, so its curve comes from another cut of the rows.
    """
    for entrant in entrants:
        field.check(entrant)
    shares = [share for size, share in rounds(len(entrants)) for _ in range(size)]
    with progress.bar("searching", total=round(100 * (sum(shares) + sum(PARTS)))) as advance, progress.silent():

        def errors(i: int, share: float = 1.0, part: float = 1.0, where: Field = field) -> int:
            wrong = where.errors(entrants[i], share, part)
            advance(round(100 * share * part), f"{entrants[i].arch.name}: {wrong} errors on {len(where.validate)} rows")
            return wrong

        winner, results = halve(len(entrants), errors)
        if results[winner][1] == len(field.validate):
            raise TrueriskError(
                "no candidate classified any validation row correctly; give smaller learning rates (--lr)."
            )
        sizes, other = [(round(part * len(field.train)), part) for part in PARTS], field.turned()
        points = [Point(size, errors(winner, part=part, where=other)) for size, part in sizes]
    return winner, results, fit_curve(points, len(field.validate))
