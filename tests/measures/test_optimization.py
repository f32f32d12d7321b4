"""Measures of the training's speed: what the record says, or a reason."""

from __future__ import annotations

import pytest
from measures.cases import build

from truerisk import TrueriskError
from truerisk.measures import MEASURES, NotDefined, Subject

KEYS = {
    "steps-to-loss-0.1": "steps_to_0.1",
    "steps-loss-0.1-to-0.01": "steps_0.1_to_0.01",
    "gradient-noise-first-epoch": "gradient_variance_first_epoch",
}


@pytest.mark.parametrize("name", KEYS)
def test_the_record_is_read(name, images):
    record = {key: 10 + place for place, key in enumerate(KEYS.values())}
    subject = Subject(build("mlp"), images, record=record)
    assert MEASURES[name](subject).value == record[KEYS[name]]


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("record", [{"other": 1}, dict.fromkeys(KEYS.values())])
def test_what_is_missing_or_was_never_reached_is_a_reason(name, record, images):
    with pytest.raises(NotDefined, match=KEYS[name]):
        MEASURES[name](Subject(build("mlp"), images, record=record))


def test_without_a_record_one_is_asked_for(images):
    with pytest.raises(NotDefined, match="record"):
        MEASURES["steps-to-loss-0.1"](Subject(build("mlp"), images))


@pytest.mark.parametrize("value", ["many", -1, float("nan"), float("inf"), True])
def test_nonsense_is_refused(value, images):
    with pytest.raises(TrueriskError, match="finite number"):
        MEASURES["steps-to-loss-0.1"](Subject(build("mlp"), images, record={"steps_to_0.1": value}))
