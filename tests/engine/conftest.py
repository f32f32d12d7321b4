"""A toy experiment as a user would write one: a file, run by any engine."""

import textwrap

import pytest

TOY = '''
"""Uniform random numbers, slowly."""

import os
import time

import torch

from truerisk.lab import OURS, Axis, Checked, Exact, Experiment, Figure, Lesson

TASKS = {tasks}
SLEEP = {sleep}


def grid():
    return [{{"number": number, "log": {log!r}}} for number in range(TASKS)]


def task(setting):
    """Draw a number; leave a line in the log, for tests that count."""
    with open(setting["log"], "a") as log:
        log.write(f"{{setting['number']}} {{os.getpid()}}\\n")
    if SLEEP and os.path.exists(setting["log"] + ".slow"):
        time.sleep(SLEEP)
    {extra}
    return {{"drawn": torch.rand(3).tolist(), "threads_used": torch.get_num_threads()}}


def everything(rows):
    return Checked(True, f"{{len(rows.column('drawn'))}} numbers")


EXPERIMENT = Experiment(
    name="toy",
    title="Random numbers",
    about="Draws random numbers.",
    papers=(),
    grids={{"quick": grid}},
    task=task,
    claims=(
        Exact("all", "All are there.", everything, OURS, "all"),
    ),
    lesson=Lesson(
        lambda rows: [
            Figure(
                "numbers",
                "Numbers",
                "Each run's first number.",
                [{{"number": row["number"], "first": row["drawn"][0]}} for row in rows],
                Axis("number", "run"),
                Axis("first", "number drawn"),
            )
        ]
    ),
)
'''


@pytest.fixture
def toy(tmp_path):
    """``toy(...)`` writes the experiment and returns its path; ``toy.ran()`` lists (number, process) of every start.

    Tasks that sleep no longer do so after ``toy.hurry()``.
    """

    class Toy:
        log = tmp_path / "log.txt"
        path = tmp_path / "toy.py"
        slow = tmp_path / "log.txt.slow"

        def __call__(self, tasks=12, sleep=0.0, extra="pass"):
            extra = textwrap.indent(textwrap.dedent(extra), "    ").strip()
            self.slow.touch()
            self.path.write_text(TOY.format(tasks=tasks, sleep=sleep, log=str(self.log), extra=extra))
            return str(self.path)

        def hurry(self):
            self.slow.unlink()

        def ran(self):
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            return [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]

    return Toy()
