"""What holds for every experiment, at every scale, without running it."""

import pytest

from truerisk.data import catalogue
from truerisk.engine import fingerprint, key
from truerisk.lab import SCALES, load, names

KNOWN = {row["name"] for row in catalogue()} | {"gaussian"}  # the last: points that an experiment draws itself


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
            assert {setting["data"] for setting in settings if "data" in setting} <= {"digits", "mnist1d", "gaussian"}


@pytest.mark.parametrize("name", names())
def test_claims_are_complete(name):
    experiment = load(name)
    assert len({claim.name for claim in experiment.claims}) == len(experiment.claims) >= 3
    for claim in experiment.claims:
        assert set(claim.scales) <= set(SCALES)
        assert claim.statement.endswith(".")
        assert claim.threshold
        assert not claim.threshold.endswith((".", ","))
        assert claim.published
        assert claim.source
    assert experiment.about.count(".") >= 2
    assert experiment.papers


def test_tasks_have_different_code():
    assert len({fingerprint(load(name).task) for name in names()}) == len(names())
