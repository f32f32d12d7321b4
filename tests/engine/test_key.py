"""Keys: equal for equal settings, different for anything else; what is not plain JSON is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerisk.engine import canonical, key
from truerisk.errors import TrueriskError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), plain, max_size=5))
def test_the_order_of_fields_does_not_matter(setting):
    turned = dict(reversed(setting.items()))
    assert key("e", "1", setting) == key("e", "1", turned)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"p": 0}, {"p": 1}),
        ({"p": 1}, {"q": 1}),
        ({"p": 1}, {"p": "1"}),
        ({"p": True}, {"p": "True"}),
        ({"p": [1, 2]}, {"p": [2, 1]}),
        ({"p": 0.1}, {"p": 0.1 + 1e-17 + 2e-17}),
        ({"p": None}, {}),
    ],
)
def test_different_settings_have_different_keys(one, other):
    assert one != other
    assert key("e", "1", one) != key("e", "1", other)


def test_experiment_and_version_count():
    setting = {"p": 1}
    assert len({key(e, v, setting) for e in ("a", "b") for v in ("1-x", "1-y", "2-x")}) == 6


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {"b": float("nan")}}, r"\['a'\]\['b'\] is nan"),
        ({"a": [1, float("inf")]}, r"\['a'\]\[1\] is inf"),
        ({"a": object()}, r"\['a'\] is a object"),
        ({"a": (1, 2)}, "lists instead of tuples"),
        ({1: 2}, "text as keys"),
    ],
)
def test_what_is_not_plain_is_named(value, said):
    with pytest.raises(TrueriskError, match=said):
        canonical(value)
