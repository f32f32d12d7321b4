"""``rank``: how well does each measure predict the generalization gap of a set of trained networks?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from truerisk.measures.prediction import kendall, robust
from truerisk.measures.prediction.information import information
from truerisk.measures.prediction.pairs import Networks, Row, measured, networks
from truerisk.measures.prediction.robust import Environment


@dataclass(frozen=True)
class Score:
    """How well one measure predicts; None where the networks at hand can't tell.

    A measure is expected to be larger where the gap is larger. ``tau`` near 1 or ``sign_error`` near 0 says that it is;
    tau near -1 or an error near 1 that it predicts the opposite, which may be just as useful to know.
    """

    name: str
    networks: int  # for which the measure is defined; all others left its pairs
    missing: int
    tau: float | None
    psi: dict[str, float | None] = field(default_factory=dict)  # granulated tau of each hyper-parameter
    granulated: float | None = None  # their mean, Psi
    information: float | None = None  # K
    given: tuple[str, ...] = ()  # the hyper-parameters at which K is attained
    sign_error: float | None = None  # mean over environments
    worst_error: float | None = None
    worst_environment: str = ""
    environments: tuple[Environment, ...] = ()

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "networks": self.networks,
            "missing": self.missing,
            "tau": self.tau,
            "psi": dict(self.psi),
            "granulated": self.granulated,
            "information": self.information,
            "given": list(self.given),
            "sign_error": self.sign_error,
            "worst_error": self.worst_error,
            "worst_environment": self.worst_environment,
            "environments": [vars(one) for one in self.environments],
        }


def rank(rows: Sequence[Row]) -> list[Score]:
    """A score for each measure, the largest mean granulated tau first; measures for which there is none come last.

    The format of the rows is that of ``truerisk.measures.prediction.pairs``.

    >>> rows = [{"hyper": {"width": w}, "seed": s, "gap": w / 10 + s / 100, "n_test": 10**5,
    ...          "measures": {"good": w, "bad": -w, "new": None}} for w in (1, 2, 3) for s in range(4)]
    >>> [(score.name, score.granulated, score.missing) for score in rank(rows)]
    [('good', 1.0, 0), ('bad', -1.0, 0), ('new', None, 12)]
    """
    all_networks = networks(rows)
    scores = []
    for name, mu in measured(rows).items():
        keep = ~np.isnan(mu)
        some = all_networks if keep.all() else all_networks.take(keep)
        scores.append(_score(name, some, mu[keep], len(all_networks)))
    return sorted(scores, key=lambda score: (score.granulated is None, -(score.granulated or 0.0), score.name))


def _score(name: str, some: Networks, mu: np.ndarray, total: int) -> Score:
    psi = kendall.granulated(some, mu)
    told = information(some, mu)
    found = robust.environments(some, mu)
    worst = robust.worst(found)
    return Score(
        name=name,
        networks=len(some),
        missing=total - len(some),
        tau=kendall.tau(some, mu),
        psi=psi,
        granulated=kendall.mean(psi),
        information=None if told is None else told.value,
        given=() if told is None else told.given,
        sign_error=robust.mean(found),
        worst_error=None if worst is None else worst.error,
        worst_environment="" if worst is None else worst.name,
        environments=tuple(found),
    )
