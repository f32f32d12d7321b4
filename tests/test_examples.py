"""The examples run as they stand, and end well."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LAB = ("neighbours.py", "own_experiment.py")
ALONE = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in LAB)

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", ALONE)
def test_an_example_runs(name, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout
