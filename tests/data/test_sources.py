"""`load`: every kind of source, the search order of folders, and what is said where nothing is found."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from truerisk.data import Data, catalogue, fetch, folders, load
from truerisk.data.download import encode_idx
from truerisk.errors import TrueriskError


def write_idx(folder, n=20, prefix="train", value=255, ending=""):
    """A tiny data set in MNIST's files, all of whose pixels have the given value."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.full((n, 3, 3), value, dtype=np.uint8)
    labels = (np.arange(n) % 10).astype(np.uint8)
    (folder / f"{prefix}-images-idx3-ubyte{ending}").write_bytes(encode_idx(images))
    (folder / f"{prefix}-labels-idx1-ubyte{ending}").write_bytes(encode_idx(labels))


def write_cifar(folder, batches, n=4):
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(batches):
        records = np.full((n, 3073), 51, dtype=np.uint8)
        records[:, 0] = (np.arange(n) + i) % 10
        (folder / name).write_bytes(records.tobytes())


@pytest.fixture
def empty_places(monkeypatch, tmp_path):
    """No data anywhere: the variable and the cache point into an empty folder."""
    monkeypatch.setenv("TRUERISK_DATA", str(tmp_path / "variable"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    return tmp_path


def test_digits():
    data = load("digits")
    assert data.X.shape == (1797, 1, 8, 8)
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert data.classes == 10
    assert load(data.source).sha256 == data.sha256
    assert load(data) is data


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, np.ndarray.tolist])
def test_pairs_of_arrays_tensors_and_lists(kind):
    X, y = np.random.default_rng(0).normal(size=(30, 2, 3)), np.arange(30) % 4
    data = load((kind(X), kind(y)))
    assert isinstance(data, Data)
    assert data.X.shape == (30, 2, 3)
    assert np.array_equal(data.X, X.astype(np.float32))
    assert data.y.tolist() == y.tolist()
    assert data.classes == 4
    assert data.source is None


def test_only_bytes_are_scaled():
    y = np.arange(20) % 2
    X = np.arange(40).reshape(20, 2)
    assert load((X.astype(np.uint8), y)).X.max() == np.float32(39 / 255)
    assert load((torch.as_tensor(X, dtype=torch.uint8), y)).X.max() == np.float32(39 / 255)
    for dtype in (np.int16, np.int64, np.float16, np.float64):
        assert load((X.astype(dtype), y)).X.max() == 39


def test_tensors_with_gradients_bfloat16_and_whole_float_labels():
    X = torch.ones(20, 2, dtype=torch.bfloat16, requires_grad=True)
    assert load((X, torch.arange(20.0) % 2)).y.tolist() == [0, 1] * 10


def test_later_changes_of_the_callers_array_do_not_reach_the_data():
    X = np.ones((20, 2), dtype=np.float32)
    data = load((X, np.arange(20) % 2))
    X[:] = 7
    assert data.X.max() == 1


def test_folders_are_searched_in_order(empty_places):
    argument, variable, cache = empty_places / "a", empty_places / "variable", empty_places / "cache/truerisk"
    assert folders(argument) == [argument, variable, cache]
    assert folders() == [variable, cache]
    # From the last to the first: each new copy must hide the ones before.
    for place, value in ((cache, 51), (variable, 102), (argument, 204)):
        write_idx(place / "mnist", value=value)
        data = load("mnist", data_dir=argument)
        assert data.X.max() == np.float32(value / 255)
    assert load("mnist").X.max() == np.float32(102 / 255)
    assert data.name == data.source == "mnist"
    assert data.classes == 10


def test_an_incomplete_folder_is_passed_over(empty_places):
    write_idx(empty_places / "variable" / "mnist", value=51)
    write_idx(empty_places / "a" / "mnist", value=102)
    (empty_places / "a" / "mnist" / "train-labels-idx1-ubyte").unlink()
    assert load("mnist", data_dir=empty_places / "a").X.max() == np.float32(51 / 255)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar-10", "mnist:test", "cifar-10:test"])
def test_a_missing_name_lists_all_places_and_the_way_out(empty_places, name):
    with pytest.raises(TrueriskError) as caught:
        load(name, data_dir=empty_places / "a")
    plain = name.removesuffix(":test")
    for place in ("a", "variable", "cache/truerisk"):
        assert str(empty_places / place / plain) in str(caught.value)
    assert f"truerisk data get {plain}" in str(caught.value)
    assert "TRUERISK_DATA" in str(caught.value)


@pytest.mark.parametrize("sub", ["", "cifar-10-batches-bin"])
def test_cifar_folder_layouts(empty_places, sub, monkeypatch):
    folder = empty_places / "a" / "cifar-10"
    write_cifar(folder / sub, [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"], n=12)
    data, test = (load(name, data_dir=empty_places / "a") for name in ("cifar-10", "cifar-10:test"))
    assert data.X.shape == (60, 3, 32, 32)
    assert test.X.shape == (12, 3, 32, 32)
    assert data.X.max() == np.float32(0.2)
    by_path = load(folder)
    assert by_path.sha256 == data.sha256
    # A folder of one's own must not pass for the known dataset of that name.
    assert (by_path.source, by_path.name) == ("./cifar-10", "cifar-10")
    assert load(f"{folder}:test").source == "./cifar-10:test"
    monkeypatch.chdir(folder.parent)
    assert load(by_path.source).sha256 == data.sha256


def test_folders_of_idx_files_by_path(tmp_path, monkeypatch):
    write_idx(tmp_path / "one", prefix="t10k", ending=".gz")
    with pytest.raises(TrueriskError, match=r"holds only a test part; load it as .*one:test"):
        load(tmp_path / "one")
    test = load(f"{tmp_path / 'one'}:test")
    assert test.name == test.source == "one:test"
    monkeypatch.chdir(tmp_path)
    assert load(test.source).sha256 == test.sha256
    write_idx(tmp_path / "one", n=30)
    assert len(load(str(tmp_path / "one"))) == 30
    (tmp_path / "dots").mkdir()
    for path in (tmp_path / "one").glob("train*"):
        path.rename(tmp_path / "dots" / path.name.replace("-idx", ".idx"))
    assert len(load(tmp_path / "dots")) == 30


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("minst", "did you mean mnist"),
        ("FashionMNIST", "did you mean fashion-mnist"),
        ("zzzzzz", "known are digits, mnist1d"),
        ("digits:test", "digits has no test part"),
        ("no/such/folder", "no/such/folder does not exist"),
        ("nothing.npz", "nothing.npz does not exist"),
        (Path("digits"), "does not exist"),
        ("", "nor a file ''"),
        (None, "NoneType is not a dataset"),
        (7, "int is not a dataset"),
        (np.ones((20, 2)), "ndarray is not a dataset"),
        ({"X": 1}, "dict is not a dataset"),
        ((1, 2, 3), "3 arrays, but must be two"),
    ],
)
def test_what_is_no_data_is_refused(spec, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrueriskError, match=sentence):
        load(spec)


def test_folders_and_files_that_hold_no_data(tmp_path):
    with pytest.raises(TrueriskError, match=r"holds neither train-images.* nor data_batch_1.bin to data_batch_5.bin"):
        load(tmp_path)
    with pytest.raises(TrueriskError, match=r"holds neither t10k-images.* nor test_batch.bin nor images as test/CLASS"):
        load(f"{tmp_path}:test")


def test_a_name_wins_over_a_folder_of_the_same_name(empty_places, monkeypatch):
    write_idx(empty_places / "digits", n=30)
    monkeypatch.chdir(empty_places)
    assert len(load("digits")) == 1797
    assert len(load("./digits")) == 30
    assert len(load(Path("digits"))) == 30


def test_catalogue(empty_places):
    write_idx(empty_places / "variable" / "fashion-mnist")
    rows = {row["name"]: row for row in catalogue()}
    assert {key for row in rows.values() for key in row} == {
        "name",
        "examples",
        "shape",
        "where",
        "how_to_get",
    }
    assert rows["digits"]["where"] == rows["mnist1d:test"]["where"] == "built in"
    assert rows["mnist"]["where"] == "not found"
    assert rows["fashion-mnist"]["where"] == str(empty_places / "variable" / "fashion-mnist")
    assert rows["fashion-mnist:test"]["where"] == "not found"
    assert rows["cifar-10"]["examples"] == 50_000
    assert rows["cifar-10"]["shape"] == (3, 32, 32)
    assert "truerisk data get mnist" in rows["mnist"]["how_to_get"]


def test_fetch_of_what_is_here_already(empty_places):
    assert "nothing has to be fetched" in fetch("digits")
    assert "nothing has to be fetched" in fetch("mnist1d:test")
    write_idx(empty_places / "a" / "mnist")
    write_idx(empty_places / "a" / "mnist", prefix="t10k")
    assert fetch("mnist", data_dir=empty_places / "a") == empty_places / "a" / "mnist"
    with pytest.raises(TrueriskError, match="did you mean mnist"):
        fetch("minst")


def test_the_package_imports_neither_torch_nor_sklearn():
    code = "import sys, truerisk.data; print([m for m in ('torch', 'sklearn', 'mnist1d') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not os.environ.get("TRUERISK_DATA"), reason="TRUERISK_DATA does not name a folder with data")
@pytest.mark.parametrize(
    ("name", "n", "first", "mean"),
    [
        ("mnist", 60_000, [5, 0, 4, 1, 9], 0.1307),
        ("mnist:test", 10_000, [7, 2, 1, 0, 4], 0.1325),
        ("fashion-mnist", 60_000, [9, 0, 0, 3, 0], 0.2860),
        ("fashion-mnist:test", 10_000, [9, 2, 1, 1, 6], 0.2868),
    ],
)
def test_real_files(name, n, first, mean):
    if not any((place / name.removesuffix(":test")).is_dir() for place in folders()):
        pytest.skip(f"{name} is not in the folder that TRUERISK_DATA names")
    data = load(name)
    assert data.X.shape == (n, 1, 28, 28)
    assert data.y[:5].tolist() == first
    assert data.X.mean(dtype=np.float64) == pytest.approx(mean, abs=1e-4)
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert data.counts.sum() == n
