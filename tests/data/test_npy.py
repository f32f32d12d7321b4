"""npy files: inputs without labels."""

import struct

import numpy as np
import pytest

from truerisk.data import load, load_inputs
from truerisk.errors import TrueriskError


def test_an_array_is_inputs(tmp_path):
    path = tmp_path / "new.npy"
    for array, dtype in ((np.ones((1, 3)), np.float32), (np.ones((2, 3), dtype=np.int16), np.int64)):
        np.save(path, array)
        X, y, names, _ = load_inputs(path)
        assert X.dtype == dtype
        assert np.array_equal(X, array)
        assert (y, names) == (None, ())
    np.save(path, np.array([[255, 51]], dtype=np.uint8))
    assert load_inputs(str(path)).X.tolist() == [[1, np.float32(0.2)]]


def test_labels_are_missing(tmp_path):
    np.save(tmp_path / "new.npy", np.ones((20, 3)))
    with pytest.raises(TrueriskError, match=r"labels are missing; save both with np.savez\("):
        load(tmp_path / "new.npy")


def header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


BROKEN = {
    "empty": (b"", "is empty"),
    "text": (b"1,2,3", "not a readable npy file"),
    "huge": (header("(1099511627776,)") + b"\0" * 80, "but holds 80"),
    "header without an end": (header("(3, 2)").replace(b"}", b" "), "broken header, TokenError"),
    "truncated": (header("(3, 2)") + b"\0" * 40, "but holds 40"),
    "negative": (header("(-3, 2)") + b"\0" * 48, "not a readable npy file"),
    "not a number": (header("(1, 1)") + struct.pack("<d", float("nan")), "NaN"),
}


@pytest.mark.parametrize(("content", "sentence"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_files(tmp_path, content, sentence):
    (tmp_path / "new.npy").write_bytes(content)
    with pytest.raises(TrueriskError, match=sentence):
        load_inputs(tmp_path / "new.npy")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "new.npy", np.array([{}], dtype=object))
    with pytest.raises(TrueriskError, match="never loaded"):
        load_inputs(tmp_path / "new.npy")
    with pytest.raises(TrueriskError, match="does not exist"):
        load_inputs(tmp_path / "nothing.npy")
