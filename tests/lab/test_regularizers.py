"""The experiment `regularizers`: its effects by hand, its grids, its networks, and a smoke run of everything."""

import pytest
import torch

from truerisk.lab.experiments.regularizers import (
    ALEXNET,
    CLAIMS,
    EXPERIMENT,
    INCEPTION,
    NO_BN,
    build,
    difference,
    gains,
    regularizer,
    value,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.regularizers import LESSON, ORDER
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.training.augment import View

CLAIM = {claim.name: claim for claim in CLAIMS}
# Table 1 (CIFAR-10), test accuracy in percent: no regularizer, weight decay, crops, crops and weight decay
PUBLISHED = {
    "inception": (85.75, 86.03, 89.31, 89.05),
    "inception-no-bn": (82.00, 83.00),
    "alexnet": (76.07, 77.36, 79.66, 81.22),
    "mlp-3x512": (52.39, 53.35),
    "mlp-1x512": (50.51, 50.39),
}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def run(**changes):
    base = {"crop": False, "decay": "none", "weight_decay": 0.0, "dropout": 0.0, "seed": 1, "diverged": False}
    return {**base, **changes}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "none"),
        ({"weight_decay": 0.001}, "weight decay 0.001"),
        ({"crop": True, "weight_decay": 5e-4}, "crops and weight decay 0.0005"),
        ({"dropout": 0.5}, "dropout"),
    ],
)
def test_names_of_regularizers(changes, name):
    assert regularizer(run(**changes)) == name


def test_effects_by_hand():
    runs = Rows(
        [
            run(test_error=0.30, train_error=0.0),
            run(test_error=0.28, train_error=0.2, decay="judged", weight_decay=0.001),
            run(test_error=0.25, train_error=0.1, crop=True),
        ]
    )
    assert value(runs.where(crop=True), "train_error") == 0.1
    assert gains(runs) == pytest.approx({"weight decay 0.001": 0.02, "crops": 0.05})
    assert CLAIM["crops-beat-decay"].effect(runs) == pytest.approx(0.03)  # 28% with weight decay, 25% with crops
    plain = runs.where(crop=False)
    assert CLAIM["decay-changes-little"].effect(plain) == pytest.approx(0.02)
    assert CLAIM["alexnet-decay-fails"].effect(plain) == pytest.approx(0.2)
    assert difference(runs, "test_error", {"crop": True}, {"decay": "judged"}) == pytest.approx(-0.03)


def test_batch_norm_by_hand():
    runs = Rows([run(model="inception-small", test_error=0.05), run(model="inception-small-no-bn", test_error=0.07)])
    assert CLAIM["batch-norm-helps"].effect(runs) == pytest.approx(0.02)


def test_published_numbers_are_those_of_the_table():
    changes = {name: [other - plain for other in others] for name, (plain, *others) in PUBLISHED.items()}
    errors = [100 - plain for plain, *_ in PUBLISHED.values()]
    assert (min(errors), max(errors)) == pytest.approx(CLAIM["generalizes-without"].published_at)
    every = [gain for some in changes.values() for gain in some]
    assert (min(every), max(every)) == pytest.approx(CLAIM["regularizers-gain-little"].published_at)
    decay = [some[0] for some in changes.values()]
    assert (min(decay), max(decay)) == pytest.approx(CLAIM["decay-changes-little"].published_at)
    ahead = [changes[name][1] - changes[name][0] for name in ("alexnet", "inception")]
    assert ahead == pytest.approx(CLAIM["crops-beat-decay"].published_at)
    low, high = CLAIM["batch-norm-helps"].published_at
    assert low <= PUBLISHED["inception"][0] - PUBLISHED["inception-no-bn"][0] <= high


def world(scale="medium", **effects):
    """Rows of a grid in which every claim holds, unless an effect says otherwise."""
    size = {"crop": 0.03, "decay": 0.005, "bn": 0.03, "stop": 0.002, "none": 0.3, "alexnet": 0.8} | effects
    made = []
    for s in EXPERIMENT.settings(scale):
        error = size["none"] + 0.01 * (s["seed"] - 20) + 0.001 * ((s["seed"] * 7 + s["crop"]) % 3)
        error -= size["crop"] * s["crop"] + size["decay"] * (s["weight_decay"] > 0)
        error += size["bn"] * (s["model"] in NO_BN)
        left = size.get("left_dropout", 0.0) if s["dropout"] else 0.0
        if s["decay"] != "none" and s["labels"] == "random":
            left = size["alexnet"] if s["model"] in ALEXNET else size.get("left_decay", 0.0)
        made.append({**s, "train_error": left, "test_error": error, "last_minus_best": size["stop"], "diverged": False})
    return Rows(made, fields=s)


@pytest.mark.parametrize("scale", ["quick", "medium", "paper"])
def test_a_world_like_the_published_one_is_reproduced(scale):
    verdicts = [judge(claim, world(scale), scale) for claim in EXPERIMENT.speaking(scale)]
    assert {verdict.word for verdict in verdicts} == {"reproduced"}, [v.sentence for v in verdicts]


@pytest.mark.parametrize(
    ("claim", "effects"),
    [
        ("generalizes-without", {"none": 0.75}),
        ("regularizers-gain-little", {"crop": 0.07}),
        ("crops-beat-decay", {"crop": 0.0}),
        ("decay-changes-little", {"decay": 0.04}),
        ("decay-changes-little", {"decay": -0.04}),
        ("decay-does-not-prevent", {"left_decay": 0.02}),
        ("alexnet-decay-fails", {"alexnet": 0.05}),
        ("dropout-does-not-prevent", {"left_dropout": 0.2}),
        ("early-stopping-gains-little", {"stop": 0.02}),
        ("batch-norm-helps", {"bn": -0.01}),
    ],
)
def test_each_claim_can_fail(claim, effects):
    assert judge(CLAIM[claim], world(**effects), "medium").word == "not reproduced"


def test_one_network_is_enough_to_refute():
    spoiled = [{**r, "train_error": 0.3} if r["model"] == "mlp-1x512" and r["dropout"] else r for r in world()]
    verdict = judge(CLAIM["dropout-does-not-prevent"], Rows(spoiled), "medium")
    assert (verdict.word, verdict.decisive.name) == ("not reproduced", "MLP 1x512")


def test_every_regularizer_is_a_cell_of_its_own():
    cells = judge(CLAIM["regularizers-gain-little"], world(), "medium").cells
    names = {cell.name for cell in cells if cell.where["model"] == "alexnet"}
    assert names == {f"AlexNet, {kind}" for kind in ("weight decay 0.001", "crops", "crops and weight decay 0.001")}


def test_networks_are_judged_at_equal_decay_on_random_labels():
    for scale in ("quick", "medium", "paper"):
        judged = [s for s in EXPERIMENT.settings(scale) if s["labels"] == "random" and s["decay"] == "judged"]
        assert len({s["weight_decay"] for s in judged}) == 1
        assert {s["model"] for s in judged} == {s["model"] for s in EXPERIMENT.settings(scale)} - set(NO_BN)


def test_digits_are_not_cropped_and_other_images_are():
    assert not any(s["crop"] for s in EXPERIMENT.settings("quick"))
    for scale in ("medium", "paper"):
        cropped = {s["model"] for s in EXPERIMENT.settings(scale) if s["crop"]}
        assert len(cropped) == 2
        assert cropped <= set(INCEPTION + ALEXNET)


def test_runs_that_differ_in_regularizers_share_the_rest():
    """Otherwise a difference would not be due to the regularizer."""
    own = ("crop", "decay", "weight_decay", "dropout", "seed")
    for scale in ("quick", "medium", "paper"):
        recipes = {}
        for s in EXPERIMENT.settings(scale):
            rest = tuple(sorted((k, v) for k, v in s.items() if k not in own))
            recipes.setdefault((s["model"], s["labels"]), set()).add(rest)
        assert all(len(found) == 1 for found in recipes.values())


def smoke_setting(model, **changes):
    return next({**s, **changes} for s in EXPERIMENT.settings("smoke") if s["model"] == model)


def test_regularizers_are_switched_on_where_the_setting_says():
    torch.manual_seed(0)
    network = build(smoke_setting("alexnet-small", crop=True), 1, 10)
    assert isinstance(network[0], View)
    assert (network[0].random, network[0].size, network[0].pad) == (True, 8, 1)
    assert not any(isinstance(m, torch.nn.Dropout) for m in network.modules())
    dropped = build(smoke_setting("alexnet-small", dropout=0.5), 1, 10)
    assert not dropped[0].random
    assert any(isinstance(m, torch.nn.Dropout) for m in dropped.modules())
    assert sum(p.numel() for p in dropped.parameters()) == sum(p.numel() for p in network.parameters())


def test_a_task_repeats_itself_and_each_choice_matters():
    base = smoke_setting("mlp-1x512", epochs=4, n_test=500)
    first = EXPERIMENT.task(base)
    assert first == EXPERIMENT.task(base)
    assert not base.keys() & first.keys()
    assert 0 <= first["last_minus_best"] <= 1
    for change in ({"weight_decay": 0.3}, {"crop": True}, {"dropout": 0.5}, {"seed": 5}):
        assert EXPERIMENT.task({**base, **change}) != first


def test_random_labels_are_fitted_and_teach_nothing():
    record = EXPERIMENT.task(smoke_setting("mlp-1x512", labels="random", epochs=120, every=5, n_test=1000, seed=0))
    assert record["train_error"] == 0
    # Chance is 0.9. The test labels are true ones, so that the error varies with what 50 random labels happen to teach.
    assert record["test_error"] > 0.75


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.claim.name for verdict in verdicts} == set(CLAIM)
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells for verdict in verdicts)  # every effect found its runs
    *figures, table = LESSON.figures(rows)
    assert [figure.name for figure in figures] == ["errors", "random-labels", "strengths"]
    for figure in figures:
        assert isinstance(figure, Figure)
        assert figure.rows
        assert set(figure.claims) <= set(CLAIM)
    assert len(table.rows) == 5
    assert all(len(line) == len(table.columns) for line in table.rows)
    assert all(not exhibit.rows for exhibit in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_test_errors_stand_next_to_a_guess():
    shown = {figure.name: figure for figure in LESSON.figures(world("medium"))}
    mine = [row for row in shown["errors"].rows if row["model"] == "alexnet" and row["seed"] == 20]
    found = {row["treatment"]: row["error"] for row in mine}
    assert list(found) == [kind for kind in ORDER if kind in found]
    assert [rule.value for rule in shown["errors"].rules] == [0.9]
    plain = next(r for r in world("medium").where(model="alexnet", seed=20, labels="true") if regularizer(r) == "none")
    assert found["no regularizer"] == plain["test_error"]
    assert found["early stopping"] == plain["test_error"] - plain["last_minus_best"]
    assert found["crops"] == pytest.approx(plain["test_error"] - 0.03, abs=0.003)
    assert len({row["network"] for row in shown["errors"].rows}) == 5


def test_random_labels_that_are_fitted():
    shown = {figure.name: figure for figure in LESSON.figures(world("quick", left_dropout=0.25))}
    rows = {(row["model"], row["treatment"], row["seed"]): row["fitted"] for row in shown["random-labels"].rows}
    assert rows["alexnet-small", "weight decay", 22] == pytest.approx(0.2)
    assert rows["mlp-1x512", "dropout", 22] == 0.75
    assert rows["inception-small", "no regularizer", 20] == 1
    assert {row["weight_decay"] for row in shown["strengths"].rows} == {1e-3, 3e-3, 1e-2}
    assert len(rows) == len(shown["random-labels"].rows)


def test_pictures_show_labels_crops_and_dropout():
    setting = EXPERIMENT.settings("quick")[0]
    record = LESSON.demo(setting)
    assert record == LESSON.demo(setting)
    [images] = LESSON.pictures(record)
    tiles = {strip.label: strip.tiles for strip in images.strips}
    true, random = tiles["true labels"], tiles["random labels"]
    assert [tile.wrong for tile in random] == [a.under != b.under for a, b in zip(true, random, strict=True)]
    assert any(tile.wrong for tile in random)
    assert not any(tile.wrong for name in tiles if name != "random labels" for tile in tiles[name])
    assert tiles["crops, one epoch"] != tiles["crops, next epoch"] != true
    units, dropped = (torch.tensor([t.pixels for t in tiles[n]]) for n in ("hidden units", "hidden units with dropout"))
    assert units.shape[1:] == (8, 8)
    silenced = ((units > 0) & (dropped == 0)).sum() / (units > 0).sum()
    assert 0.35 < silenced < 0.65
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize(
    ("scale", "effects", "headline"),
    [
        ("quick", {}, "Weight decay lowers the test error of every network by at most 0.6 points."),
        ("quick", {"decay": 0.1}, "Weight decay lowers test error by 10.0 points in"),
        ("medium", {}, "Weight decay and crops lower the test error by at most 3.9 points."),
        ("medium", {"crop": 0.2}, "Test error falls most in Inception (small), crops and weight decay 0.001: by 20.5"),
        ("medium", {"crop": 0.0}, "Test error falls most in"),  # crops do not beat weight decay
    ],
)
def test_headlines_name_the_regularizers_that_were_tried(scale, effects, headline):
    verdicts = {claim.name: judge(claim, world(scale, **effects), scale) for claim in EXPERIMENT.speaking(scale)}
    finding = next(one for one in LESSON.findings if one.applies(verdicts))
    assert finding.sentence(verdicts).startswith(headline)
