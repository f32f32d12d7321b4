"""Declarations: what is checked when an object is made, and how strictly a file is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from truerisk import TrueriskError
from truerisk.certificates.methods.progressive import Blocks
from truerisk.certificates.prior import NOTHING_TRAINED, Prior
from truerisk.certificates.schema import Limits, dump, flags, option, read, settle


@dataclass(frozen=True)
class Toy:
    """A class with one option of each kind."""

    many: int = option(3, "How many.", low=1, high=9)
    share: float = option(0.5, "A share.", low=0, below=1)
    kind: str = option("warm", "Which.", among=("warm", "cold"))
    width: float | None = option(None, "How wide.", shown="by size")
    fixed: int = 7  # no option

    def __post_init__(self) -> None:
        settle(self)


def test_whole_numbers_become_floats_where_those_are_meant():
    assert type(Toy(share=0).share) is float
    assert Toy(width=2.5).width == 2.5
    assert type(Toy(width=2).width) is float


def test_numbers_of_numpy_are_numbers():
    toy = Toy(many=np.int64(4), share=np.float32(0.25))
    assert (type(toy.many), type(toy.share)) == (int, float)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"many": 0}, "many is 0, but must be at least 1 and at most 9"),
        ({"many": 2.0}, "many is 2.0, but must be an integer"),
        ({"many": True}, "many is True, but must be an integer"),
        ({"share": 1.0}, "share is 1.0, but must be at least 0 and less than 1"),
        ({"share": float("nan")}, "share is nan"),
        ({"share": 10**400}, "share is too large a number"),
        ({"share": "0.5"}, "share is '0.5', but must be a number"),
        ({"kind": "hot"}, "kind is 'hot', but must be one of warm, cold; choose one"),
        ({"width": "wide"}, "width is 'wide', but must be a number"),
    ],
)
def test_values_that_can_not_be(values, told):
    with pytest.raises(TrueriskError) as caught:
        Toy(**values)
    assert told in str(caught.value)


def test_flags_say_what_they_are():
    found = {flag.name: flag for flag in flags(Toy)}
    assert list(found) == ["many", "share", "kind", "width"]
    assert [flag.kind for flag in found.values()] == [int, float, str, float]
    assert [flag.shown for flag in found.values()] == ["3", "0.5", "warm", "by size"]


@pytest.mark.parametrize("limits", [Limits(low=0), Limits(above=0, below=1), Limits(among=("a",))])
def test_nothing_is_met_by_not_a_number(limits):
    assert not limits.met(float("nan"))


HONEST = {"progressive": {"t": 0.5, "expected_risk": 0.1, "blocks": [{"n": 10, "errors": 1}, {"n": 9, "errors": 0}]}}


def test_what_is_written_is_read():
    found = read(Blocks, HONEST, "it")
    assert dump(found) == HONEST
    assert found.progressive.blocks[1].n == 9


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.pop("progressive"), "it has no field 'progressive'"),
        (lambda r: r.update(other=1), "the field 'other' is unknown"),
        (lambda r: r.update(progressive=[1]), "is not an object"),
        (lambda r: r["progressive"].update(t=1), "1 is not a number"),
        (lambda r: r["progressive"].update(t=None), "None is not a number"),
        (lambda r: r["progressive"].update(blocks={}), "is not of the right type"),
        (lambda r: r["progressive"]["blocks"][0].update(n=10.0), "10.0 is not an integer"),
        (lambda r: r["progressive"]["blocks"][0].update(n=True), "True is not an integer"),
        (lambda r: r["progressive"]["blocks"].append("x"), "is not an object"),
    ],
)
def test_what_is_read_has_every_field_with_its_very_type_and_no_other(change, told):
    claims = {
        "progressive": {**HONEST["progressive"], "blocks": [dict(each) for each in HONEST["progressive"]["blocks"]]}
    }
    change(claims)
    with pytest.raises(TrueriskError) as caught:
        read(Blocks, claims, "it")
    assert told in str(caught.value)


class TestPrior:
    @pytest.mark.parametrize("text", ["zero", "init", "split:0.5", "split:.5", "split:1e-1"])
    def test_text_stays_as_it_was_given(self, text):
        assert str(Prior.parse(text)) == text == dump(Prior.parse(text))

    @pytest.mark.parametrize(
        "text", ["", "none", "split", "split:", "split:0", "split:1", "split:nan", "Zero", "half:0.5"]
    )
    def test_what_is_none_is_refused(self, text):
        with pytest.raises(TrueriskError, match="must be zero, init, or split:FRACTION"):
            Prior.parse(text)

    def test_exactly_one_kind(self):
        for prior in (Prior("zero"), Prior("init"), Prior("split:0.3"), NOTHING_TRAINED):
            assert [bool(prior.fraction), prior.data_free, prior.trained].count(True) == 1
        assert Prior.from_json("none") == NOTHING_TRAINED
        assert Prior("zero").centred
        assert not Prior("init").centred
