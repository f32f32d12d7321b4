"""`Data`: what it holds, what it refuses, and that its fingerprint sees every single value."""

from dataclasses import replace

import numpy as np
import pytest

from truerisk.data import Data, load, row_hashes
from truerisk.data.dataset import validate
from truerisk.errors import TrueriskError


def toy(n=20, classes=3):
    X = np.arange(n * 4, dtype=np.float32).reshape(n, 2, 2)
    return Data("toy", X, np.arange(n) % classes, classes)


def test_arrays_are_brought_to_one_type_and_layout():
    data = Data("toy", np.asfortranarray(np.ones((12, 5))), [True, False] * 6, classes=2)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.y.dtype == np.int64
    assert data.y.tolist() == [1, 0] * 6
    assert len(data) == 12
    assert data.input_shape == (5,)


def test_counts_show_absent_classes():
    assert Data("toy", np.ones((4, 1)), [0, 2, 2, 0], classes=4).counts.tolist() == [2, 0, 2, 0]


def test_take_keeps_the_order_and_forgets_the_source():
    data = replace(toy(), source="digits")
    part = data.take(np.array([7, 0, 3]))
    assert np.array_equal(part.X, data.X[[7, 0, 3]])
    assert part.y.tolist() == data.y[[7, 0, 3]].tolist()
    assert part.classes == 3
    assert part.source is None
    assert len(data.take([])) == 0


@pytest.mark.parametrize("rows", [[-1], [20], [0.5], [[0, 1]], [True, False]])
def test_take_refuses_what_is_no_index(rows):
    with pytest.raises(TrueriskError, match="row"):
        toy().take(rows)


def test_sha256_is_the_same_for_equal_data_and_known():
    # Pinned: certificates written by an older version must still find their data.
    assert toy().sha256 == toy().sha256
    assert toy().sha256 == "2e013891e30b181f9fb9130f0847b9a77a4e53b169531b0d71eda7bad5f5c50b"


@pytest.mark.parametrize("row", range(0, 20, 7))
def test_sha256_changes_with_any_single_value(row):
    data = toy()
    X, y = data.X.copy(), data.y.copy()
    X[row, 1, 0] = np.nextafter(X[row, 1, 0], np.float32(np.inf))
    y[row] = (y[row] + 1) % 3
    others = [
        replace(data, X=X),
        replace(data, y=y),
        replace(data, classes=4),
        replace(data, X=data.X.reshape(20, 4)),
        data.take(np.arange(20)[::-1]),
    ]
    assert len({data.sha256, *(other.sha256 for other in others)}) == 6


def test_sha256_is_of_the_data_alone():
    data = toy()
    assert replace(data, name="other", note="n", source="digits").sha256 == data.sha256


def rows(n=20, **change):
    arrays = {"X": np.linspace(0, 1, n * 2).reshape(n, 2), "y": np.arange(n) % 2, **change}
    return arrays["X"], arrays["y"]


NAN = np.ones((20, 2))
NAN[3, 1] = np.nan
REFUSED = {
    "empty": (rows(0), "empty"),
    "too few": (rows(9), "9 examples are too few"),
    "other length": (rows(y=np.arange(19) % 2), "20 inputs but 19 labels"),
    "nan": (rows(X=NAN), "NaN or infinite"),
    "infinite": (rows(X=np.full((20, 2), -np.inf)), "NaN or infinite"),
    "too large for 32 bits": (rows(X=np.full((20, 2), 1e300)), "NaN or infinite"),
    "fractional label": (rows(y=np.arange(20) / 2), r"measurements \(20 different values, such as 0.5\).* bin them"),
    "nan label": (rows(y=np.where(np.arange(20) == 4, np.nan, 1.0)), "labels are NaN"),
    "text label": (rows(y=np.array(["cat", "dog"] * 10)), "number the classes"),
    "negative label": (rows(y=np.arange(20) % 2 - 1), "-1 is negative"),
    "labels of signs": (rows(y=np.arange(20) % 2 * 2 - 1), r"-1 and 1, but must be 0 and 1; give \(y \+ 1\) // 2"),
    "signs as floats": (rows(y=np.arange(20) % 2 * 2.0 - 1), r"give \(y \+ 1\) // 2"),
    "three signs": (rows(y=np.arange(20) % 3 - 1), "-1 is negative"),
    "row numbers": (rows(150, y=np.arange(150)), "measurements .150 different values, such as 149"),
    "prices": (rows(600, y=np.arange(600) % 300 * 997), "measurements .300 different values"),
    "absurd label": (rows(y=np.arange(20) * 10**6), "largest label is 19000000"),
    "enormous label": (rows(y=np.arange(20) * 1e18), "too large to be classes"),
    "one class": (rows(y=np.ones(20)), "at least two classes"),
    "one-hot labels": (rows(y=np.eye(20)), "one integer per example"),
    "text inputs": (rows(X=np.array([["a", "b"]] * 20)), "real numbers"),
    "complex inputs": (rows(X=np.ones((20, 2)) * 1j), "real numbers"),
    "ragged inputs": (rows(X=[[1.0]] * 19 + [[1.0, 2.0]]), "one common shape"),
    "no features": (rows(X=np.zeros((20, 0))), "hold no features"),
    "flat inputs": (rows(X=np.zeros(20)), "hold no features"),
}


@pytest.mark.parametrize(("pair", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_arrays_are_refused_in_one_sentence(pair, sentence):
    with pytest.raises(TrueriskError, match=sentence) as caught:
        load(pair)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("arrays: ")


def test_labels_beyond_the_number_of_classes_are_refused():
    data = Data("toy", np.ones((12, 2)), np.arange(12) % 4, classes=3)
    with pytest.raises(TrueriskError, match="label 3 does not fit 3 classes"):
        load(data)


def test_the_minimum_can_be_lowered():
    validate(toy(n=4), minimum=4)
    with pytest.raises(TrueriskError, match="at least 10"):
        validate(toy(n=4))


def test_row_hashes_find_equal_rows_across_chunks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 3)).astype(np.float32)
    X[8999] = X[0]
    X[5000], X[17] = [0.0, 1.0, 2.0], [-0.0, 1.0, 2.0]
    digests = row_hashes(X)
    assert digests.dtype.itemsize == 16
    assert len(np.unique(digests)) == 8998
    assert digests[0] == digests[8999]
    assert digests[17] == digests[5000]
    assert np.array_equal(row_hashes(np.asfortranarray(X)), digests)


def test_masked_values_are_refused():
    X, y = np.ones((20, 2)), np.arange(20) % 2
    masked = np.ma.masked_array(X, mask=X > 0)
    for pair in ((masked, y), (X, np.ma.masked_array(y, mask=y == 1))):
        with pytest.raises(TrueriskError, match="some values are masked; fill in these values"):
            load(pair)
    assert len(load((np.ma.masked_array(X), y))) == 20  # nothing below its mask


def test_labels_are_a_copy():
    y = np.arange(20) % 2
    data = load((np.ones((20, 2)), y))
    y[:] = 1
    assert data.y.tolist() == [0, 1] * 10
