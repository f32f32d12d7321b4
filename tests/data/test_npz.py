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


X, Y = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32), np.arange(30) % 3
WELL_KNOWN = [
    ("x", "y"),
    ("data", "labels"),
    ("data", "target"),
    ("images", "labels"),
    ("inputs", "targets"),
    ("Features", "Labels"),
    ("X", "Y"),
    ("x_train", "y_train"),
    ("train_images", "train_labels"),
    ("Xtrain", "ytrain"),
    ("cells", "kind"),  # not well known, but the only choice
]


@pytest.mark.parametrize(("inputs", "labels"), WELL_KNOWN)
def test_other_names_are_found_and_told(tmp_path, notes, inputs, labels):
    path = tmp_path / "data.npz"
    np.savez(path, **{labels: Y, inputs: X})
    assert load(path).sha256 == load((X, Y)).sha256
    assert f"note: data.npz: using {inputs} as inputs and {labels} as labels." in notes()


def test_nothing_is_told_about_x_and_y_which_win_over_all_others(tmp_path, notes):
    np.savez(tmp_path / "data.npz", X=X, y=Y, data=-X, labels=Y[::-1], x=X + 1)
    assert load(tmp_path / "data.npz").sha256 == load((X, Y)).sha256
    assert notes() == ""


def test_train_and_test_parts(tmp_path, monkeypatch):
    path = tmp_path / "both.npz"
    np.savez(path, x_train=X, y_train=Y, x_test=-X[:12], y_test=Y[:12])
    train, test = load(path), load(f"{path}:test")
    assert train.sha256 == load((X, Y)).sha256
    assert test.sha256 == load((-X[:12], Y[:12])).sha256
    assert (train.name, train.source) == ("both", "both.npz")
    assert (test.name, test.source) == ("both:test", "both.npz:test")
    monkeypatch.chdir(tmp_path)
    assert load(test.source).sha256 == test.sha256
    np.savez(path, x_test=X, y_test=Y)
    with pytest.raises(TrueriskError, match=r"holds only a test part; load it as .*both.npz:test"):
        load(path)
    np.savez(path, X=X, y=Y)
    with pytest.raises(TrueriskError, match="does not have a test part"):
        load(f"{path}:test")


def test_arrays_by_name(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, a=X, b=-X, c=Y, d=(Y + 1) % 3)
    data = load(f"{path}:b,d")
    assert data.sha256 == load((-X, (Y + 1) % 3)).sha256
    assert data.source == "data.npz:b,d"
    assert load(f"{path}: a , c ").sha256 == load((X, Y)).sha256
    for choice, sentence in (("a,e", "does not hold 'e'"), ("a", "does not name two"), ("a,a", "does not name two")):
        with pytest.raises(TrueriskError, match=sentence):
            load(f"{path}:{choice}")
    assert np.array_equal(load_inputs(f"{path}:b").X, -X)


AMBIGUOUS = {
    "two inputs": {"a": X, "b": X, "c": Y},
    "two labels": {"a": X, "b": Y, "c": Y},
    "two well-known labels": {"data": X, "labels": Y, "target": Y},
    "no labels": {"X": X},
    "labels of another length": {"a": X, "b": Y[:-1]},
    "labels with fractions": {"a": X, "b": Y / 2},
    "no inputs": {"a": Y, "b": Y},
}


@pytest.mark.parametrize("arrays", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_one_question_where_arrays_cannot_be_told_apart(tmp_path, arrays):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(TrueriskError) as caught:
        load(path)
    name, array = next(iter(arrays.items()))
    assert f"holds {name} {array.shape}" in str(caught.value)
    assert str(caught.value).endswith(f"type {path}:INPUTS,LABELS.")


def test_text_labels_are_numbered(tmp_path, notes):
    texts = np.array(["setosa", "virginica", "iris"] * 10)
    for labels in (texts, texts.astype("S")):
        np.savez(tmp_path / "data.npz", X=X, y=labels)
        data = load(tmp_path / "data.npz")
        assert data.y.tolist() == [1, 2, 0] * 10
        assert (data.class_names, data.classes) == (("iris", "setosa", "virginica"), 3)
        assert "iris = 0, setosa = 1, virginica = 2." in notes()
    assert load_inputs(tmp_path / "data.npz").class_names == ("iris", "setosa", "virginica")
    np.savez(tmp_path / "data.npz", X=X, y=Y)
    assert load(tmp_path / "data.npz").class_names == ()
    with pytest.raises(TrueriskError, match="return_inverse"):
        load((X, texts))  # arrays are taken as they are


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [(["a", ""] * 15, "labels are empty"), ([b"\xff", b"a"] * 15, "not UTF-8"), (list(map(str, range(150))), "differ")],
)
def test_texts_that_are_no_classes(tmp_path, labels, sentence):
    np.savez(tmp_path / "data.npz", X=np.ones((len(labels), 2)), y=np.array(labels))
    with pytest.raises(TrueriskError, match=sentence):
        load(tmp_path / "data.npz")


def test_members_that_are_no_arrays_are_passed_over(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=X, y=Y)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "hello")
    assert load(path).sha256 == load((X, Y)).sha256


def test_inputs_of_npz_files(tmp_path, notes):
    path = tmp_path / "data.npz"
    np.savez(path, X=X[:1])
    assert load_inputs(path).X.shape == (1, 4)
    assert load_inputs(path).y is None
    np.savez(path, X=X, y=Y)
    assert load_inputs(str(path)).y.tolist() == Y.tolist()
    np.savez(path, features=np.arange(6).reshape(2, 3), row=np.arange(2))
    inputs = load_inputs(path)
    assert inputs.X.dtype == np.int64
    assert inputs.y is None  # row numbers are not guessed to be labels
    np.savez(path, images=np.full((2, 1, 2, 2), 51, dtype=np.uint8), labels=np.array([0, 1]))
    assert load_inputs(path).X.max() == np.float32(0.2)
    assert load_inputs(path).y.tolist() == [0, 1]
    np.savez(path, a=X, b=X)
    with pytest.raises(TrueriskError, match=r"type .*data.npz:INPUTS\.$"):
        load_inputs(path)
    np.savez(path, X=X, y=Y[:-1])
    with pytest.raises(TrueriskError, match="30 inputs but 29 labels"):
        load_inputs(path)
    np.savez(path, X=X, y=Y % 2 * 2 - 1)
    with pytest.raises(TrueriskError, match="-1 and 1"):
        load_inputs(path)


@pytest.mark.parametrize("classes", [10**12, -1, 0])
def test_a_number_of_classes_that_cannot_be(tmp_path, classes):
    np.savez(tmp_path / "data.npz", X=np.ones((20, 2)), y=np.arange(20) % 2, classes=classes)
    with pytest.raises(TrueriskError, match=r"number of classes is .*, but must be from 1 to 10,000"):
        load(tmp_path / "data.npz")


def test_doubled_members(tmp_path):
    path, arrays = (
        tmp_path / "data.npz",
        {"X": np.zeros((20, 2)), "X.npy": np.ones((20, 2)), "y.npy": np.arange(20) % 2},
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name, "w") as stream:
                np.save(stream, array)
    with pytest.raises(TrueriskError, match="two arrays named X; save it again"):
        load(path)


def test_bytes_get_a_note(tmp_path, notes):
    X, y = np.ones((20, 2), dtype=np.uint8), np.arange(20) % 2
    np.savez(tmp_path / "data.npz", X=X, y=y)
    np.save(tmp_path / "new.npy", X)
    for spec in (tmp_path / "data.npz", (X, y)):
        load(spec)
        assert notes().count("bytes are divided by 255") == 1
    load_inputs(tmp_path / "new.npy")
    assert notes().count("bytes are divided by 255") == 1
    load((X.astype(np.int16), y))
    assert "divided" not in notes()
