"""The experiment `regularizers`: its grid, its paired differences, its verdicts, and a smoke run of everything."""

import math

import numpy as np
import pytest
import torch

from truerisk.lab.figure import Figure
from truerisk.lab.regularizers import EXPERIMENT, _network
from truerisk.lab.regularizers.claims import chosen, gains, standard_error
from truerisk.lab.regularizers.figures import PUBLISHED
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.training.augment import View


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


@pytest.mark.parametrize("scale", ["smoke", "quick", "medium", "paper"])
def test_grids(scale):
    settings = EXPERIMENT.settings(scale)
    assert len({tuple(sorted(s.items())) for s in settings}) == len(settings)
    assert all(EXPERIMENT.cost(s) > 0 for s in settings)
    for s in settings:
        assert s["epochs"] / s["every"] <= 100  # a record stays small


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_row_of_the_published_table_is_run(scale):
    run = {
        (s["model"].replace("-small", ""), s["crop"], s["weight_decay"] > 0, s["labels"])
        for s in EXPERIMENT.settings(scale)
        if not s["dropout"]
    }
    assert set(PUBLISHED) <= run


def test_the_published_table_adds_up():
    """The gains that the claims quote, from the numbers of the table."""

    def accuracy(*key):
        return float(PUBLISHED[key][1])

    best = {"inception": 89.31, "alexnet": 81.22, "mlp-3x512": 53.35, "mlp-1x512": 50.51, "inception-no-bn": 83.0}
    behind = [top - accuracy(model, False, False, "true") for model, top in best.items()]
    assert max(behind) == pytest.approx(5.15)
    crop = [accuracy(m, True, False, "true") - accuracy(m, False, False, "true") for m in ("inception", "alexnet")]
    decay = [accuracy(m, False, True, "true") - accuracy(m, False, False, "true") for m in ("inception", "alexnet")]
    assert np.allclose(crop, [3.56, 3.59])
    assert np.allclose(decay, [0.28, 1.29])
    assert accuracy("inception", False, False, "true") - accuracy(
        "inception-no-bn", False, False, "true"
    ) == pytest.approx(3.75)


def test_runs_that_differ_in_regularizers_share_their_seeds():
    settings = EXPERIMENT.settings("quick")
    for model in {s["model"] for s in settings}:
        runs = [s for s in settings if s["model"] == model and s["labels"] == "true"]
        choices = {(s["crop"], s["weight_decay"], s["dropout"]) for s in runs}
        assert all(
            sorted(s["seed"] for s in runs if (s["crop"], s["weight_decay"], s["dropout"]) == choice) == [0, 1, 2]
            for choice in choices
        )
        assert len({(s["lr"], s["epochs"], s["batch_size"], s["n"]) for s in runs}) == 1


def test_regularizers_are_switched_on_where_the_setting_says():
    base = next(s for s in EXPERIMENT.settings("smoke") if s["model"] == "alexnet-small" and s["crop"])
    torch.manual_seed(0)
    network = _network(base, 1, 10)
    assert isinstance(network[0], View)
    assert (network[0].random, network[0].size, network[0].pad) == (True, 8, 1)
    assert not any(isinstance(m, torch.nn.Dropout) for m in network.modules())
    dropped = _network({**base, "crop": False, "dropout": 0.5}, 1, 10)
    assert not dropped[0].random
    assert any(isinstance(m, torch.nn.Dropout) for m in dropped.modules())
    assert sum(p.numel() for p in dropped.parameters()) == sum(p.numel() for p in network.parameters())


def test_a_task_repeats_itself_and_each_choice_matters():
    base = next(s for s in EXPERIMENT.settings("smoke") if s["model"] == "mlp-1x512" and s["labels"] == "true")
    base = {**base, "weight_decay": 0.0, "epochs": 4}
    first = EXPERIMENT.task(base)
    assert first == EXPERIMENT.task(base)
    assert not base.keys() & first.keys()
    for change in ({"weight_decay": 0.3}, {"crop": True}, {"dropout": 0.5}, {"seed": 5}):
        assert EXPERIMENT.task({**base, **change})["test_curve"] != first["test_curve"]
    assert first["watched"] == [0, 2, 4]
    assert first["best_test_error"] == min(first["test_curve"])
    assert first["test_error"] == first["test_curve"][-1]


def test_random_labels_are_fitted_and_teach_nothing():
    base = next(s for s in EXPERIMENT.settings("smoke") if s["model"] == "mlp-1x512" and s["labels"] == "random")
    record = EXPERIMENT.task({**base, "epochs": 120, "n_test": 1000})
    assert record["train_error"] == 0
    assert record["epochs_done"] < 120  # it stops when all are fitted
    # Chance is 0.9. The test labels are true ones, so that the error on 1000 of them varies with what 50 random
    # labels happen to teach: far wider than a binomial, and still far from the error of about 0.2 after true labels.
    assert record["test_error"] > 0.75


def test_gains_are_paired_by_seed():
    plain = Rows([{"seed": s, "test_error": e} for s, e in ((0, 0.10), (1, 0.20), (2, 0.30))])
    other = Rows([{"seed": s, "test_error": e} for s, e in ((2, 0.27), (0, 0.08), (1, 0.19))])
    found = gains(plain, other)
    assert found == pytest.approx([0.02, 0.01, 0.03])
    # by hand: deviations 0, -0.01, 0.01; variance 1e-4; standard error 0.01 / sqrt(3), far below that of the levels
    assert standard_error(found) == pytest.approx(0.01 / math.sqrt(3))
    assert standard_error([0.4]) == 0
    with pytest.raises(IncompleteError, match="same seeds"):
        gains(plain, Rows([{"seed": 0, "test_error": 0.1}]))


def world(**effects):
    """Rows in which every published effect is there, unless an effect says otherwise."""
    size = {"crop": 0.03, "decay": 0.005, "dropout": 0.01, "bn": 0.03, "stop": 0.002, "none": 0.3} | effects
    made = []
    for s in EXPERIMENT.settings("quick"):
        error = size["none"] + 0.01 * s["seed"] + 0.001 * ((s["seed"] * 7 + s["crop"]) % 3)
        error -= (
            size["crop"] * s["crop"] + size["decay"] * (s["weight_decay"] > 0) + size["dropout"] * (s["dropout"] > 0)
        )
        error += size["bn"] * ("no-bn" in s["model"])
        left = size.get("left", 0.0)
        if s["labels"] == "random":
            error = 0.9
            left = size.get("left_dropout", 0.0) if s["dropout"] else left
            if s["weight_decay"]:
                left = size.get("alexnet", 0.8) if "alexnet" in s["model"] else size.get("left_decay", 0.0)
        made.append({**s, "train_error": left, "test_error": error, "best_test_error": error - size["stop"]})
    return Rows(made)


def words(rows, scale="quick"):
    return {v.claim.name: v.word for v in EXPERIMENT.judge(rows, scale)}


def test_a_world_like_the_published_one_is_seen():
    assert set(words(world()).values()) == {"seen again"}


@pytest.mark.parametrize(
    ("claim", "effects"),
    [
        ("generalizes-without", {"none": 0.72}),
        ("generalizes-without", {"crop": 0.07}),
        ("crop-beats-decay", {"crop": 0.005}),
        ("decay-changes-little", {"decay": 0.04}),
        ("decay-changes-little", {"decay": -0.04}),
        ("fits-random-labels", {"left": 0.02}),
        ("decay-does-not-prevent", {"left_decay": 0.02}),
        ("alexnet-decay-fails", {"alexnet": 0.0}),
        ("dropout-does-not-prevent", {"left_dropout": 0.2}),
        ("early-stopping-gains-little", {"stop": 0.02}),
        ("batch-norm-helps", {"bn": 0.0}),
    ],
)
def test_each_claim_can_fail(claim, effects):
    assert words(world(**effects))[claim] == "not seen again"


def test_missing_runs_leave_claims_unchecked():
    whole = list(world())
    gone = [row for row in whole if row["model"] == "inception-small" and row["seed"] == 0 and row["labels"] == "true"]
    found = words(Rows([row for row in whole if row not in gone], missing=gone))
    assert found["batch-norm-helps"] == found["crop-beats-decay"] == "not checked"
    assert found["fits-random-labels"] == "seen again"


def test_a_scale_without_inception_says_so():
    rows = Rows(row for row in world() if "inception" not in row["model"])
    assert words(rows)["batch-norm-helps"] == "not checked"


def test_smoke_verdicts_and_figures(rows):
    found = words(rows, "smoke")
    assert set(found) == {claim.name for claim in EXPERIMENT.claims}
    # two epochs fit no random labels, so nothing is said about what keeps AlexNet from it
    assert [name for name, word in found.items() if word == "not checked"] == ["alexnet-decay-fails"]
    exhibits = {e.name: e for e in EXPERIMENT.figures(rows)}
    assert len(exhibits) == 4
    for exhibit in exhibits.values():
        assert len(exhibit.rows) > 0
        if isinstance(exhibit, Figure):
            fields = {exhibit.x.field, exhibit.y.field, *filter(None, (exhibit.series, exhibit.low, exhibit.high))}
            assert all(fields <= set(row) for row in exhibit.rows)
    published = [line for line in exhibits["table"].rows if line[6]]
    assert len(published) == len(PUBLISHED)
    assert EXPERIMENT.figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed


def test_the_table_gives_accuracies_in_percent(rows):
    table = next(e for e in EXPERIMENT.figures(rows) if e.name == "table")
    some = chosen(rows.where(model="mlp-1x512"), decay=True)
    line = next(r for r in table.rows if r[0] == "mlp-1x512" and r[2:6] == ["true", "no", "yes", "no"])
    assert line[6:9:2] == ["99.80", "50.39"]
    assert float(line[7]) == pytest.approx(100 - 100 * some.mean("train_error"), abs=0.01)
    assert float(line[9].split(" ± ")[0]) == pytest.approx(100 - 100 * some.mean("test_error"), abs=0.01)
