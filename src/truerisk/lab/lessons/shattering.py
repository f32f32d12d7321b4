"""The lesson of `shattering`: labelings of three and four points, and where each family stops realizing all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truerisk.lab.experiment import Setting
from truerisk.lab.experiments.shattering import largest_shattered
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Polygons
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT
from truerisk.measures.shattering import all_labelings, cover, separable

Point = tuple[float, float]

POINTS = Axis("m", "number of points m")

# ---- figures -------------------------------------------------------------------------------------------------------

# family -> (name, parameters, VC dimension that is proved, how labelings are decided)
FAMILIES = {
    "affine": ("affine classifiers in R^{d}", "{vc}", "{vc}", "linear programs, one per labeling"),
    "intervals": ("intervals", "2", "2", "order of the points"),
    "rectangles": ("rectangles", "4", "4", "bounding boxes, all orders of the points"),
    "sine": ("sine", "1", "infinite", "integer arithmetic"),
    "nearest": ("nearest neighbor", "all examples", "infinite", "distances"),
    "relu": ("ReLU network of width {width}, trained", "{weights}", "{proved}", "training (lower estimate)"),
}
HERO = {"intervals": "intervals", "affine": "lines (half-planes)", "rectangles": "rectangles", "sine": "sine waves"}
DIMENSIONS = (2, 10, 100)  # of Cover's curves; 10 is that of the runs
CURVE = 60  # points of each curve, up to three points per parameter


def figures(rows: Rows) -> Sequence[Exhibit]:
    return [_labelings(rows), _networks(rows), _capacity(rows), _dimensions(rows)]


def _share(row: Mapping[str, Any]) -> float:
    return float(row["most"] / 2 ** row["m"])


def _labelings(rows: Rows) -> Figure:
    counted = [row for name in HERO for row in rows if row.get("family") == name and row.get("d", 2) == 2]
    caption = (
        "Share of all labelings of m points that a family realizes, on the best set of points tried (rectangles: up to "
        "6 points). The VC dimension is the last m at 100%: 2 for intervals, 3 for lines, 4 for rectangles. Sine waves "
        "have one parameter and stay at 100%, so the number of parameters is not the VC dimension."
    )
    shown = Rows(counted).having(share=_share, family=lambda row: HERO[row["family"]])
    title, y = "How many labelings can each family realize?", Axis("share", "labelings realized", PERCENT, zero=True)
    look: dict[str, Any] = {"series": "family", "series_title": "family"}
    claims = ("vc-affine", "vc-boxes", "vc-infinite")
    return Figure("labelings", title, caption, shown, POINTS, y, claims=claims, **look)


def _networks(rows: Rows) -> Figure:
    caption = (
        "Share of all labelings of m random points in the plane for which training finds weights, by the number of "
        "hidden units. Each m has its own points, and training may miss weights that exist, so curves need not fall "
        "steadily. A network with one unit per point should stay at 100%."
    )
    shown = Rows(row for row in rows if row.get("family") == "relu").having(share=_share)
    title, y = "How many points do small ReLU networks shatter?", Axis("share", "labelings found", PERCENT, zero=True)
    look: dict[str, Any] = {"series": "width", "series_title": "hidden units"}
    return Figure("networks", title, caption, shown, POINTS, y, claims=("network-shatters",), **look)


def _capacity(rows: Rows) -> Figure:
    sizes = {d: sorted({round(ratio * (d + 1)) for ratio in np.linspace(1 / (d + 1), 3, CURVE)}) for d in DIMENSIONS}
    curves = [
        {"d": d, "ratio": n / (d + 1), "share": cover(n, d) / 2**n} for d, some in sizes.items() for n in some if n > 0
    ]
    caption = (
        "Probability that a hyperplane separates random labels of n points in general position, by Cover's formula; "
        "dots are shares of random labelings in 10 dimensions, one dot per run. Every curve passes 50% at two points "
        "per parameter, the capacity. In high dimension, nearly all labels can be fitted below it, hardly any above."
    )
    return Figure(
        "capacity",
        "How many random labels can a hyperplane separate?",
        caption,
        curves,
        Axis("ratio", "points per parameter, n / (d + 1)"),
        Axis("share", "separable labelings", PERCENT, zero=True),
        mark=Line(points=False),
        series="d",
        series_title="dimension d",
        rules=[Rule(0.5, "one half")],
        claims=("cover-capacity",),
        dots=Rows(row for row in rows if row["part"] == "capacity").having(ratio=lambda row: row["n"] / (row["d"] + 1)),
    )


def _told(row: dict[str, Any]) -> list[str]:
    width, d = row.get("width", 0), row.get("d", 0)
    proved = "3" if width == 1 else f"at least {width}"  # one ReLU unit has the signs of half-planes
    numbers = {"vc": d + 1, "weights": 4 * width + 1, "proved": proved}
    return [text.format(**row, **numbers) for text in FAMILIES[row["family"]]]


def _dimensions(rows: Rows) -> Table:
    families: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == "shatter":
            families.setdefault(tuple(_told(row)), []).append(row)
    lines: list[list[Cell]] = []
    for (name, parameters, proved, how), some in families.items():
        found, last = largest_shattered(Rows(some)), max(row["m"] for row in some)
        lines.append([name, parameters, proved, f"at least {found}" if found == last else str(found), last, how])
    caption = "VC dimensions as proved, next to the largest number of points shattered among the sets tried (found)."
    columns = ["family", "parameters", "proved", "found", "points tried up to", "decided by"]
    return Table("vc-dimensions", "VC dimensions, proved and found", caption, columns, lines)


# ---- pictures ------------------------------------------------------------------------------------------------------

THREE = ((-0.9, -0.6), (0.9, -0.8), (0.1, 0.9))
FOUR = ((-0.8, -0.7), (0.7, -0.9), (-0.9, 0.8), (0.8, 0.9))  # the corners of a quadrilateral
ON_A_LINE = (0.2, 0.45, 0.8, 1.0)  # four points that sine waves of moderate frequency label in every way, clearly
FREQUENCIES = np.linspace(0.05, 60, 6000)
SQUARE = ((-1.5, -1.5), (1.5, -1.5), (1.5, 1.5), (-1.5, 1.5))  # the frame of the pictures
WAVE = 301  # points per wave
FEW = 8  # labelings that stand side by side
CLASSES = {True: "label +", False: "label \u2212"}
NO_LINE = "No colors mean that no line exists: opposite corners share a label."


def demo(setting: Setting) -> dict[str, Any]:
    """All labelings of three and of four points: a line for each that has one, and a sine wave for each."""
    waves = [{"labels": row.tolist(), "frequency": _frequency(row)} for row in all_labelings(len(ON_A_LINE))]
    return {"lines": {str(len(points)): _lines(np.array(points)) for points in (THREE, FOUR)}, "waves": waves}


def _lines(points: np.ndarray) -> list[dict[str, Any]]:
    """For each labeling, (w, b) of the line in the middle between the classes; None where the program finds none."""
    return [
        {"labels": labels.tolist(), "line": _middle(points, labels) if separable(points, labels) else None}
        for labels in all_labelings(len(points))
    ]


def _middle(points: np.ndarray, labels: np.ndarray) -> list[float]:
    from sklearn.svm import SVC

    if labels.all() or not labels.any():  # any line that leaves all points on one side
        return [0.0, 0.0, 1.0 if labels.all() else -1.0]
    found = SVC(kernel="linear", C=1e6).fit(points, labels)
    return [*found.coef_[0].tolist(), float(found.intercept_[0])]


def _frequency(labels: np.ndarray) -> float:
    """The frequency at which the wave is farthest from zero on all points, on their own side each."""
    waves = np.sin(FREQUENCIES[:, None] * np.array(ON_A_LINE))
    return float(FREQUENCIES[np.where(labels, waves, -waves).min(axis=1).argmax()])


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    lines = record.get("lines", {})
    found: list[Exhibit] = [
        _plane(points, lines[str(len(points))]) for points in (THREE, FOUR) if str(len(points)) in lines
    ]
    return [*found, _wave(_mixed(record["waves"]))] if record.get("waves") else found


def _mixed(labelings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labelings that nothing realizes come first, then those that mix most; each gets a name."""
    named = [{**one, "name": " ".join("+" if label else "\u2212" for label in one["labels"])} for one in labelings]
    imbalance = {one["name"]: abs(2 * sum(one["labels"]) - len(one["labels"])) for one in named}
    return sorted(named, key=lambda one: (one.get("line", one) is not None, imbalance[one["name"]]))


def _plane(points: Sequence[Point], labelings: list[dict[str, Any]]) -> Figure:
    """The two sides of a line for each labeling: side by side for few, one at a time for many."""
    corners, dots = [], []
    for one in _mixed(labelings):
        for side, shape in _sides(one["line"]).items():
            where = {"labels": one["name"], "class": side, "shape": f"{one['name']} {side}"}
            corners += [{"x": x, "y": y, **where} for x, y in shape]
        places = zip(points, one["labels"], strict=True)
        dots += [{"x": x, "y": y, "labels": one["name"], "class": CLASSES[label]} for (x, y), label in places]
    words, count = {3: "Three", 4: "Four"}[len(points)], len(labelings)
    realized = sum(one["line"] is not None for one in labelings)
    end = "The points are shattered." if realized == count else NO_LINE
    few = count <= FEW
    return Figure(
        f"lines-{len(points)}",
        f"Which labelings of {words.lower()} points can a line realize?",
        f"{words} points in the plane with each labeling, and the two sides of a line that separates the labels. "
        f"Lines realize {realized} of the {count} labelings. {end}",
        corners,
        Axis("x", "x\u2081"),
        Axis("y", "x\u2082"),
        mark=Polygons("shape", "class", "label"),
        facet="labels" if few else None,
        slider=None if few else Axis("labels", "labels of the points"),
        claims=("vc-affine",),
        dots=dots,
    )


def _sides(line: Sequence[float] | None) -> dict[str, list[Point]]:
    """The parts of the picture on both sides of a line, as polygons; without a line, a corner, which is not seen."""
    if line is None:
        return {CLASSES[True]: [SQUARE[0]]}
    other = [-number for number in line]
    parts = {CLASSES[True]: _clipped(SQUARE, line), CLASSES[False]: _clipped(SQUARE, other)}
    return {side: shape for side, shape in parts.items() if shape}


def _clipped(shape: Sequence[Point], line: Sequence[float]) -> list[Point]:
    """The part of a convex polygon where w_1 x + w_2 y + b is positive."""
    found = []
    for (x, y), (next_x, next_y) in zip(shape, (*shape[1:], shape[0]), strict=True):
        height, other = (line[0] * at + line[1] * up + line[2] for at, up in ((x, y), (next_x, next_y)))
        found += [(x, y)] if height > 0 else []
        if (height > 0) != (other > 0):  # the line crosses this side
            t = height / (height - other)
            found.append((round(x + t * (next_x - x), 4), round(y + t * (next_y - y), 4)))
    return found


def _wave(waves: list[dict[str, Any]]) -> Figure:
    ticks = np.linspace(0, 1.1, WAVE)
    # One row per label, too short to be seen: labels come first, with their colors of the other figures.
    curves = [{"x": 0.0, "y": 0.0, "labels": waves[0]["name"], "what": label} for label in CLASSES.values()]
    dots: list[dict[str, Any]] = []
    for one in waves:
        heights = np.sin(one["frequency"] * ticks)
        pairs = zip(ticks.round(4).tolist(), heights.round(4).tolist(), strict=True)
        curves += [{"x": x, "y": y, "labels": one["name"], "what": "sin(a x)"} for x, y in pairs]
        points = zip(ON_A_LINE, np.sin(one["frequency"] * np.array(ON_A_LINE)), one["labels"], strict=True)
        dots += [{"x": x, "y": float(y), "labels": one["name"], "what": CLASSES[label]} for x, y, label in points]
    caption = (
        "The wave sin(a x) at four points on a line; move the slider to change their labels. A point has the label + "
        "where the wave is above zero. One parameter, the frequency a, is enough for all 16 labelings; a line in the "
        "plane has three parameters and misses two of them."
    )
    return Figure(
        "waves",
        "A sine wave for every labeling of four points on a line",
        caption,
        curves,
        Axis("x", "x"),
        Axis("y", "height of the wave"),
        mark=Line(points=False),
        series="what",
        series_title="shown",
        slider=Axis("labels", "labels of the points"),
        rules=[Rule(0.0, "zero")],
        claims=("vc-infinite",),
        dots=dots,
    )


LESSON = Lesson(
    figures=figures,
    hero="labelings",
    findings=(
        Finding(
            ("vc-affine",),
            "Lines can label three points of the plane in every way, but never four.",
            "The counts contradict the theorem that lines shatter three points, but never four.",
            "Whether lines shatter exactly three points of the plane is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Is the bound on a small network's VC dimension below its 1,797 training digits?",
            "truerisk measure --model mlp:64 --only parameters,vc-dimension",
        ),
        Question(
            "Lines cannot shatter four points. Do large networks fit random labels of a thousand images?",
            "truerisk lab run random-labels",
        ),
        Question(
            "Shattering needs one suitable set of points. How many random signs do networks fit on real images?",
            "truerisk lab run rademacher",
        ),
    ),
    formulas=(
        Formula(
            r"\mathrm{VC}(H) = \max \{ m : \Pi_H(m) = 2^m \}",
            "The growth function Pi is the largest number of labelings of m points that the family H realizes. The VC "
            "dimension is the largest m at which Pi counts all labelings.",
        ),
        Formula(
            r"C(m, d) = 2 \sum_{k=0}^{d} \binom{m-1}{k}",
            "Cover's count of the labelings of m points in general position in d dimensions that hyperplanes realize; "
            "this is half of all labelings at m = 2(d + 1).",
        ),
    ),
)
