"""The page of `predictiveness`: which measures order networks by their gap, and what the order rests on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from truerisk.lab.experiments.predictiveness import CLEAR, COIN, predictions
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line, Map, Points
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import CORRELATION, POINTS, TIMES
from truerisk.measures import MEASURES
from truerisk.measures.prediction import Score, power, rank
from truerisk.seeds import derive

# Those that claims are about, some that many people know, and the best and worst of the first zoos. No long words: the
# names stand side by side below bars.
SHOWN = {
    "parameters": "number of parameters",
    "spectral-product": "product of spectral norms",
    "frobenius-product": "product of Frobenius norms",
    "pacbayes-magnitude-flatness": "harm by random noise",
    "sharpness-magnitude": "harm by worst noise",
    "gradient-noise": "variance of gradients",
    "path-norm": "path norm",
    "distance-l2": "distance from start",
    "spectral-mean": "mean spectral norm",
    "stable-ranks": "stable ranks of layers",
}
FEW = [name for name in SHOWN if name not in ("path-norm", "distance-l2", "frobenius-product")]  # in the first figure
HYPERPARAMETERS = {"width": "width", "depth": "depth", "batch_size": "batch size", "lr": "learning rate"}
Network = dict[str, Any]


def figures(rows: Rows) -> Sequence[Exhibit]:
    """What can be said of the networks that reached the common loss; nothing of fewer than two."""
    networks = predictions(rows)
    if len(networks) < 2:
        return []
    pooled = rank(networks)
    return [_taus(networks), _gaps(networks), _one_at_a_time(pooled), _power(networks), _table(pooled, networks)]


def _zoos(networks: list[Network]) -> Iterator[tuple[int, list[Network]]]:
    """The zoo of each seed, if it has two networks to compare."""
    for seed in sorted({one["seed"] for one in networks}):
        zoo = [one for one in networks if one["seed"] == seed]
        if len(zoo) > 1:
            yield seed, zoo


def _known(zoo: list[Network], name: str) -> list[Network]:
    return [one for one in zoo if one["measures"].get(name) is not None]


def _taus(networks: list[Network]) -> Figure:
    found: dict[str, list[dict[str, Any]]] = {}
    for seed, zoo in _zoos(networks):
        some = [{**one, "measures": {name: one["measures"].get(name) for name in FEW}} for one in zoo]
        for score in rank(some):
            if score.tau is not None:
                row = {"seed": seed, "measure": SHOWN[score.name], "tau": score.tau}
                found.setdefault(score.name, []).append(row)
    best_first = sorted(found.values(), key=lambda rows: -statistics.fmean(row["tau"] for row in rows))
    return Figure(
        "taus", "Which measures are larger where the gap is larger?",
        "Rank correlation (Kendall's tau) between a measure and the gap between test and training error, in zoos "
        "(sets) of small networks. At 0 a measure orders networks no better than a coin. Below 0 the network that "
        "the measure calls more complex generalizes better.",
        [row for rows in best_first for row in rows],
        Axis("measure", "", ordinal=True), Axis("tau", "rank correlation with the gap", CORRELATION),
        mark=Bars(), claims=("flatness", "spectral", "counting", "gradient-noise"),
    )  # fmt: skip


def _gaps(networks: list[Network]) -> Figure:
    dots = []
    for name, label in SHOWN.items():
        for _, zoo in _zoos(networks):
            known = _known(zoo, name)
            places = rankdata([one["measures"][name] for one in known]).tolist()
            for place, one in zip(places, known, strict=True):
                layers = "1 hidden layer" if one["hyper"]["depth"] == 1 else f"{one['hyper']['depth']} hidden layers"
                dots.append({"measure": label, "place": place, "gap": one["gap"], "layers": layers})
    return Figure(
        "gaps", "Every network: its gap against its rank by a measure",
        "Each point is a network, at its rank by the measure within its zoo (equal values share a rank; the vertical "
        "axis does not start at 0). If a measure predicts the gap, points rise from left to right in both colors. "
        "Where the colors only separate, the measure reflects little but depth.",
        sorted(dots, key=lambda dot: dot["layers"]),
        Axis("place", "rank by the measure, smallest first"), Axis("gap", "test error minus training error", POINTS),
        mark=Points(), series="layers", series_title="depth", slider=Axis("measure", "measure"), group=None,
    )  # fmt: skip


def _one_at_a_time(pooled: list[Score]) -> Figure:
    found = [
        {"measure": SHOWN[score.name], "hyperparameter": HYPERPARAMETERS[name], "tau": tau}
        for score in pooled
        if score.name in SHOWN
        for name, tau in score.psi.items()
        if tau is not None
    ]
    return Figure(
        "one-at-a-time", "Change one hyperparameter: does the measure follow the gap?",
        "Rank correlation over pairs of networks that differ in one hyperparameter only, over all zoos. A reliable "
        "measure is positive in every column. Where the sign changes from width to depth, the correlation over all "
        "networks mixes two opposite answers.",
        found, Axis("hyperparameter", "hyperparameter that changes", ordinal=True), Axis("measure", "", ordinal=True),
        mark=Map("tau", "rank correlation", CORRELATION), claims=("no-robust-measure", "wrong-somewhere"),
    )  # fmt: skip


def _power(networks: list[Network]) -> Figure:
    found = []
    for seed, zoo in _zoos(networks):
        known = power(zoo)
        for name, move in known.moves.items():
            times = move / known.noise if known.noise else None
            found.append({"seed": seed, "hyperparameter": HYPERPARAMETERS[name], "move": times})
    return Figure(
        "power", "What do these zoos have the power to show?",
        "How far each hyperparameter moves the gap, in units of the noise of one network's gap. Claims get a verdict "
        "only if some hyperparameter reaches the dashed line. A hyperparameter far below it moves the gap by little "
        "more than chance, so measures are hardly tested along it.",
        found, Axis("hyperparameter", "hyperparameter", ordinal=True),
        Axis("move", "change of the gap / its noise", TIMES, log=True),
        mark=Points(), rules=[Rule(CLEAR, "needed for a verdict")],
    )  # fmt: skip


def _table(pooled: list[Score], networks: list[Network]) -> Table:
    lines: list[list[Cell]] = []
    for s in pooled:
        taus = ["" if number is None else f"{number:+.2f}" for number in (s.tau, s.granulated)]
        errors = ["" if number is None else f"{number:.2f}" for number in (s.sign_error, s.worst_error)]
        told = MEASURES[s.name]
        lines.append([told.meaning.split(":")[0], told.name, *taus, *errors, s.worst_environment, s.networks])
    columns = ["measure", "name", "tau", "granulated tau", "sign error", "worst", "where", "networks"]
    kept = [k for k in range(len(columns)) if any(line[k] not in ("", None) for line in lines)]
    return Table(
        "ranking", "All measures",
        f"{len(networks)} networks of all zoos together. Granulated tau compares networks that differ in one "
        f"hyperparameter. Sign error: how often a measure is wrong about which of two gaps is larger, {COIN:g} for a "
        "coin; worst: in its worst environment, a change of one hyperparameter.",
        [columns[k] for k in kept], [[line[k] for k in kept] for line in lines],
    )  # fmt: skip


# ---- the data ------------------------------------------------------------------------------------------------------

DIGITS, EACH = (0, 1, 3), 3


def demo(setting: dict[str, Any]) -> dict[str, Any]:
    """Some signals of each class."""
    train, _ = samples(setting["data"], 200, 10, derive(setting["seed"], "demo signals"))
    flat = train.X.reshape(len(train), -1)
    found = {str(digit): flat[np.flatnonzero(train.y == digit)[:EACH]].tolist() for digit in DIGITS}
    return {"signals": found}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    """The signals as curves."""
    signals = record.get("signals", {})
    rows = [
        {"digit": f"digit {digit}", "example": f"example {k + 1}", "place": place, "value": value}
        for digit, some in signals.items()
        for k, signal in enumerate(some)
        for place, value in enumerate(signal)
    ]
    if not rows:
        return []
    return [
        Figure(
            "signals", "The data: MNIST-1D",
            "Three training examples for each of three digits: shapes of 40 numbers, shifted, scaled, and noisy. Small "
            "networks fit all their examples without learning much, so gaps are large.",
            rows, Axis("place", "position"), Axis("value", "value"),
            mark=Line(points=False), series="example", facet="digit", group=None,
        )
    ]  # fmt: skip


LESSON = Lesson(
    figures,
    hero="taus",
    findings=(
        Finding(
            ("counting",),
            reproduced="A larger parameter count does not mean a larger generalization gap: rank correlation {0.mean}.",
            not_reproduced="A larger parameter count goes with a larger generalization gap: rank correlation {0.mean}.",
            no_verdict="Parameter count and generalization gap: rank correlation {0.mean}, too close to the threshold.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question("Which measures call the wider of two networks the simpler one?", "truerisk measure mlp:64 mlp:512"),
        Question(
            "By how much does a rescaling that changes no prediction change each measure?", "truerisk measure --audit"
        ),
        Question(
            "In zoos of 81 networks, does any measure follow the gap along every hyperparameter?",
            "truerisk lab run predictiveness --scale medium",
        ),
    ),
    formulas=(
        Formula(
            r"\tau = \frac{1}{N} \sum \mathrm{sign}(\mu - \mu') \, \mathrm{sign}(g - g')",
            "Kendall's tau over all N pairs of networks. It is the share of pairs that the measure mu orders like "
            "their gaps g and g', minus the share in the opposite order.",
        ),
    ),
)
