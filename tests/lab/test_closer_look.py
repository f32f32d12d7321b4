"""The five experiments after Arpit et al. 2017 at smoke scale: runs, effects, lessons."""

from __future__ import annotations

import json

import pytest

from truerisk.lab import Rows, load

NAMES = ["easy-examples", "loss-sensitivity", "capacity", "critical-samples", "memory-regularizers"]
each = pytest.mark.parametrize("name", NAMES)


@each
def test_every_effect_evaluates_on_smoke_rows(smoke_rows, name):
    verdicts = load(name).judge(smoke_rows(name), "smoke")
    assert [(v.claim.name, v.reason, v.detail) for v in verdicts if v.reason != "smoke"] == []
    # this short, noise need not be fitted: then a time has no number, and the verdict names the run
    assert all(v.cells or "not fitted within" in v.detail for v in verdicts)


@each
def test_lessons_point_at_what_is_there(smoke_rows, name):
    experiment = load(name)
    exhibits = experiment.lesson.figures(smoke_rows(name))
    assert experiment.lesson.hero in [exhibit.name for exhibit in exhibits]
    claims = {claim.name for claim in experiment.claims}
    assert {shown for exhibit in exhibits for shown in exhibit.claims} <= claims
    assert {basis for finding in experiment.lesson.findings for basis in finding.claims} <= claims
    assert all(len(exhibit.caption.split()) <= 60 for exhibit in exhibits)


@each
def test_every_row_of_an_averaged_figure_has_a_place_of_its_own(smoke_rows, name):
    """Two runs of one seed at one place would be averaged as if they were two seeds."""
    for figure in load(name).lesson.figures(smoke_rows(name)):
        if figure.averaged:
            slider = figure.slider.field if figure.slider else None
            fields = [field for field in ("seed", figure.x.field, figure.series, figure.facet, slider) if field]
            places = [tuple(row[field] for field in fields) for row in figure.rows]
            assert len(places) == len(set(places)), figure.name


@each
def test_figures_of_nothing_are_empty(name):
    assert all(not exhibit.rows for exhibit in load(name).lesson.figures(Rows([])))
    assert load(name).lesson.pictures({}) == []


@each
def test_figures_cope_with_missing_runs(smoke_rows, name):
    rows = smoke_rows(name)
    some = Rows(list(rows)[1::2], missing=list(rows)[::2], fields=rows.fields)
    assert any(exhibit.rows for exhibit in load(name).lesson.figures(some))


@each
def test_demos_give_the_same_plain_record_twice(name):
    experiment = load(name)
    setting = experiment.settings("smoke")[0]
    record = experiment.lesson.demo(setting)
    assert record == experiment.lesson.demo(setting) == json.loads(json.dumps(record, allow_nan=False))
    assert not set(record) & set(setting)
    # stored records have their keys in another order
    for found, stored in zip(
        experiment.lesson.pictures(record),
        experiment.lesson.pictures(json.loads(json.dumps(record, sort_keys=True))),
        strict=True,
    ):
        assert found == stored
        assert len(found.caption.split()) <= 60


@each
def test_the_same_setting_gives_the_same_plain_record(smoke_rows, name):
    experiment = load(name)
    setting = experiment.settings("smoke")[-1]
    (row,) = [row for row in smoke_rows(name) if setting.items() <= row.items()]
    record = experiment.task(setting)
    assert not set(record) & set(setting)  # no result hides a field of the setting
    assert {**setting, **record} == row == json.loads(json.dumps(row, allow_nan=False))
