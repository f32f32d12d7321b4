"""What holds for every experiment, at every scale, without running it."""

from pathlib import Path

import numpy as np
import pytest

import truerisk.lab.experiments
from truerisk.data import catalogue
from truerisk.engine import fingerprint, key
from truerisk.errors import TrueriskError
from truerisk.lab import SCALES, Claim, load, names, unsettled
from truerisk.lab.entries import ENTRIES
from truerisk.lab.own_data import on_own_data

FOLDER = Path(truerisk.lab.experiments.__file__).parent
KNOWN = {row["name"] for row in catalogue()} | {"gaussian"}  # the last: points that an experiment draws itself
BUILT_IN = {"digits", "mnist1d", "gaussian", "moons", "circles", "spirals"}
MOST_LINES = 300


@pytest.mark.parametrize("name", names())
def test_grids_are_sound(name):
    experiment = load(name)
    assert experiment.name == name
    assert {"smoke", "quick", "paper"} <= set(experiment.grids) <= set(SCALES)
    for scale in experiment.grids:
        settings = experiment.settings(scale)
        assert settings == experiment.settings(scale)
        assert (
            len({key(name, "1", setting) for setting in settings}) == len(settings) > 0
        )  # plain JSON, no setting twice
        assert {setting["data"] for setting in settings if "data" in setting} <= KNOWN
        assert all(experiment.cost(setting) > 0 for setting in settings)
        if scale in ("smoke", "quick"):  # nothing has to be fetched
            assert {setting["data"] for setting in settings if "data" in setting} <= BUILT_IN


@pytest.mark.parametrize("name", names())
def test_the_list_shows_what_there_is(name):
    """`truerisk lab list` reads the catalogue, which loads no experiment."""
    experiment, entry = load(name), ENTRIES[name]
    sizes = {scale: (len(experiment.settings(scale)), len(experiment.speaking(scale))) for scale in experiment.grids}
    assert entry.sizes == sizes
    assert entry.title == experiment.title


@pytest.mark.parametrize("name", names())
def test_claims_are_complete(name):
    experiment = load(name)
    assert len(experiment.claims) >= 2
    for claim in experiment.claims:
        assert set(claim.scales) & set(experiment.grids)
        assert "smoke" not in claim.scales
        assert claim.published or claim.whose.kind == "ours"
    assert experiment.about.count(".") >= 2
    assert experiment.papers


@pytest.mark.parametrize("name", names())
def test_the_grid_can_settle_every_claim(name):
    """Five seeds in each cell at quick scale, three above: with fewer an interval says next to nothing."""
    experiment = load(name)
    assert {scale: unsettled(experiment, scale) for scale in experiment.grids if scale != "smoke"} == {
        scale: {} for scale in experiment.grids if scale != "smoke"
    }


@pytest.mark.parametrize("name", names())
def test_pilots_are_judged_on_seeds_of_their_own(name):
    """Trials, and all runs before 2026-11-18, used seeds below 20."""
    experiment = load(name)
    for claim in experiment.claims:
        if isinstance(claim, Claim) and "quick" in claim.scales:
            assert min(setting["seed"] for setting in experiment.settings("quick") if "seed" in setting) >= 20


def test_one_file_for_each_experiment():
    for folder in (FOLDER, FOLDER.with_name("lessons")):
        files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        assert files == {name.replace("-", "_") for name in names()}
        for path in folder.glob("*.py"):
            assert path.read_text().count("\n") <= MOST_LINES, path.name


def test_chapters_are_not_torn_apart():
    chapters = [entry.chapter for entry in ENTRIES.values()]
    turns = [chapter for i, chapter in enumerate(chapters) if i == 0 or chapters[i - 1] != chapter]
    assert len(turns) == len(set(turns))


def test_tasks_have_different_code():
    assert len({fingerprint(load(name).task) for name in names()}) == len(names())


@pytest.mark.parametrize("name", names())
def test_the_list_marks_experiments_that_take_data(name):
    assert ENTRIES[name].own_data == (load(name).own_data is not None)


@pytest.mark.parametrize("name", [name for name in names() if ENTRIES[name].own_data])
def test_a_dataset_of_your_own_is_taken_where_it_leaves_kinds_of_run_out(name):
    for scale in ("smoke", "quick"):
        own, _ = on_own_data(load(name), scale, "digits")
        own.check(scale)


@pytest.mark.parametrize("name", ["kernels", "infinite-width", "norm-capacity"])
def test_inputs_that_are_all_alike_are_refused(name, tmp_path):
    np.savez(tmp_path / "alike.npz", X=np.ones((120, 4)), y=np.arange(120) % 2)
    with pytest.raises(TrueriskError, match="all inputs are alike"):
        on_own_data(load(name), "smoke", str(tmp_path / "alike.npz"))
