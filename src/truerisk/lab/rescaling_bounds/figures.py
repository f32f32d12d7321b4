"""Figures and tables of `rescaling-bounds`; runs that are missing leave gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.rescaling_bounds.claims import GUESSES, distance, noise, recipe, trained
from truerisk.lab.rescaling_bounds.columns import COLUMNS, STEPS
from truerisk.lab.rescaling_bounds.published import ARCHITECTURES, BEFORE_AFTER
from truerisk.lab.rows import Rows
from truerisk.words import bound, nats

OBSERVED = "empirical risk"
LABELS = {"original": "original", "tuned": "tuned prior scale", "rescaled": "rescaled", "both": "both"}
GUESS = {
    "widest": "the widest noise with at most 5 % error (sigma_p = 44 sigma_q)",
    "standard": "a standard prior (sigma_p = 1, sigma_q = 1/44)",
}
WIDTHS = "hidden layers (on digits: a quarter of these widths)"
LEFT_OPEN = (
    "How the networks were trained and which standard deviations they had was not published; see the settings for what "
    "was guessed."
)
Point = dict[str, Cell]


def figures(rows: Rows) -> Sequence[Exhibit]:
    """The paper's two figures with our columns, the KL ratios, and the tables behind them."""
    there = Rows(rows.present)
    guesses = [(kind, recipe(there).where(posterior=kind)) for kind in GUESSES]
    return [
        *(_bounds(f"bounds-{kind}", f"Ten networks, {GUESS[kind]}", some, published=True) for kind, some in guesses),
        _trained_bounds(trained(there)),
        _ratios(there),
        _noise(noise(there)),
        *(_table(f"recipe-{kind}", f"The paper's recipe with {GUESS[kind]}", some) for kind, some in guesses),
        _table("trained", "Trained posteriors", trained(there)),
        _table("noise-levels", "The grid of noise levels", noise(there)),
        _distances(there),
    ]


def _points(rows: Rows, published: bool) -> Iterator[Point]:
    """Mean and range over seeds of McAllester's bound, for each row and column; published values of published sizes."""
    for (row,), some in rows.groups("row"):
        for column in COLUMNS:
            bounds = some.column(f"{column}_mcallester")
            yield {
                "row": row,
                "column": LABELS[column],
                "bound": fmean(bounds),
                "low": min(bounds),
                "high": max(bounds),
            }
        if published and _comparable(some):
            for name, bound in zip(("published original", "published rescaled"), BEFORE_AFTER[row], strict=True):
                yield {"row": row, "column": name, "bound": bound, "low": bound, "high": bound}


def _comparable(rows: Rows) -> bool:
    """Whether the data are those of the paper."""
    return all((row["data"], row["n"]) in (("mnist", 60_000), ("cifar-10", 50_000)) for row in rows)


def _bounds(name: str, title: str, rows: Rows, published: bool) -> Figure:
    return Figure(
        name=name,
        title=title,
        caption=(
            "McAllester's bound, not cut at 1; mean and range over seeds. Under the dashed line a bound says "
            "something. Compare the published pair of points with ours, and the rescaled points with those of a tuned "
            f"prior scale, which pays for a choice among {len(STEPS)} scales. {LEFT_OPEN}"
        ),
        rows=list(_points(rows, published)),
        x=Axis("row", WIDTHS, ordinal=True),
        y=Axis("bound", "bound on the risk", zero=True, bound=True),
        mark="points",
        series="column",
        series_title="KL",
        low="low",
        high="high",
        rules=[Rule(1.0, "vacuous above")],
    )


def _trained_bounds(rows: Rows) -> Figure:
    points: list[Point] = []
    for (row,), some in rows.groups("row"):
        for field, form in (("kl_form", "PAC-Bayes-kl"), ("mcallester", "McAllester")):
            for column in ("original", "rescaled"):
                bound = some.mean(f"{column}_{field}")
                points.append({"row": row, "what": f"{form}, {column}", "bound": bound})
        points.append({"row": row, "what": OBSERVED, "bound": some.mean("risk")})
    return Figure(
        name="bounds-trained",
        title="Ten networks with trained posteriors",
        caption=(
            "Means over seeds. Means and standard deviations of all weights were trained; the prior is N(0, 16/fan-in) "
            "and has seen no data. Look how far the points lie under those of the figures before, and whether "
            "rescaling moves any of them."
        ),
        rows=points,
        x=Axis("row", WIDTHS, ordinal=True),
        y=Axis("bound", "bound on the risk", percent=True, zero=True, bound=True),
        mark="points",
        series="what",
        series_title="",
        observed=[OBSERVED],
        rules=[Rule(1.0, "vacuous above")],
    )


def _ratios(rows: Rows) -> Figure:
    points: list[Point] = []
    for (row, kind), some in rows.where(part="architectures").groups("row", "posterior"):
        for column in COLUMNS[1:]:
            ratios = [run["original_kl"] / run[f"{column}_kl"] for run in some]
            points.append({"row": row, "posterior": kind, "column": LABELS[column], "ratio": fmean(ratios)})
        if kind in GUESSES and _comparable(some):
            ratio = ARCHITECTURES[row][2]
            points.append({"row": row, "posterior": kind, "column": "published (rescaled)", "ratio": ratio})
    return Figure(
        name="kl-ratios",
        title="By how much the KL is divided",
        caption=(
            "The original KL divided by that of each column; means over seeds, one panel per kind of posterior. At 1 "
            "nothing is gained. Look whether rescaling gains more than one number, the scale of the prior, does."
        ),
        rows=points,
        x=Axis("row", WIDTHS, ordinal=True),
        y=Axis("ratio", "original KL / KL", log=True),
        mark="points",
        series="column",
        series_title="KL",
        facet="posterior",
        rules=[Rule(1.0, "nothing gained")],
    )


def _noise(rows: Rows) -> Figure:
    return Figure(
        name="noise",
        title="A convolutional network at five pairs of noise levels",
        caption=(
            "McAllester's bound, not cut at 1, for the published pairs of standard deviations; mean and range over "
            "seeds. The network's widths and training are guesses, so that levels may differ from the published ones: "
            "look at the differences between columns. How many pairs the authors compared is not known; five are paid "
            "for."
        ),
        rows=list(_points(rows, published=True)),
        x=Axis("row", "sigma of the prior / of the posterior", ordinal=True),
        y=Axis("bound", "bound on the risk", zero=True, bound=True),
        mark="points",
        series="column",
        series_title="KL",
        low="low",
        high="high",
        rules=[Rule(1.0, "vacuous above")],
    )


def _table(name: str, title: str, rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    for (row,), some in rows.groups("row"):
        sigma = some.present[0]["sigma_q"]
        cells = [row, f"{some.max('weights'):,}", "" if sigma is None else f"{some.mean('sigma_q'):.4f}"]
        errors = [f"{100 * some.mean(field):.2f}" for field in ("train_error", "test_error", "risk")]
        kls = [nats(some.mean(f"{column}_kl")) for column in COLUMNS]
        forms = [_both_forms(some, column) for column in COLUMNS]
        lines.append([*cells, *errors, *kls, *forms])
    return Table(
        name=name,
        title=f"{title}: KLs and bounds",
        caption=(
            "Means over seeds; errors in percent, those of the network at the mean on training and test examples, then "
            "that of drawn networks on training examples. Bounds: McAllester's as it is, and in brackets PAC-Bayes-kl; "
            "cut at 1, the first is 1 wherever it is larger. Tuned columns use scales 2^(j/2) with j from "
            f"{STEPS[0]} to {STEPS[-1]}, and pay for {len(STEPS)} of them."
        ),
        columns=[
            *("row", "weights", "sigma_q", "training error", "test error", "empirical risk"),
            *(f"KL {LABELS[column]}" for column in COLUMNS),
            *(f"bound {LABELS[column]}" for column in COLUMNS),
        ],
        rows=lines,
    )


def _both_forms(rows: Rows, column: str) -> str:
    mcallester, kl_form = (bound(rows.mean(f"{column}_{form}"), 3) for form in ("mcallester", "kl_form"))
    return f"{mcallester} ({kl_form})"


def _distances(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    for (row, kind), some in rows.groups("row", "posterior"):
        if kind == "trained" or not _comparable(some):
            continue
        before, after = BEFORE_AFTER[row]
        ours = [bound(some.mean(f"{column}_mcallester"), 2) for column in ("original", "rescaled")]
        off = [fmean(distance(run, column) for run in some) for column in ("original", "rescaled")]
        ratio = f"{ARCHITECTURES[row][2]:.1f}" if row in ARCHITECTURES else ""
        our_ratio = some.mean("original_kl") / some.mean("rescaled_kl")
        lines.append(
            [row, kind, f"{before:.2f}", ours[0], f"{off[0]:+.2f}", f"{after:.2f}", ours[1],
             f"{off[1]:+.2f}", ratio, f"{our_ratio:.2f}"]
        )  # fmt: skip
    return Table(
        name="distances",
        title="Published and measured, row by row",
        caption=(
            "McAllester's bounds before and after rescaling, means over seeds; published numbers were read off the "
            f"paper's figures and are known to 0.02. Empty unless the data are those of the paper. {LEFT_OPEN}"
        ),
        columns=[
            *("row", "guess", "published before", "ours", "distance", "published after", "ours", "distance"),
            *("published KL ratio", "ours"),
        ],
        rows=lines,
    )
