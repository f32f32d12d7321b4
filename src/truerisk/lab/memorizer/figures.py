"""The figures and tables of `memorizer`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.memorizer.runs import LENGTHS
from truerisk.lab.rows import Rows


def figures(rows: Rows) -> Sequence[Exhibit]:
    return [_errors(rows), _weights(rows), _generalization(rows), _fragility(rows), _depths(rows)]


def _present(rows: Rows, *names: str, **fields: Any) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The finished runs divided by these fields; groups of which no run is finished are left out."""
    groups = rows.where(**fields).groups(*names)
    return [(dict(zip(names, key, strict=True)), some.present) for key, some in groups if some.present]


def _errors(rows: Rows) -> Figure:
    marks: list[dict[str, Cell]] = []
    for key, some in _present(rows, "data", "n", "precision", "kinks", layers=1, labels="random"):
        worst = max(row["max_error"] for row in some)
        where = "kinks on the points" if key["kinks"] == "points" else "kinks in the middle"
        how = f"{key['precision']}, {where}"
        marks.append({"data": key["data"], "n": key["n"], "error": worst if worst > 0 else None, "how": how})
    return Figure(
        "errors",
        "How exactly are random labels fitted?",
        "The largest difference between the network's outputs and the labels (0 to 9) on its own sample; the worst of "
        "all seeds. In exact arithmetic all would be zero. Above one half, labels come out wrong. Look at how the "
        "error grows with the number of points, in single and double precision.",
        marks,
        Axis("n", "number of points", log=True),
        Axis("error", "largest error", log=True),
        series="how",
        series_title="arithmetic",
        facet="data",
        rules=[Rule(0.5, "labels change")],
    )


def _weights(rows: Rows) -> Figure:
    fields = {"layers": 1, "labels": "random", "precision": "float64", "kinks": "points"}
    marks: list[dict[str, Cell]] = [
        {**key, "largest": fmean(row["largest_weight"] for row in some)}
        for key, some in _present(rows, "data", "n", **fields)
    ]
    return Figure(
        "weights",
        "The price: large weights",
        "The largest weight of the network against the number of points, the mean over seeds. A weight is a change of "
        "slope; two labels that differ by 1 on points that are close together need a steep line.",
        marks,
        Axis("n", "number of points", log=True),
        Axis("largest", "largest weight", log=True),
        series="data",
        series_title="data",
    )


def _generalization(rows: Rows) -> Figure:
    marks: list[dict[str, Cell]] = []
    fields = {"layers": 1, "precision": "float64", "kinks": "points", "labels": ["true", "random"]}
    for key, some in _present(rows, "data", "labels", "n", **fields):
        for name, who in (("test_error", "memorizer"), ("neighbour_test_error", "nearest neighbour")):
            error = fmean(row[name] for row in some)
            case = f"{key['data']}, {key['labels']} labels"
            marks.append({"case": case, "n": key["n"], "who": who, "error": error})
    return Figure(
        "test-errors",
        "Is fitting the same as learning?",
        "The test error of the network beside that of the nearest neighbour, which fits all training labels too. "
        "Where labels are true, compare the two: both memorize, but similar inputs get similar answers from only one "
        "of them. Where labels are random, nothing can be learned.",
        marks,
        Axis("n", "number of points", log=True),
        Axis("error", "test error", percent=True, zero=True),
        series="who",
        series_title="classifier",
        facet="case",
        rules=[Rule(0.9, "chance")],
    )


def _fragility(rows: Rows) -> Figure:
    marks: list[dict[str, Cell]] = []
    fields = {"layers": 1, "precision": "float64", "kinks": "points", "labels": "random"}
    largest = {
        data: max((row["n"] for row in rows.where(data=data, **fields)), default=None) for data in rows.values("data")
    }
    for key, some in _present(rows, "data", "n", **fields):
        if key["n"] != largest[key["data"]]:
            continue
        for name, who in (("kept", "memorizer"), ("neighbour_kept", "nearest neighbour")):
            means = [fmean(values) for values in zip(*(row[name] for row in some), strict=True)]
            case = f"{key['data']}, n = {key['n']}"
            for length, share in zip(LENGTHS, means, strict=True):
                marks.append({"case": case, "who": who, "length": length, "kept": share})
    return Figure(
        "fragility",
        "How far may an input be moved?",
        "Training points with random labels are moved in random directions. The axis is the length of the move, in "
        "units of the typical distance to the nearest other point; the height is the share of predictions that are "
        "still right. See at which length each classifier breaks.",
        marks,
        Axis("length", "length of the move", log=True),
        Axis("kept", "predictions still right", percent=True, zero=True),
        series="who",
        series_title="classifier",
        facet="case",
    )


def _depths(rows: Rows) -> Table:
    cells: list[tuple[Cell, ...]] = []
    sizes = {row["n"] for row in rows if row["layers"] > 1}
    fields = {"labels": "random", "precision": "float64", "kinks": "points", "n": sizes}
    deep = {row["data"] for row in rows if row["layers"] > 1}
    for key, some in _present(rows, "data", "n", "layers", data=deep, **fields):
        first = some[0]
        worst = max(row["max_error"] for row in some)
        cells.append(
            (key["data"], key["n"], first["inputs"], key["layers"], first["width"], first["weights"], f"{worst:.1e}")
        )
    caption = (
        "The same function by networks of different depth. Weights are counted as numbers that are not zero, biases "
        "included; in the network with one hidden layer all units share their direction, which is counted once."
    )
    columns = ("data", "points", "inputs", "hidden layers", "largest width", "weights", "largest error")
    return Table("depths", "Deep and narrow instead of flat and wide", caption, columns, cells)
