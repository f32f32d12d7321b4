"""The lab: classic experiments on memorization and generalization, their claims checked."""

from truerisk.lab.catalogue import load, names
from truerisk.lab.experiment import SCALES, Claim, Experiment, Outcome, Verdict
from truerisk.lab.figure import Axis, Figure, Rule, Table
from truerisk.lab.result import Failure, Result
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.runner import run

__all__ = [
    "SCALES",
    "Axis",
    "Claim",
    "Experiment",
    "Failure",
    "Figure",
    "IncompleteError",
    "Outcome",
    "Result",
    "Rows",
    "Rule",
    "Table",
    "Verdict",
    "load",
    "names",
    "run",
]
