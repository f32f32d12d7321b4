"""The experiment as a whole: its grids, tasks, verdicts and figures at smoke scale."""

from __future__ import annotations

import json

import pytest

from truerisk.lab import Rows
from truerisk.lab.closer_look import COSTS, EXPERIMENT, TASKS
from truerisk.lab.figure import Figure


@pytest.fixture(scope="module")
def rows(smoke_rows) -> Rows:
    return smoke_rows(EXPERIMENT.name)


@pytest.mark.parametrize("scale", list(EXPERIMENT.grids))
def test_settings_are_plain_and_differ(scale):
    texts = [json.dumps(setting, sort_keys=True, allow_nan=False) for setting in EXPERIMENT.settings(scale)]
    assert len(set(texts)) == len(texts) > 0
    assert {json.loads(text)["part"] for text in texts} == set(TASKS) == set(COSTS)


def test_records_are_plain_small_and_have_names_of_their_own(rows):
    for setting, row in zip(EXPERIMENT.settings("smoke"), rows, strict=True):
        record = {name: value for name, value in row.items() if name not in setting}
        assert {**setting, **record} == row == json.loads(json.dumps(row, allow_nan=False))
        assert record
        assert all(row[name] == value for name, value in setting.items())  # no record key hides a setting
        assert max(len(value) for value in [[], *record.values()] if isinstance(value, list)) <= 100


@pytest.mark.parametrize("part", list(TASKS))
def test_the_same_setting_gives_the_same_record(rows, part):
    setting = next(s for s in reversed(EXPERIMENT.settings("smoke")) if s["part"] == part)
    row = next(row for row in rows if setting.items() <= row.items())
    assert {**setting, **EXPERIMENT.task(setting)} == row


def test_every_claim_gets_a_verdict(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert len(verdicts) == len(EXPERIMENT.claims) >= 8
    assert all(verdict.measured for verdict in verdicts)
    unfitted = [verdict for verdict in verdicts if verdict.word == "not checked"]  # this short, noise is not learned
    assert all("not fitted even at" in v.measured or "halves the memory" in v.measured for v in unfitted)


def test_a_missing_run_leaves_its_claims_unchecked(rows):
    shown_only = {"part": "loss sensitivity", "noise": "randY"}  # in a figure, but no published statement is about it
    for gone in EXPERIMENT.settings("smoke"):
        some = Rows((row for row in rows if not gone.items() <= row.items()), [gone])
        unchecked = [v.measured for v in EXPERIMENT.judge(some, "smoke") if v.word == "not checked"]
        missed = any("missing" in words for words in unchecked)
        assert missed is not (shown_only.items() <= gone.items())
        assert len(EXPERIMENT.figures(some)) > 0


def test_figures_have_what_they_draw(rows):
    exhibits = EXPERIMENT.figures(rows)
    assert len({exhibit.name for exhibit in exhibits}) == len(exhibits) >= 7
    for figure in exhibits:
        if isinstance(figure, Figure):
            fields = [figure.x.field, figure.y.field, figure.series, figure.facet, figure.low, figure.high]
            assert figure.rows
            assert all(field in row for row in figure.rows for field in fields if field)


def test_figures_of_nothing_are_empty_and_no_error():
    assert all(not exhibit.rows for exhibit in EXPERIMENT.figures(Rows([])))
