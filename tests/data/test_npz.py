"""npz files: names of arrays, text labels, no pickles, and every broken file gets its own sentence."""

import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from truerisk.data import load, load_inputs
from truerisk.data.formats.npz import read_npz
from truerisk.errors import TrueriskError


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_round_trip(tmp_path, save, monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(30, 5)), np.arange(30) % 3
    save(tmp_path / "a.npz", X=X, y=y)
    save(tmp_path / "b.npz", X=X, y=y, classes=7)
    assert read_npz(tmp_path / "a.npz").classes is None
    assert np.array_equal(read_npz(tmp_path / "a.npz").X, X)
    assert read_npz(tmp_path / "b.npz").classes == 7
    data = load(tmp_path / "b.npz")
    assert data.classes == 7
    assert data.source == "b.npz"
    monkeypatch.chdir(tmp_path)
    assert load(data.source).sha256 == data.sha256


class Payload:
    """Makes a folder as soon as it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("key", ["X", "y", "classes"])
def test_a_pickle_inside_an_npz_runs_nothing(tmp_path, key):
    mark, path = tmp_path / "mark", tmp_path / "evil.npz"
    arrays = {"X": np.ones((20, 2)), "y": np.arange(20) % 2, "classes": np.int64(2)}
    np.savez(path, **{**arrays, key: np.array([Payload(mark)] * 20, dtype=object)})
    with pytest.raises(TrueriskError, match="never loaded because they can run code"):
        load(path)
    assert not mark.exists()


def test_a_bare_pickle_named_npz_runs_nothing(tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "evil.npz"
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(TrueriskError, match="not a readable npz file"):
        load(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()  # so the payload would have worked


def test_other_broken_npz_files_get_their_sentence(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.ones((20, 50)), y=np.arange(20) % 2, classes=np.array([1.5]))
    with pytest.raises(TrueriskError, match="must be one integer"):
        load(path)
    np.savez(path, X=np.ones((20, 50)), y=np.arange(20) % 2)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TrueriskError, match="not a readable npz file"):
        load(path)
    path.write_bytes(content.replace(np.float64(1).tobytes() * 3, b"\1" * 24, 1))
    with pytest.raises(TrueriskError, match=r"not a readable npz file .*CRC"):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(TrueriskError, match="is empty"):
        load(path)


def test_an_npz_header_cannot_make_the_reader_allocate(tmp_path):
    path = tmp_path / "huge.npz"
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", member + b"\0" * 80)
        archive.writestr("y.npy", member)
    with pytest.raises(TrueriskError, match="more than the file can hold"):
        load(path)
