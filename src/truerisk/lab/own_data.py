"""An experiment on a user's own data set: its grid, with sizes that the data set has."""

from __future__ import annotations

import re
from dataclasses import replace

from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Experiment, Setting

TEST_SHARE = 1 / 3  # of a small data set
FEWEST = 30  # examples: below, an error rate says nothing
DIGITS = 8  # of a hash, in the name of a page


def on_own_data(experiment: Experiment, scale: str, name: str) -> tuple[Experiment, str]:
    """The experiment with a grid for this data set at this scale, and a label for its page.

    Each setting names the data with their hash, so that an edited file is another setting. Nothing was committed for
    this data set, so the claims' commitments do not apply.
    """
    if experiment.own_data is None:
        raise TrueriskError(
            f"{experiment.name} takes no --data; leave it out, or run an experiment that `truerisk lab list` marks."
        )
    data = load(name)
    if len(data) < FEWEST:
        raise TrueriskError(f"{name} has {len(data)} examples, but must have at least {FEWEST}; give more.")
    digest = data.sha256
    planned = experiment.settings(scale)
    found = [experiment.own_data(setting, data) for setting in planned]
    settings = [{**setting, "data": name, "data_sha256": digest} for setting in found if setting is not None]
    if not settings:
        raise TrueriskError(f"{experiment.name} has no run that makes sense on {name}; try random-labels.")
    stem = re.sub(r"[^A-Za-z0-9]+", "-", name.rpartition("/")[2]).strip("-")[:40]
    # No file lies below a file: nothing was committed for this dataset.
    left_out = frozenset(field for setting in planned for field in setting)
    own = replace(
        experiment, grids={scale: lambda: settings}, committed=experiment.committed / "none", left_out=left_out
    )
    return own, f"{stem}-{digest[:DIGITS]}"


def fit_sizes(setting: Setting, data: Data) -> Setting:
    """The setting with as many of its ``n`` and ``n_test`` examples as the data set has.

    >>> from truerisk.data import load
    >>> fit_sizes({"n": 5000, "n_test": 5000}, load("digits"))
    {'n': 1198, 'n_test': 599}
    """
    n_test = min(setting["n_test"], int(TEST_SHARE * len(data)))
    return {**setting, "n": min(setting["n"], len(data) - n_test), "n_test": n_test}


def refuse_alike(data: Data) -> None:
    """Refuse a dataset whose inputs are all equal, for experiments that divide by their distances."""
    if bool((data.X[:1] == data.X).all()):
        raise TrueriskError(f"{data.name}: all inputs are alike; give inputs that differ.")
