"""The figures and tables of `kernel-interpolation`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from truerisk.lab.figure import Axis, Exhibit, Figure, Rule, Table, percent
from truerisk.lab.rows import Rows

STARTS = {0.0: "zero", 1.0: "random, as long as the solution"}


def figures(rows: Rows) -> Sequence[Exhibit]:
    out: list[Exhibit] = [_error_figure(rows), _norm_figure(rows), _details(rows)]
    if any(row["kind"] == "sgd" for row in rows):
        out.append(_sgd_figure(rows))
    if any(row["kind"] == "rank" for row in rows):
        out.append(_rank_table(rows))
    return out


def _where(row: dict[str, Any]) -> str:
    return f"{row['data']}, n = {row['n']}"


def _error_figure(rows: Rows) -> Figure:
    fields = ("data", "n", "kernel", "ridge", "tuned", "noise")
    marks = []
    for key, some in rows.where(kind="kernel").groups(*fields):
        errors = [row["test_error"] for row in some]
        if not errors:
            continue
        row = dict(zip(fields, key, strict=True))
        how = (
            "ridge"
            if row["ridge"] == "validated"
            else ("no ridge" if row["tuned"] == "true labels" else "no ridge, tuned on noise")
        )
        mark = {"where": _where(row), "noise": row["noise"], "how": f"{row['kernel']}, {how}", "error": fmean(errors)}
        marks.append({**mark, "low": min(errors), "high": max(errors)})
    return Figure(
        "errors",
        "Test error of kernel interpolation, by label noise",
        "Each label was replaced with the given probability by a random class; test labels are true. Without a ridge "
        "the system asks for all training labels, the wrong ones too. Compare the kernels, each with and without a "
        "ridge: at the left edge, where labels are true, and to the right, where fitting them all means fitting noise. "
        "Bands span the seeds. At noise the bandwidth without ridge comes from true labels or, where it says so, from "
        "the noisy ones; the ridge and its bandwidth come from the noisy ones.",
        marks,
        Axis("noise", "labels replaced", percent=True),
        Axis("error", "test error", percent=True, zero=True),
        series="how",
        series_title="kernel",
        facet="where",
        low="low",
        high="high",
        rules=[Rule(0.9, "chance")],
    )


def _norm_figure(rows: Rows) -> Figure:
    some = rows.where(kind="kernel", ridge="none", tuned="true labels")
    marks = [
        {
            "where": _where(row),
            "norm": row["norm"],
            "error": row["test_error"],
            "kernel": row["kernel"],
        }
        for row in some
    ]
    return Figure(
        "norms",
        "Does the norm predict the error?",
        "Each point is an interpolating function: its norm in the kernel's own space, sqrt(y^T K^-1 y) summed over "
        "the classes, against its test error. Points of one colour differ in label noise and seed. If the norm "
        "predicted the error across kernels, the colours would lie on one rising curve.",
        marks,
        Axis("norm", "norm", log=True),
        Axis("error", "test error", percent=True, zero=True),
        mark="points",
        series="kernel",
        series_title="kernel",
        facet="where",
    )


def _sgd_figure(rows: Rows) -> Figure:
    marks = [
        {
            "step": step,
            "distance": distance,
            "start": STARTS.get(row["start"], f"random, {row['start']:g} times as long"),
        }
        for row in rows.where(kind="sgd")
        for step, distance in zip(row["at_steps"], row["distances"], strict=True)
        if step > 0 and distance > 0
    ]
    return Figure(
        "sgd",
        "Where SGD lands",
        "The distance of the weights to the solution of smallest norm, in units of its norm, during SGD on a linear "
        "model with more weights than examples. Look at where the curves end: from zero the distance should go to "
        "zero; from elsewhere what remains is the part of the start that no example can reach.",
        marks,
        Axis("step", "step", log=True),
        Axis("distance", "relative distance", log=True),
        series="start",
        series_title="start",
    )


def _details(rows: Rows) -> Table:
    columns = ("where", "kernel", "ridge", "noise", "bandwidth", "smallest pivot", "added", "norm", "test error")
    cells = [
        (
            _where(row),
            row["kernel"],
            f"{row['ridge_value']:g}",
            percent(row["noise"], 0),
            "none" if row["bandwidth"] is None else f"{row['bandwidth']:.2f} ({row['multiple']:g} medians)",
            f"{row['smallest_pivot']:.1e}",
            f"{row['jitter']:g}",
            f"{row['norm']:.1f}",
            percent(row["test_error"], 2),
        )
        for row in rows.where(kind="kernel", seed=0)
    ]
    caption = (
        "What was chosen on held-out training examples, and how well conditioned the system was: the smallest pivot of "
        "the Cholesky factorization, and what had to be added to the diagonal for it to succeed. One seed."
    )
    return Table("details", "Bandwidths, ridges and norms", caption, columns, cells)


def _rank_table(rows: Rows) -> Table:
    cells = [
        (
            row["data"],
            row["n"],
            row["inputs"],
            row["rank"],
            percent(row["error_on_true_labels"]),
            percent(row["error_on_random_labels"]),
        )
        for row in rows.where(kind="rank")
    ]
    caption = (
        "A linear model on raw inputs has a Gram matrix whose rank is at most the number of inputs. With more "
        "examples than that it cannot fit all labels, however the system is solved."
    )
    columns = ("data", "examples", "inputs", "rank", "true labels missed in training", "random labels missed")
    return Table("ranks", "The linear Gram matrix", caption, columns, cells)
