"""Arpit et al. 2017, "A Closer Look at Memorization in Deep Networks": five looks at how noise is learned otherwise.

Each part has a module of its own, with its settings, task, claims and figures; this one puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from truerisk.lab.closer_look.capacity import CAPACITY_CLAIMS, capacity_figures, capacity_grid, capacity_task
from truerisk.lab.closer_look.critical import CRITICAL_CLAIMS, critical_figures, critical_grid, critical_task
from truerisk.lab.closer_look.easy import EASY_CLAIMS, easy_figures, easy_grid, easy_task
from truerisk.lab.closer_look.regularizers import (
    REGULARIZER_CLAIMS,
    regularizers_figures,
    regularizers_grid,
    regularizers_task,
)
from truerisk.lab.closer_look.sensitivity import (
    SENSITIVITY_CLAIMS,
    sensitivity_figures,
    sensitivity_grid,
    sensitivity_task,
)
from truerisk.lab.experiment import SCALES, Experiment, Record, Setting
from truerisk.lab.figure import Exhibit
from truerisk.lab.rows import Rows

TASKS: dict[str, Callable[[Setting], Record]] = {
    "easy examples": easy_task,
    "loss sensitivity": sensitivity_task,
    "loss sensitivity of classes": sensitivity_task,
    "capacity": capacity_task,
    "critical samples": critical_task,
    "regularizers": regularizers_task,
}


# seconds of a typical task at quick scale
COSTS = {
    "easy examples": 2.0,
    "loss sensitivity": 1.5,
    "loss sensitivity of classes": 4.0,
    "capacity": 1.0,
    "critical samples": 1.5,
    "regularizers": 1.0,
}


def task(setting: Setting) -> Record:
    return TASKS[setting["part"]](setting)


def grid(scale: str) -> list[Setting]:
    parts = (easy_grid, sensitivity_grid, capacity_grid, critical_grid, regularizers_grid)
    return [setting for part in parts for setting in part(scale)]


def figures(rows: Rows) -> list[Exhibit]:
    parts = (easy_figures, sensitivity_figures, capacity_figures, critical_figures, regularizers_figures)
    return [figure for part in parts for figure in part(rows)]


EXPERIMENT = Experiment(
    name="closer-look",
    title="A closer look at memorization",
    about=(
        "A network that can fit random labels could also learn real data by heart. Does it? Arpit et al. look at how "
        "the same network behaves on real data, on random inputs and on random labels, and find that it does not do "
        "the same thing: real data have easy examples that every network learns first, few examples decide most of the "
        "loss, capacity and data size matter less, the decision function stays simpler, and some regularizers, dropout "
        "above all, take away the memory and leave the learning. This experiment repeats these looks in small."
    ),
    papers=("Arpit et al. 2017, A Closer Look at Memorization in Deep Networks, arXiv:1706.05394",),
    grids={scale: partial(grid, scale) for scale in SCALES},
    task=task,
    claims=(*EASY_CLAIMS, *SENSITIVITY_CLAIMS, *CAPACITY_CLAIMS, *CRITICAL_CLAIMS, *REGULARIZER_CLAIMS),
    figures=figures,
    cost=lambda setting: COSTS[setting["part"]],
)
