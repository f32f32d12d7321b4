"""The lesson of `matrix-factorization`: small starts find simple matrices, and no bias is best everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import log2
from statistics import fmean
from typing import Any

from truerisk.lab.experiments.matrix_factorization import ENOUGH, FACTORS, FEW, FULL, LARGE, NARROW, SMALL, TINY
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Map, Points
from truerisk.lab.matrix_effects import BEST
from truerisk.lab.matrix_pictures import NAMES, TRUTH, demo, pictures
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import CORRELATION, PERCENT, TIMES

DESCENT, LEAST = "gradient descent", "least trace norm"
START = Axis("start", "size of the start", log=True)
RESOLVED = 1e-3  # descent stops where it fits up to this
FIRST = 8  # singular values in a figure
SHOWN = {LARGE: "descent from 0.1", SMALL: "descent from 0.01", TINY: "descent from 10\u207b\u2076"}
WORDS = {"power 2": "1/k\u00b2", "power 1": "1/k", "power 0.5": "1/\u221ak"}  # equal factors keep their name
MEASURED = {
    "gaussian": "{} Gaussian measurements",
    "few gaussian": "only {} Gaussian measurements",
    "entries": "{} of {} entries",
    "few entries": "only {} of {} entries",
}


def figures(rows: Rows) -> list[Exhibit]:
    """Those of the kinds that were planned; with real rows alone (medium scale, own data), these come first."""
    runs, planned = rows.converged(), {run["kind"] for run in (*rows, *rows.missing)}
    kinds = {
        kind: Rows([run for run in runs if run["kind"] == kind]) for kind in ("descent", "optima", "map", "images")
    }
    paths = Rows([run for run in kinds["descent"] if run["measured"] in MEASURED]).having(panel=_panel)
    real = _images(kinds["images"])
    found: list[tuple[str, Figure]] = [("descent", make(paths)) for make in (_recovery, _spectra, _traces)]
    found += [("map", make(kinds["map"])) for make in (_phases, _descent_map)]
    found += [("images", real if "descent" in planned else replace(real, name="recovery"))]
    found += [("optima", make(kinds["optima"])) for make in (_ends, _counts)]
    return [figure for kind, figure in [*found, ("descent", _theory(kinds["descent"]))] if kind in planned]


def _panel(run: Row) -> str:
    return MEASURED[run["measured"]].format(f"{run['m']:,}", f"{run['size'] ** 2:,}")


def _unrolled(paths: Rows) -> Rows:
    return paths.unrolled(start="starts", error="errors", trace="traces", rank="ranks", spectrum="spectra")


def _recovery(paths: Rows) -> Figure:
    chosen = _unrolled(paths.where(measured=["gaussian", "few entries"])) if len(paths) else paths
    names = {DESCENT: "error", LEAST: "least_error"}
    lines = chosen.longer("found", names, into="method").having(found=lambda row: max(row["found"], RESOLVED))
    return Figure(
        "recovery",
        "Error of the recovered matrix against the size of the start",
        "Relative distance to the true matrix of rank 2, for gradient descent on full factors and for the solution of "
        "least trace norm; all fit the measurements. Errors below 0.001 are drawn at 0.001. If the size of the start "
        "did not matter, the curve of descent would be flat.",
        lines,
        START,
        Axis("found", "relative error", log=True),
        series="method",
        facet="panel",
        claims=("small-start-recovers", "large-start-does-not", "better-than-least"),
    )


def _spectra(paths: Rows) -> Figure:
    chosen = paths.where(measured="few entries") if len(paths) else paths
    rows = []
    for run in chosen:
        ends = dict(zip(run["starts"], run["spectra"], strict=True))
        shown = {TRUTH: run["true_spectrum"], LEAST: run["least_spectrum"]}
        shown |= {name: ends[start] for start, name in SHOWN.items() if start in ends}
        for name, values in shown.items():
            rows += [
                {"place": place, "value": value, "matrix": name, "seed": run["seed"]}
                for place, value in enumerate(values[:FIRST], start=1)
            ]
    return Figure(
        "spectra",
        "Singular values of the matrices that fit few entries",
        "The first eight singular values of the true matrix, of the least trace norm, and of the ends of descent from "
        "three starts, all of which fit the same few entries. The truth has two factors. Smaller starts leave less "
        "weight on the others.",
        rows,
        Axis("place", "singular value number"),
        Axis("value", "singular value", zero=True),
        series="matrix",
        claims=("better-than-least",),
    )


def _traces(paths: Rows) -> Figure:
    small = [row for row in _unrolled(paths) if row["start"] <= SMALL]
    order = [name for name in (*ENOUGH, *FEW) if any(row["measured"] == name for row in small)]
    return Figure(
        "traces",
        "Does descent find the least trace norm?",
        "Trace norm at the end of descent over the least trace norm that fits the same measurements, against the size "
        "of the start. At 1, descent has found the least trace norm. If a smaller start always came nearer, all curves "
        "would fall to 1 toward the left.",
        sorted(small, key=lambda row: order.index(row["measured"])),
        START,
        Axis("trace", "trace norm / least trace norm", TIMES),
        series="panel",
        rules=[Rule(1.0, "least trace norm")],
        claims=("least-trace-norm", "least-trace-norm-few"),
    )


def _cells(cells: Rows, value: Any) -> list[dict[str, Any]]:
    """One row for each cell of the map: the mean over seeds, from few strong to many weak factors."""
    found: dict[tuple[float, int, float], dict[str, Any]] = {}
    for (factors, share, noise), some in cells.groups("factors", "share", "noise"):
        level = f"noise {noise:g}" if noise else "no noise"
        mean = fmean(value(run) for run in some) if len(some) else None
        place = {"kind": WORDS.get(factors, factors), "share": f"{100 * share:g}%", "level": level}
        found[noise, FACTORS.index(factors), share] = {**place, "value": mean}
    return [found[place] for place in sorted(found)]


def _log_ratio(run: Row, above: Sequence[str], below: str) -> float:
    """log2 of the ratio of two test errors, between -1 and 1; of several methods the best one counts."""
    first, second = (max(min(run[f"{name}_error"] for name in names), BEST) for names in (above, (below,)))
    return max(-1.0, min(1.0, log2(first / second)))


def _map(name: str, title: str, caption: str, rows: list[dict[str, Any]], key: str, claims: tuple[str, ...]) -> Figure:
    share, kind = Axis("share", "observed entries", ordinal=True), Axis("kind", "factors", ordinal=True)
    mark = Map("value", key, CORRELATION)
    return Figure(name, title, caption, rows, share, kind, mark, facet="level", claims=claims, group=None)


def _phases(cells: Rows) -> Figure:
    return _map(
        "phases",
        "Where is which bias realistic?",
        "Test error of limited rank over that of limited trace norm (log2), both tuned on held-out entries, for true "
        "matrices with a few equal factors or with many that decay like 1/k. At 1, limited rank errs at least twice as "
        "much; at \u22121, the trace norm does. Noise is relative to the entries.",
        _cells(cells, partial(_log_ratio, above=("rank",), below="trace")),
        "log2 of rank / trace",
        ("rank-for-few-strong", "trace-for-many", "trace-for-many-weak"),
    )


def _descent_map(cells: Rows) -> Figure:
    return _map(
        "descent-map",
        "Where does stopped descent beat both?",
        "Test error of the better one of limited rank and limited trace norm over that of descent from a small start "
        "(log2), stopped by held-out entries. Above 0, descent is better than both; below 0, one of them is better.",
        _cells(cells, partial(_log_ratio, above=("rank", "trace"), below="descent")),
        "log2 of better / descent",
        ("descent-for-many",),
    )


def _images(runs: Rows) -> Figure:
    names = {name: f"{key}_error" for key, name in NAMES.items()}
    return Figure(
        "images",
        "Which bias fills in real rows best?",
        "Error on missing entries, relative to that of the mean of each column, against the share of observed entries. "
        "Each method chooses its one parameter on the same held-out entries. At 1, a method is no better than the "
        "mean.",
        runs.longer("error", names, into="method"),
        Axis("share", "observed entries", PERCENT),
        Axis("error", "relative error"),
        series="method",
        facet="data",
        rules=[Rule(1.0, "mean of each column")] if len(runs) else [],
        claims=("trace-for-images",),
    )


def _ends(runs: Rows) -> Figure:
    ladders = [run for run in runs if run["width"] in (NARROW, FULL)]
    first = min((run["seed"] for run in ladders), default=None)
    rows = [
        {"place": place, "loss": loss, "width": f"width {run['width']}", "seed": first}
        for run in ladders
        if run["seed"] == first
        for place, loss in enumerate(run["losses"], start=1)
    ]
    return Figure(
        "ends",
        "Where do random starts end: one problem, two widths",
        "Loss at the end of alternating least squares over the least loss of the convex problem, for random starts "
        "sorted by their loss, on a 20 x 20 matrix with missing entries. Steps in a curve are local minima. At full "
        "width every start should end at 1.",
        rows,
        Axis("place", "start, sorted by loss"),
        Axis("loss", "loss / convex optimum", TIMES),
        Points(),
        series="width",
        claims=("local-minima", "one-minimum"),
    )


def _counts(runs: Rows) -> Figure:
    return Figure(
        "minima",
        "How many different minima do random starts find?",
        "Number of different losses at which the random starts end, against the width of the factors, with the same "
        "ridge at every width. At width 20 the factors can represent every matrix. At 1, all starts agree.",
        runs,
        Axis("width", "width of the factors", log=True),
        Axis("distinct", "different end losses", zero=True),
        Line(),
        claims=("local-minima", "one-minimum"),
    )


def _theory(runs: Rows) -> Figure:
    chosen = Rows([run for run in runs if run["measured"] == "commuting"])
    rows = chosen.unrolled(start="starts", found="excess", bound="allowed")
    lines = rows.longer("share", {"gradient descent": "found", "theory allows": "bound"}, into="line")
    return Figure(
        "commuting",
        "Commuting measurements: how fast the trace norm becomes least",
        "Excess of the trace norm over the least one against the size of the start, and the excess that gradient flow "
        "allows. The theorem says that both vanish with the start. Values at or below 0 are left out.",
        [row for row in lines if row["share"] > 0],
        START,
        Axis("share", "excess over the least", PERCENT, log=True),
        series="line",
        claims=("commuting",),
    )


LESSON = Lesson(
    figures=figures,
    hero="recovery",
    findings=(
        Finding(
            ("better-than-least",),
            "With few entries, the least trace norm errs {0.mean} as much as descent.",
            "Not so here: with few entries, least trace norm errs {0.mean} as much as descent.",
            "Still open: with few entries, least trace norm errs {0.mean} as much as descent.",
        ),
        Finding(
            ("trace-for-images",),
            "With half of the pixels missing, limited rank errs {0.mean} as much as trace norm.",
            "Not everywhere: limited rank errs {0.mean} as much as trace norm ({0.cell}).",
            "Still open: limited rank errs {0.mean} as much as trace norm ({0.cell}).",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\|W\|_{tr} = \min_{W = U V^T} (1/2) (\|U\|_F^2 + \|V\|_F^2)",
            "Weight decay on two factors is a limit on the trace norm, the sum of singular values, of their product.",
        ),
        Formula(
            r"\|A(U V^T) - y\|^2 \to \min_{U, V}",
            "Without decay, the start and the path of descent choose among all matrices that fit.",
        ),
    ),
    questions=(
        Question(
            "Does the trace norm also beat limited rank on MNIST and Fashion-MNIST?",
            "truerisk lab run matrix-factorization --scale medium",
        ),
        Question(
            "Which bias fills in one-dimensional signals best?",
            "truerisk lab run matrix-factorization --data mnist1d",
        ),
        Question(
            "For linear models the start decides as well: which solution does SGD find there?",
            "truerisk lab run minimum-norm",
        ),
    ),
)
