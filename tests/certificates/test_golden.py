"""No digit and no word of a certificate changes by accident, and certificates of before still verify."""

from __future__ import annotations

import json

import pytest
from certificates import golden

import truerisk

DRAWS = 1_000_000  # as many as certificates make
ELSEWHERE = "another processor or library rounds otherwise and trains other networks: digits can't be compared"


@pytest.fixture(scope="module")
def same_arithmetic() -> bool:
    return golden.arithmetic() == (golden.GOLDENS / "arithmetic.txt").read_text().strip()


@pytest.mark.parametrize("name", golden.CASES)
def test_no_digit_changes(name, same_arithmetic):
    kept = json.loads((golden.GOLDENS / f"{name}.json").read_text())
    told = json.loads(json.dumps(golden.told(golden.certificate(name))))
    # Whether there is a warning (a bound no better than guessing, say) depends on the numbers.
    shapes = [_shape({**each["record"], "warnings": []}) for each in (told, kept)]
    assert shapes[0] == shapes[1]
    if not same_arithmetic:
        pytest.skip(ELSEWHERE)
    for section in golden.SECTIONS:
        assert told[section] == kept[section], section


@pytest.mark.parametrize("name", golden.STORED)
def test_a_certificate_of_before_verifies(name):
    folder = golden.KEPT / name
    model = None if name != "disagreement-single-draw" else "mlp:8"
    result = truerisk.verify(folder, golden.data(), model, seed=1)
    assert result.claimed == json.loads((folder / "certificate.json").read_text())["risk_bound"]
    assert all("another version of truerisk worded" in line for line in result.noticed)


def _shape(value):
    """The fields and kinds of a record, whatever its numbers; lists may have other lengths."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return _shape(value[0]) if value else None
    return type(value).__name__
