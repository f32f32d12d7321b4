"""Paths: what stands after a colon, files that cannot be read, and names that must not pass for known datasets."""

import numpy as np
import pytest

from truerisk.data import load, load_inputs
from truerisk.data.files import parse
from truerisk.errors import TrueriskError

X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2


@pytest.mark.parametrize(
    ("text", "path", "choice"),
    [
        ("a.csv", "a.csv", ""),
        ("a.csv:label", "a.csv", "label"),
        ("a.csv:odd: name", "a.csv", "odd: name"),
        ("a.csv:", "a.csv", ""),
        ("b:c.csv", "b:c.csv", ""),
        ("b:c.csv:label", "b:c.csv", "label"),
        ("folder:test", "folder", "test"),
        ("./folder/../a.csv:x,y", "./folder/../a.csv", "x,y"),
    ],
)
def test_parse(tmp_path, monkeypatch, text, path, choice):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").touch()
    (tmp_path / "b:c.csv").touch()
    (tmp_path / "folder").mkdir()
    found, chosen = parse(text)
    assert found.samefile(path)
    assert chosen == choice


@pytest.mark.parametrize("text", ["a.csv", "a.csv:label", ":", "::test", "x" * 5000, "a\0b.npz", "no/folder:test"])
def test_what_does_not_exist(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrueriskError, match="does not exist"):
        parse(text)
    with pytest.raises(TrueriskError):
        load(text)
    with pytest.raises(TrueriskError):
        load_inputs(text)


def test_home_and_upper_case(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with (tmp_path / "DATA.NPZ").open("wb") as stream:
        np.savez(stream, X=X, y=Y)
    assert load("~/DATA.NPZ").source == "DATA.NPZ"
    assert load("~/DATA.NPZ:X,y").source == "DATA.NPZ:X,y"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("model.onnx", r"is not .npz, .csv, .tsv, .parquet, .pt or a folder; convert it, for instance with np.savez"),
        ("data.mat", "convert it"),
        ("data.h5", "convert it"),
        ("data.txt", "convert it"),
        ("data.csv.gz", "convert it"),
        ("data", "convert it"),
        ("data.pkl", "never loaded because loading runs code; save arrays with np.savez"),
        ("data.pickle", "never loaded"),
        ("data.joblib", "never loaded"),
        ("data.npy", "labels are missing"),
        ("train-images-idx3-ubyte.gz", "give the folder"),
        ("data_batch_1.bin", "give the folder"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, sentence):
    (tmp_path / name).write_bytes(b"hello")
    with pytest.raises(TrueriskError, match=sentence) as caught:
        load(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name} ")
    assert len(str(caught.value).split()) <= 25
    with pytest.raises(TrueriskError):
        load_inputs(tmp_path / name)


def test_the_source_names_the_file_and_not_the_folders_of_its_maker(tmp_path):
    np.savez(tmp_path / "mine.npz", X=X, y=Y)
    data = load(tmp_path / "mine.npz")
    assert (data.name, data.source) == ("mine", "mine.npz")


def test_a_name_is_not_read_as_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "digits.npz", X=X, y=Y)
    (tmp_path / "digits.npz").rename(tmp_path / "digits")
    assert len(load_inputs("digits").X) == 1797
    with pytest.raises(TrueriskError, match="did you mean digits"):
        load_inputs("digitz")
    with pytest.raises(TrueriskError, match="convert it"):
        load_inputs("./digits")


def test_inputs_of_arrays_and_datasets():
    assert load_inputs(X).X.dtype == np.float32
    assert load_inputs(X.astype(np.int32)).X.dtype == np.int64
    assert load_inputs((X, Y)).y.tolist() == Y.tolist()
    with pytest.raises(TrueriskError, match="inputs: some inputs are NaN"):
        load_inputs(X * np.nan)


def test_a_name_with_control_characters(tmp_path):
    np.savez(tmp_path / "a\x1b[2J.npz", X=X, y=Y)
    data = load(tmp_path / "a\x1b[2J.npz")
    assert (data.name, data.source) == ("a?[2J", "a?[2J.npz")


def test_memory_that_does_not_suffice(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("truerisk.data.sources.from_arrays", fail)
    with pytest.raises(TrueriskError, match="does not fit in memory; give a smaller dataset"):
        load((X, Y))
    monkeypatch.setattr("truerisk.data.inputs.as_inputs", fail)
    with pytest.raises(TrueriskError, match="does not fit in memory; give a smaller dataset"):
        load_inputs(X)


def test_a_file_called_like_a_built_in_dataset(tmp_path, monkeypatch, notes):
    monkeypatch.chdir(tmp_path)
    load("digits")
    assert notes() == ""
    (tmp_path / "digits").mkdir()
    load("digits")
    assert "digits is the built-in dataset; type ./digits for the file or folder of this name" in notes()
