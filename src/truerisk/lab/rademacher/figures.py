"""The figures and tables of the experiment `rademacher`."""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.rademacher.signs import DELTA, proven_complexity, risk_bound
from truerisk.lab.rows import Rows
from truerisk.words import lower

LOWER = "Trained classifiers give a lower estimate of a complexity, never a bound from above."
UPPER = "affine classifiers, upper bound"


def figures(rows: Rows) -> Sequence[Exhibit]:
    """All exhibits; runs that are missing leave gaps."""
    return [_networks(rows), _bounds(rows), _sizes(rows), _labelings(rows), _dimensions(rows), _capacity(rows)]


def largest_shattered(rows: Rows) -> int:
    """The largest m for which some set of m points that was tried is shattered; 0 if there is none."""
    pairs = zip(rows.column("most"), rows.column("m"), strict=True)
    return max((m for most, m in pairs if most == 2**m), default=0)


def _images(rows: Rows) -> Rows:
    """The runs that compare architectures; MNIST-1D is for the comparison of sizes."""
    return Rows(row for row in rows.where(part="signs") if row["data"] != "mnist1d")


def _networks(rows: Rows) -> Figure:
    bars: list[dict[str, Cell]] = []
    for (model,), some in _images(rows).groups("model"):
        found = some.column("correlation")
        bars.append({"model": model, "mean": some.mean("correlation"), "low": min(found), "high": max(found)})
    about = next(({"data": r["data"], "n": r["n"]} for r in _images(rows)), {"data": "none", "n": 0})
    return Figure(
        name="correlation",
        title="Correlation with random signs, per architecture",
        caption=(
            f"Each network was trained on random signs ({about['data']}, n = {about['n']}); shown is how well its "
            "predicted signs agree with them at the end, on average over draws of the signs, with the smallest and "
            "largest draw. At 1 every sign is fitted, and the complexity has its largest possible value. "
            f"{LOWER}"
        ),
        rows=bars,
        x=Axis("model", "architecture", ordinal=True),
        y=Axis("mean", "correlation with random signs", zero=True),
        mark="bar",
        low="low",
        high="high",
        rules=[Rule(1.0, "largest possible value")],
    )


def _bounds(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    for (model, data, n), some in rows.where(part="signs").groups("model", "data", "n"):
        found = [row["correlation"] for row in some]
        if found:
            least = proven_complexity(found, n)
            mean = sum(found) / len(found)
            lines.append(
                [model, data, n, len(found), f"{mean:.3f}", lower(least, 3), lower(risk_bound(0.0, least, n), 2)]
            )
    return Table(
        name="bounds",
        title="What the Rademacher bound would say",
        caption=(
            "Even for a network without training errors, the bound (train error + R + 3 sqrt(log(2/delta) / (2n)), "
            "Mohri et al. 2018, Theorem 3.5) is at least the number in the last column, because R is at least the "
            f"number before it (in each row with probability {1 - DELTA:.2f} over the signs, by McDiarmid's "
            "inequality). A bound of 1 or more says nothing."
        ),
        columns=["network", "data", "n", "draws", "mean correlation", "R is at least", "bound is at least"],
        rows=lines,
    )


def _sizes(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = []
    for row in rows.where(part="linear"):
        series = {
            "affine classifiers, found (lower estimate)": row["correlation"],
            UPPER: row["upper"],
            "linear functions of bounded norm": row["ball"],
        }
        shown += [{"n": row["n"], "series": name, "value": value} for name, value in series.items()]
    for (n,), some in rows.where(part="signs", data="mnist1d").groups("n"):
        found = [row["correlation"] for row in some]
        if found:
            shown.append({"n": n, "series": "mlp-1x512, trained (lower estimate)", "value": sum(found) / len(found)})
    return Figure(
        name="sizes",
        title="Complexity against the number of examples",
        caption=(
            "Inputs of MNIST-1D (40 numbers, so affine classifiers have 41 parameters). A square-root law is a line of "
            "slope -1/2 on these axes: look for it in the affine classifiers once n is well above 41, and for its "
            "absence in the network. The upper bound counts labelings by Cover's formula (Massart's lemma); the "
            f"complexity of linear functions of bounded norm has a closed form. {LOWER}"
        ),
        rows=shown,
        x=Axis("n", "number of examples", log=True),
        y=Axis("value", "empirical Rademacher complexity", log=True, bound=True),
        series="series",
        observed=sorted({str(point["series"]) for point in shown} - {UPPER}),
        series_title="family",
        rules=[Rule(1.0, "largest possible value")],
    )


def _title(row: dict[str, Cell]) -> str:
    names = {"intervals": "intervals", "rectangles": "rectangles", "sine": "sine", "nearest": "nearest neighbour"}
    if row["family"] == "affine":
        return f"affine classifiers in R^{row['d']}"
    if row["family"] == "relu":
        return f"ReLU network of width {row['width']}, trained"
    return names[str(row["family"])]


def _labelings(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = [
        {"m": row["m"], "series": _title(row), "labelings": row["most"]}
        for row in rows.where(part="shatter")
        if row["family"] not in ("sine", "nearest")  # these lie on the line of 2^m
    ]
    largest = max((row["m"] for row in rows.where(part="shatter")), default=0)
    shown += [{"m": m, "series": "all labelings (2^m)", "labelings": 2**m} for m in range(1, largest + 1)]
    return Figure(
        name="labelings",
        title="Labelings that can be realised",
        caption=(
            "Of the 2^m labelings of m points, how many a family realises on the best set that was tried. A family "
            "shatters m points while it stays on the line of all labelings; the last such m is its VC dimension. From "
            "there on the number grows only like a power of m. The trained networks (two inputs) are lower estimates, "
            "the others are exact; sine waves and nearest neighbours never leave the line and are not drawn."
        ),
        rows=shown,
        x=Axis("m", "points"),
        y=Axis("labelings", "labelings realised", log=True),
        series="series",
        series_title="family",
    )


def _dimensions(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    titles: dict[str, list[dict[str, Cell]]] = {}
    for row in rows.where(part="shatter"):
        titles.setdefault(_title(row), []).append(row)
    for title, some in titles.items():
        found, last = largest_shattered(Rows(some)), max(int(str(row["m"])) for row in some)
        theory, parameters, how = _theory(some[0])
        lines.append([title, parameters, theory, f"at least {found}" if found == last else str(found), last, how])
    return Table(
        name="vc-dimensions",
        title="VC dimensions: what is proved, what was found",
        caption=(
            "Found is the largest number of points that were shattered among the sets tried, up to the number in the "
            "fifth column. The number of parameters does not tell the VC dimension: a sine has one."
        ),
        columns=["family", "parameters", "proved", "found", "points tried up to", "decided by"],
        rows=lines,
    )


def _theory(row: dict[str, Cell]) -> tuple[str, str, str]:
    """(VC dimension as proved, number of parameters, how it was decided here)."""
    family = row["family"]
    if family == "affine":
        d = int(str(row["d"]))
        return str(d + 1), str(d + 1), "linear programs, one per labeling"
    if family == "relu":
        width = int(str(row["width"]))
        # One unit is a half-plane with a constant on one side: the signs are those of half-planes.
        proved = "3" if width == 1 else f"at least {width}"
        return proved, str(4 * width + 1), "training on each labeling (lower estimate)"
    return {
        "intervals": ("2", "2", "order of the points"),
        "rectangles": ("4", "4", "bounding boxes, all orders of the points"),
        "sine": ("infinite", "1", "whole numbers"),
        "nearest": ("infinite", "all the examples", "distances"),
    }[str(family)]


def _capacity(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = []
    for row in rows.where(part="capacity"):
        ratio = row["n"] / (row["d"] + 1)
        shown.append({"ratio": ratio, "series": "linear programs", "share": row["share"]})
        shown.append({"ratio": ratio, "series": "Cover's formula", "share": row["formula"]})
    return Figure(
        name="capacity",
        title="Random labels that a hyperplane separates",
        caption=(
            "The share of random labelings of n random points that are linearly separable, against n divided by the "
            "number of parameters. Cover's formula passes through one half at exactly two points per parameter."
        ),
        rows=shown,
        x=Axis("ratio", "points per parameter"),
        y=Axis("share", "separable labelings", percent=True, zero=True),
        series="series",
        series_title="share",
    )
