"""The effects of `vanishing-gradients`: from the runs of one seed to a number, or to one for each rival."""

from __future__ import annotations

from truerisk.lab.depth_runs import CELLS
from truerisk.lab.rows import Rows

SMALL = ("sigmoid, Xavier", "tanh, small start", "ReLU, small start")
KEPT = ("tanh, Xavier", "ReLU, He")
TRAINED = ("ReLU, Xavier", "ReLU, He", "ReLU, He, batch norm, skips")
SHORT, LONG = 10, 50  # steps of sequences to remember
AT = 32  # steps at which derivatives are compared


def at_depth(runs: Rows, name: str, arm: str) -> float:
    """A ratio at the deepest network."""
    return float(runs.where(arm=arm).one(name)[-1])


def small_starts(runs: Rows) -> dict[str, float]:
    return {arm: at_depth(runs, "weights", arm) for arm in SMALL}


def kept_signals(runs: Rows) -> dict[str, float]:
    return {arm: at_depth(runs, "signals", arm) for arm in KEPT}


def per_layer(runs: Rows) -> float:
    """By which factor the signal changes in each layer on its way back."""
    depths = runs.one("depths")
    return float(runs.one("signals")[-1] ** (1 / (depths[-1] - 1)))


def skip_weights(runs: Rows) -> float:
    return at_depth(runs, "weights", "ReLU, small start, skips") / at_depth(runs, "weights", "ReLU, small start")


def start_ratio(runs: Rows) -> float:
    return float(runs.where(arm="ReLU, Xavier").one("loss") / runs.where(arm="ReLU, He").one("loss"))


def norm_ratio(runs: Rows) -> float:
    return float(runs.where(arm="ReLU, He").one("loss") / runs.where(arm=TRAINED[-1]).one("loss"))


def depth_gap(runs: Rows, residual: bool) -> float:
    """Training error of 34 layers minus that of 18."""
    some = runs.where(residual=residual)
    return float(some.where(depth=34).one("train_error") - some.where(depth=18).one("train_error"))


def plain_gap(runs: Rows) -> float:
    return depth_gap(runs, residual=False)


def residual_gap(runs: Rows) -> float:
    return depth_gap(runs, residual=True)


def removed_gap(runs: Rows) -> float:
    return plain_gap(runs) - residual_gap(runs)


def reach(runs: Rows) -> float:
    return float(runs.where(residual=False, depth=34).one("reach"))


def derivative(runs: Rows, cell: str) -> float:
    found = runs.where(cell=cell)
    return float(10 ** found.one("logs")[found.one("times").index(AT)])


def forgotten(runs: Rows) -> float:
    return derivative(runs, "tanh")


def longer_memory(runs: Rows) -> dict[str, float]:
    return {cell: derivative(runs, cell) / derivative(runs, "tanh") for cell in CELLS if cell != "tanh"}


def memory_gain(runs: Rows) -> float:
    errors = {cell: runs.where(cell=cell).one("test_error") for cell in ("tanh", "LSTM, open gates")}
    return float(errors["tanh"] - errors["LSTM, open gates"])
