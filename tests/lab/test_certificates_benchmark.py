"""The experiment file `benchmarks/certificates.py`: stored runs stay valid, the effect is the smallest bound."""

import json
from pathlib import Path

import pytest

from truerisk.engine import Grid, Store, pending
from truerisk.lab import Rows, load, unsettled
from truerisk.lab.verdict import judge

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records"
EXPERIMENT = load(str(ROOT / "benchmarks" / "certificates.py"))
CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}


def test_the_code_is_that_of_the_stored_runs():
    """If this fails, code of the task changed, and hours of runs are lost: undo that."""
    files = list((RECORDS / EXPERIMENT.name / "records").glob("*.json"))
    versions = {json.loads(file.read_text(encoding="utf-8"))["version"] for file in files}
    assert versions == {f"{EXPERIMENT.version}-{EXPERIMENT.task.fingerprint}"}
    grid = Grid(EXPERIMENT.name, EXPERIMENT.task, EXPERIMENT.settings("paper"), EXPERIMENT.version)
    assert pending(grid, Store(RECORDS)) == []


def rows(bounds, data="mnist", part="split"):
    """Runs of three seeds: by method, a bound that differs a little from seed to seed."""
    return Rows(
        {
            "data": data,
            "part": part,
            "seed": seed,
            "certificates": [{"method": m, "risk_bound": b + 1e-4 * seed} for m, b in bounds.items()],
        }
        for seed in range(3)
    )


def test_the_effect_is_the_smallest_bound_of_a_seed():
    one = rows({"hold-out": 0.006, "pac-bayes-kl": 0.008}).where(seed=0)
    assert CLAIMS["mnist-any"].effect(one) == pytest.approx(0.006)
    assert CLAIMS["mnist-pac-bayes"].effect(one) == pytest.approx(0.008)


def test_verdicts_follow_the_bounds():
    found = rows({"hold-out": 0.006, "pac-bayes-kl": 0.012})
    assert judge(CLAIMS["mnist-any"], found, "paper").word == "reproduced"
    assert judge(CLAIMS["mnist-pac-bayes"], found, "paper").word == "not reproduced"
    free = rows({"description-length": 0.6}, "cifar-10", "data-free")
    assert judge(CLAIMS["cifar-10-free"], free, "medium").word == "not reproduced"


@pytest.mark.parametrize("scale", ["medium", "paper"])
def test_every_claim_can_be_settled_and_none_is_a_papers(scale):
    assert unsettled(EXPERIMENT, scale) == {}
    assert {claim.group for claim in EXPERIMENT.claims} == {"ours"}
