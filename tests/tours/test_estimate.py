"""What is left out of a tour is decided by the estimate alone, in a fixed order."""

from itertools import pairwise

import pytest

from truerisk.errors import TrueriskError
from truerisk.tours.asked import Asked
from truerisk.tours.estimate import ATTEMPTS, LABELS, ORDER, START, Speed, measured, outline, parts

SECONDS = {
    LABELS: 10.0,
    "hold-out": 1.0,
    "twin": 20.0,
    "progressive": 20.0,
    "single-draw": 20.0,
    "description-length": 20.0,
}


def test_the_last_parts_are_left_out_first():
    seen = []
    for limit in (200, 50, 40, 30, 20):
        found = outline(SECONDS, limit / 60, workers=1)
        assert found.left_out == tuple(name for name in ORDER if name not in found.seconds)
        assert list(found.seconds) == [name for name in ORDER if name in found.seconds]
        assert found.total <= limit
        seen.append(found.left_out)
    assert all(set(few) <= set(more) for few, more in pairwise(seen))
    assert seen[0] == ()
    assert seen[-1] == ("twin", "progressive", "single-draw", "description-length")


def test_a_cheap_part_does_not_overtake_an_earlier_one():
    found = outline(SECONDS | {"description-length": 0.1}, (START + 60) / 60, workers=1)
    assert found.left_out == ("single-draw", "description-length")


def test_the_first_act_is_never_left_out():
    with pytest.raises(TrueriskError, match="give --minutes 1"):
        outline(SECONDS, 0.1, workers=2)


def test_more_attempts_only_where_there_is_time():
    assert outline(SECONDS, 10, workers=2).attempts == ATTEMPTS
    assert outline(SECONDS, (START + 10 + 41) / 60, workers=2).attempts == 1


def test_the_estimate_names_the_longest_time():
    assert "or up to 2 minutes if random labels are hard to fit" in outline(SECONDS, 10, workers=2).sentence
    assert "up to" not in outline(SECONDS, (START + 10 + 41) / 60, workers=2).sentence


def test_speed_is_measured():
    asked = Asked("mlp:8", "digits")
    data = asked.load()
    from truerisk.nets import architecture

    arch = architecture("mlp:8", data.input_shape, data.classes)
    speed = measured(asked, data, arch)
    assert speed.train > 0
    assert speed.draw > 0
    assert parts(asked, data, arch, Speed(1e-5, 1e-5)).keys() == set(ORDER)


@pytest.mark.parametrize("wrong", [{"delta": 1.5}, {"minutes": 0}, {"minutes": float("nan")}, {"seed": -1}])
def test_bad_options_are_refused(wrong):
    with pytest.raises(TrueriskError):
        Asked(**wrong)
