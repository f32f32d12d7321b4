"""Write ``docs/predictiveness.csv`` from a run of the zoo: ``python -m benchmarks.predictiveness_table runs``."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

from truerisk.atomic import write_atomically
from truerisk.engine import Grid, Store, stored
from truerisk.lab.catalogue import load
from truerisk.lab.experiments.predictiveness import predictions
from truerisk.lab.rows import Rows
from truerisk.measures import MEASURES
from truerisk.measures.prediction import rank

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS = ("measure", "family", "invariant", "tau", "granulated tau", "information", "sign error", "worst", "where")


def write(runs: str) -> tuple[Path, int, int]:
    """The file, how many networks it rests on, and how many were trained."""
    experiment = load("predictiveness")
    grid = Grid(experiment.name, experiment.task, experiment.settings("medium"), experiment.version, experiment.cost)
    found = [{**done.setting, **done.record} for done in stored(grid, Store(runs))]
    networks = predictions(Rows(found))
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    for score in rank(networks):
        entry = MEASURES[score.name]
        numbers = [score.tau, score.granulated, score.information, score.sign_error, score.worst_error]
        cells = ["" if number is None else f"{number:.2f}" for number in numbers]
        out.writerow([entry.name, entry.family, "yes" if entry.invariant else "no", *cells, score.worst_environment])
    path = DOCS / "predictiveness.csv"
    write_atomically(path, text.getvalue().encode())
    return path, len(networks), len(found)


if __name__ == "__main__":
    path, fitted, trained = write(sys.argv[1] if len(sys.argv) > 1 else "runs")
    print(f"{path}: {fitted} of {trained} networks reached the common loss")
