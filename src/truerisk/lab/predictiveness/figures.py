"""The ranking and the figures of the experiment `predictiveness`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.predictiveness.claims import predictions
from truerisk.lab.rows import Rows
from truerisk.measures import MEASURES
from truerisk.measures.prediction import Score, rank

SHOWN = (
    "parameters", "spectral-product", "path-norm", "frobenius-sum", "distance-l2", "inverse-margin",
    "pacbayes-flatness", "pacbayes-magnitude-flatness", "gradient-noise",
)  # fmt: skip
PRODUCTS = ("products", "paths")  # families whose values are kept as logarithms
LOGARITHM = " (Its natural logarithm is shown.)"


def figures(rows: Rows) -> Sequence[Exhibit]:
    """All exhibits; networks that never reached the common loss are left out."""
    networks = predictions(rows)
    if len(networks) < 2:
        return []
    ranking = rank(networks)
    return [_table(ranking, len(networks)), _bars(ranking), _worst(ranking), *_scatter(networks)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _table(ranking: list[Score], count: int) -> Table:
    columns = (
        "measure",
        "invariant",
        "tau",
        "granulated tau",
        "information",
        "sign error",
        "worst",
        "where",
        "networks",
    )
    lines: list[list[Cell]] = [
        [
            score.name,
            "yes" if MEASURES[score.name].invariant else "no",
            _number(score.tau),
            _number(score.granulated),
            _share(score.information),
            _share(score.sign_error),
            _share(score.worst_error),
            score.worst_environment,
            score.networks,
        ]
        for score in ranking
    ]
    return Table(
        name="ranking",
        title="How well each measure predicts the gap",
        caption=(
            f"{count} networks. Tau is 1 where a measure orders all networks by their gap, -1 where it orders them the "
            "other way round, 0 for a coin. Granulated: with all but one hyper-parameter held fixed, averaged. "
            "Information: what a measure says of the gap beyond what one or two hyper-parameters say (0 to 1). Sign "
            "error: how often a measure is wrong about which of two networks has the larger gap, where that is clear; "
            "worst: in the environment where it is wrong most often."
        ),
        columns=columns,
        rows=lines,
    )


def _bars(ranking: list[Score]) -> Figure:
    bars: list[dict[str, Cell]] = [
        {"measure": s.name, "tau": s.granulated, "invariant": "yes" if MEASURES[s.name].invariant else "no"}
        for s in ranking
        if s.granulated is not None
    ]
    return Figure(
        name="granulated",
        title="Rank correlation with the gap, one hyper-parameter at a time",
        caption=(
            "Bars to the right: larger measure, larger gap. Colours tell the measures that a rescaling of weights can "
            "fool from those that it can't."
        ),
        rows=bars,
        x=Axis("measure", "measure", ordinal=True),
        y=Axis("tau", "granulated tau"),
        mark="bar",
        series="invariant",
        series_title="invariant",
    )


def _worst(ranking: list[Score]) -> Figure:
    dots: list[dict[str, Cell]] = [
        {"mean": s.sign_error, "worst": s.worst_error, "invariant": "yes" if MEASURES[s.name].invariant else "no"}
        for s in ranking
        if s.sign_error is not None and s.worst_error is not None
    ]
    return Figure(
        name="robust",
        title="A measure that is right on average may be wrong somewhere",
        caption="Each point is a measure: its mean sign error, and that in its worst environment. A coin has 0.5.",
        rows=dots,
        x=Axis("mean", "mean sign error", zero=True),
        y=Axis("worst", "worst sign error", zero=True),
        mark="points",
        series="invariant",
        series_title="invariant",
        rules=(Rule(0.5, "coin"),),
    )


def _scatter(networks: list[dict[str, Any]]) -> list[Figure]:
    """A figure for each of a few well-known measures."""
    found = []
    for name in SHOWN:
        dots: list[dict[str, Cell]] = [
            {"value": network["measures"][name], "gap": network["gap"], "depth": network["hyper"]["depth"]}
            for network in networks
            if network["measures"].get(name) is not None
        ]
        if dots:
            figure = Figure(
                name=f"scatter-{name}",
                title=f"{name} and the gap",
                caption=MEASURES[name].meaning + (LOGARITHM if MEASURES[name].family in PRODUCTS else ""),
                rows=dots,
                x=Axis("value", name),
                y=Axis("gap", "test error minus training error", percent=True),
                mark="points",
                series="depth",
                series_title="depth",
            )
            found.append(figure)
    return found
