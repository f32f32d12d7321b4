"""The lab: classic experiments on memorization and generalization, their claims checked."""

from truerisk.lab.experiment import SCALES, Claim, Experiment, Outcome, Verdict
from truerisk.lab.figure import Axis, Figure, Rule, Table
from truerisk.lab.rows import IncompleteError, Rows

__all__ = [
    "SCALES",
    "Axis",
    "Claim",
    "Experiment",
    "Figure",
    "IncompleteError",
    "Outcome",
    "Rows",
    "Rule",
    "Table",
    "Verdict",
]
