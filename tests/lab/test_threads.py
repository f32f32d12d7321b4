"""Verdicts do not depend on the number of threads: neither of the environment, nor of a task."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from truerisk.lab import load, run

CODE = """
import json
from truerisk.engine.call import call
from truerisk.engine import fingerprint
from truerisk.lab import load
experiment = load("random-labels")
setting = next(s for s in experiment.settings("smoke") if s["model"] == "mlp-1x512" and s["p"] == 1)
print(json.dumps(call(experiment.task, setting, fingerprint(experiment.task)).record))
"""


@pytest.mark.long
def test_a_task_gives_the_same_bits_whatever_the_environment_allows():
    def record(threads):
        env = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env, check=True)
        return json.loads(done.stdout)

    assert record("1") == record("2")


@pytest.mark.long
def test_one_and_two_threads_give_the_same_verdicts(tmp_path):
    """The smallest network of random-labels at quick scale, with seeds that no claim is judged on (2 to 4)."""
    experiment = load("random-labels")
    settings = [
        {**setting, "seed": setting["seed"] - 18}
        for setting in experiment.settings("quick")
        if setting["model"] == "mlp-1x512" and setting["seed"] < 23
    ]
    words = []
    for threads in (1, 2):
        grid = [{**setting, "threads": threads} for setting in settings]
        some = replace(experiment, grids={"quick": lambda grid=grid: grid}, committed=tmp_path / "none.json")
        result = run(some, engine="inline", out=tmp_path / str(threads))
        words.append({verdict.claim.name: verdict.word for verdict in result.verdicts})
    assert words[0] == words[1]
    assert {"reproduced", "not reproduced", "no verdict"} & set(words[0].values())
