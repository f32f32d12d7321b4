"""`loss-landscape`: effects on rows made by hand, the smoke grid, the same record twice, figures against rows."""

from __future__ import annotations

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab.catalogue import load
from truerisk.lab.experiments.loss_landscape import (
    EXPERIMENT,
    apart,
    flatter_with,
    rougher_without,
    sharper_than_other,
    sharper_twin,
    smoke,
    task,
    unchanged,
)
from truerisk.lab.landscape_runs import by_layer, spread
from truerisk.lab.lessons.loss_landscape import CLIP, LESSON, TWIN, WITH, WITHOUT
from truerisk.lab.rows import IncompleteError, Rows

JUDGED = {"view": "numbers", "planes": 2, "points": 200, "target": 0.2, "blocks": 10, "std": 1.0}


def plane(doubling: float, share: float) -> dict[str, float]:
    return {"doubling": doubling, "nonconvex": share, "highest": 9.0}


def run(skips: bool, seed: int = 20, shift: float = 0.0, **more: object) -> dict[str, object]:
    own = [plane(0.3, 0.01), plane(0.3 + shift, 0.03)] if skips else [plane(0.2, 0.5), plane(0.2, 0.6 + shift)]
    twin = [{"doubling": 0.05 if skips else 0.04}] * 2
    exact = dict.fromkeys(("outputs_change", "layers_filter", "units_elementwise"), 1e-15)
    found = {**JUDGED, "skips": skips, "seed": seed, "reached": True, "network": own, "twin": twin}
    return found | exact | {"labels_change": 0, "units_filter": 5.0} | more


def test_effects_by_hand():
    both = Rows([run(True), run(False)])
    assert rougher_without(both) == pytest.approx(0.55 - 0.02)
    assert flatter_with(both) == pytest.approx(1.5)
    assert sharper_twin(both.where(skips=True)) == pytest.approx(6)
    assert sharper_twin(both.where(skips=False)) == pytest.approx(5)
    assert sharper_than_other(both) == pytest.approx(0.2 / 0.05)
    pooled = ((spread([0.01, 0.03]) ** 2 + spread([0.5, 0.6]) ** 2) / 2) ** 0.5
    assert apart(both) == pytest.approx(0.53 / pooled)
    assert unchanged(both, ("outputs_change",)).holds
    assert not unchanged(Rows([run(True, labels_change=1), run(False)]), ("labels_change",)).holds


def test_a_missed_target_is_no_evidence():
    with pytest.raises(IncompleteError, match=r"did not reach its training loss of 0\.2"):
        rougher_without(Rows([run(True), run(False, reached=False)]))
    with pytest.raises(IncompleteError):
        rougher_without(Rows([run(True)], missing=[{"skips": False, **JUDGED, "seed": 20}]))


def words(rows: Rows, name: str) -> str:
    return next(v.word for v in EXPERIMENT.judge(rows, "quick") if v.claim.name == name)


@pytest.mark.parametrize(("share", "word"), [(0.55, "reproduced"), (0.0, "not reproduced")])
def test_verdicts(share, word, monkeypatch):
    monkeypatch.setattr("truerisk.lab.commitment.find", lambda *_: None)
    rows = []
    for k, seed in enumerate(range(20, 25)):
        rough = [plane(0.2, share + 0.001 * k), plane(0.2, share + 0.01)]
        rows += [run(True, seed, 0.001 * k, network=[plane(0.3, 0.1), plane(0.3 + 0.01 * k, 0.11)])]
        rows += [run(False, seed, network=rough)]
    assert words(Rows(rows), "skips-smooth") == word
    assert words(Rows(rows[:2]), "skips-smooth") == "no verdict"
    assert words(Rows(rows), "same-function") == "exact"


@pytest.fixture(scope="module")
def smoked() -> list[dict[str, object]]:
    return [{**setting, **task(setting)} for setting in smoke()]


def test_smoke_records(smoked):
    judged = [row for row in smoked if row["view"] == "numbers"]
    assert len(judged) == 2
    for row in judged:
        assert max(row["outputs_change"], row["layers_filter"], row["units_elementwise"]) < 1e-10
        assert row["units_filter"] > 1e-3
        assert row["train_loss"] <= row["target"]
    again = smoke()[0]
    assert {**again, **task(again)} == smoked[0]


def test_figures_show_the_rows(smoked):
    shown = {figure.name: figure for figure in load("loss-landscape").lesson.figures(Rows(smoked))}
    assert LESSON.hero in shown
    maps = shown["maps"].rows
    assert {row["network"] for row in maps} == {WITH, WITHOUT, TWIN}
    picture = next(row for row in smoked if row["view"] == "picture" and row["skips"])
    middle = len(picture["network_surface"]) // 2
    at = next(row for row in maps if row["network"] == WITH and row["x"] == row["y"] == 0)
    assert at["loss"] == picture["network_surface"][middle][middle]
    assert max(row["loss"] for row in maps) <= CLIP
    first = next(row for row in shown["distances"].rows if row["network"] == WITH)
    judged = next(row for row in smoked if row["view"] == "numbers" and row["skips"])
    assert first["distance"] == pytest.approx(sum(p["doubling"] for p in judged["network"]) / 2)
    assert {row["layers"] for row in shown["depth"].rows} == {4, 8}


def test_figures_without_runs():
    assert LESSON.figures(Rows([]))
    assert LESSON.pictures({}) == []


def test_factors_of_whole_layers():
    from torch import nn, zeros

    from truerisk.symmetry import find_symmetry

    symmetry = find_symmetry(
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), zeros(1, 2)
    )
    found = by_layer(symmetry, 0)
    assert len(set(found[:3].tolist())) == len(set(found[3:].tolist())) == 1
    assert len(set(found.tolist())) == 2


def test_own_data_has_dense_layers():
    from truerisk.data import load as load_data

    digits = load_data("digits")
    found = [EXPERIMENT.own_data(setting, digits) for setting in EXPERIMENT.settings("medium")]
    assert all(
        setting is None or (setting["layers"] == "dense" and setting["rows"] <= setting["n"]) for setting in found
    )
    with pytest.raises(TrueriskError):
        EXPERIMENT.settings("huge")
