"""The claims of the experiment `predictiveness`, and the scores that they rest on.

The published numbers are rank correlations on CIFAR-10 and SVHN; a zoo on MNIST-1D can only be asked for their signs.
Thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from truerisk.lab.experiment import Claim, Outcome
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.measures.prediction import Score, rank

JIANG = "Jiang et al. 2020, Table 5 (from memory)"
DZIUGAITE = "Dziugaite et al. 2020"
HYPER = ("width", "depth", "batch_size", "lr")
FITTED = 0.9  # the least share of networks that must reach the loss, so that the rest is no select few
LEAST = 12  # networks
COIN = 0.5  # the sign error of a coin


def predictions(rows: Rows) -> list[dict[str, Any]]:
    """The networks that were trained to the common loss, in the format of ``truerisk.measures.prediction``."""
    return [
        {
            "hyper": {name: row[name] for name in HYPER},
            "seed": row["seed"],
            "measures": row["measures"],
            "gap": row["test_error"] - row["train_error"],
            "n_test": row["n_test"],
        }
        for row in rows
        if row["fitted"]
    ]


def scores(rows: Rows) -> dict[str, Score]:
    """How well each measure predicts; no verdict from a zoo that is mostly missing."""
    runs = rows.complete("the zoo")
    found = predictions(rows)
    if len(found) < max(LEAST, FITTED * len(runs)):
        raise IncompleteError(f"only {len(found)} of {len(runs)} networks reached the common loss")
    return {score.name: score for score in rank(found)}


def _sign(measures: tuple[str, ...], wanted: Callable[[float], bool]) -> Callable[[Rows], Outcome]:
    """Whether the tau of every one of these measures is as wanted."""

    def check(rows: Rows) -> Outcome:
        found = scores(rows)
        taus = {name: found[name].tau for name in measures}
        known = {name: tau for name, tau in taus.items() if tau is not None}
        if len(known) < len(taus):
            raise IncompleteError(f"{', '.join(sorted(set(taus) - set(known)))} has no rank correlation")
        told = ", ".join(f"{name} {tau:+.2f}" for name, tau in known.items())
        return Outcome(all(wanted(tau) for tau in known.values()), f"tau: {told}")

    return check


def _none_is_robust(rows: Rows) -> Outcome:
    found = {name: s.worst_error for name, s in scores(rows).items() if s.worst_error is not None}
    if not found:
        raise IncompleteError("no pair of networks differs enough in its gap to judge a measure")
    robust = [name for name, error in found.items() if error < COIN]
    best = min(found, key=found.__getitem__)
    told = f"smallest worst sign error {found[best]:.2f} ({best}); {len(robust)} of {len(found)} measures below {COIN}"
    return Outcome(not robust, told)


def _always_wrong(rows: Rows) -> Outcome:
    found = [s.worst_error for s in scores(rows).values() if s.worst_error is not None]
    if not found:
        raise IncompleteError("no pair of networks differs enough in its gap to judge a measure")
    wrong = sum(error >= 0.99 for error in found)
    return Outcome(wrong >= 0.9 * len(found), f"{wrong} of {len(found)} measures are wrong throughout somewhere")


CLAIMS = (
    Claim(
        name="flatness",
        statement="How much noise, in proportion to each weight, a network stands predicts how well it generalizes.",
        source=JIANG,
        published="tau about 0.5 for magnitude-aware flatness, among the best of all measures",
        threshold="tau of pacbayes-magnitude-flatness and of sharpness-magnitude at least 0.1",
        check=_sign(("pacbayes-magnitude-flatness", "sharpness-magnitude"), lambda tau: tau >= 0.1),
    ),
    Claim(
        name="spectral",
        statement="Products of spectral or Frobenius norms predict the opposite: larger where the gap is smaller.",
        source=JIANG,
        published="tau about -0.2 to -0.3",
        threshold="tau of spectral-product and of frobenius-product below 0",
        check=_sign(("spectral-product", "frobenius-product"), lambda tau: tau < 0),
    ),
    Claim(
        name="counting",
        statement="Counting parameters does not predict the gap.",
        source=JIANG,
        published="tau about -0.2 (VC dimension and number of parameters)",
        threshold="tau of parameters at most 0.1",
        check=_sign(("parameters",), lambda tau: tau <= 0.1),
    ),
    Claim(
        name="gradient-noise",
        statement="The variance of gradients at the end of training predicts the gap.",
        source=JIANG,
        published="tau about 0.4",
        threshold="tau of gradient-noise at least 0.1",
        check=_sign(("gradient-noise",), lambda tau: tau >= 0.1),
    ),
    Claim(
        name="no-robust-measure",
        statement="No measure does better than a coin in every environment.",
        source=DZIUGAITE,
        published="every measure has a worst environment with a sign error of at least one half",
        threshold="no measure with a worst sign error below 0.5",
        check=_none_is_robust,
        scales=("medium", "paper"),
    ),
    Claim(
        name="wrong-somewhere",
        statement="Nearly every measure is wrong all the time in some environment.",
        source=DZIUGAITE,
        published="a sign error of 1 somewhere for every measure",
        threshold="at least 90 % of the measures have a worst sign error of at least 0.99",
        check=_always_wrong,
        scales=("medium", "paper"),
    ),
)
