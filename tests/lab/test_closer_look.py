"""The five experiments after Arpit et al. 2017 at smoke scale: runs, effects, figures."""

from __future__ import annotations

import json

import pytest

from truerisk.lab import Rows, load
from truerisk.lab.figure import Figure

NAMES = ["easy-examples", "loss-sensitivity", "capacity", "critical-samples", "memory-regularizers"]
each = pytest.mark.parametrize("name", NAMES)


@each
def test_every_effect_evaluates_on_smoke_rows(smoke_rows, name):
    verdicts = load(name).judge(smoke_rows(name), "smoke")
    assert [(v.claim.name, v.reason, v.detail) for v in verdicts if v.reason != "smoke"] == []
    # this short, noise need not be fitted: then a time has no number, and the verdict names the run
    assert all(v.cells or "not fitted within" in v.detail for v in verdicts)


@each
def test_figures_have_what_they_draw(smoke_rows, name):
    for exhibit in load(name).figures(smoke_rows(name)):
        assert len(exhibit.caption.split()) <= 60
        if isinstance(exhibit, Figure):
            fields = [exhibit.x.field, exhibit.y.field, exhibit.series, exhibit.facet, exhibit.low, exhibit.high]
            assert exhibit.rows
            assert all(field in row for row in exhibit.rows for field in fields if field)


@each
def test_figures_of_nothing_are_empty(name):
    assert all(not exhibit.rows for exhibit in load(name).figures(Rows([])))


@each
def test_the_same_setting_gives_the_same_plain_record(smoke_rows, name):
    experiment = load(name)
    setting = experiment.settings("smoke")[-1]
    (row,) = [row for row in smoke_rows(name) if setting.items() <= row.items()]
    record = experiment.task(setting)
    assert not set(record) & set(setting)  # no result hides a field of the setting
    assert {**setting, **record} == row == json.loads(json.dumps(row, allow_nan=False))
