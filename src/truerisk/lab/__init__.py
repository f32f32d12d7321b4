"""The lab: classic experiments on memorization and generalization, their claims checked."""

from truerisk.lab.catalogue import load, names
from truerisk.lab.claim import OURS, Checked, Claim, Exact, Paper, Source
from truerisk.lab.effect import Above
from truerisk.lab.experiment import SEEDS, Experiment, product, unsettled
from truerisk.lab.figure import Axis, Figure, Images, Linked, Rule, Strip, Switch, Table, Tile
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import (
    Bars,
    Contour,
    Histogram,
    Line,
    Map,
    Path,
    Points,
    Polygons,
    Regions,
    Slope,
    Surface,
)
from truerisk.lab.result import Failure, Result
from truerisk.lab.rows import DivergedError, IncompleteError, Rows
from truerisk.lab.runner import run
from truerisk.lab.scales import SCALES
from truerisk.lab.units import (
    CORRELATION,
    NATS,
    PERCENT,
    PLAIN,
    POINTS,
    STEPS,
    TIMES,
    Region,
    Unit,
    at_least,
    at_most,
    between,
)
from truerisk.lab.verdict import Verdict

__all__ = [
    "CORRELATION",
    "NATS",
    "OURS",
    "PERCENT",
    "PLAIN",
    "POINTS",
    "SCALES",
    "SEEDS",
    "STEPS",
    "TIMES",
    "Above",
    "Axis",
    "Bars",
    "Checked",
    "Claim",
    "Contour",
    "DivergedError",
    "Exact",
    "Experiment",
    "Failure",
    "Figure",
    "Finding",
    "Formula",
    "Histogram",
    "Images",
    "IncompleteError",
    "Lesson",
    "Line",
    "Linked",
    "Map",
    "Paper",
    "Path",
    "Points",
    "Polygons",
    "Question",
    "Region",
    "Regions",
    "Result",
    "Rows",
    "Rule",
    "Slope",
    "Source",
    "Strip",
    "Surface",
    "Switch",
    "Table",
    "Tile",
    "Unit",
    "Verdict",
    "at_least",
    "at_most",
    "between",
    "load",
    "names",
    "product",
    "run",
    "unsettled",
]
