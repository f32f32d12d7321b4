"""`truerisk data get`: what OpenML delivers is written as the original files, or not at all."""

import gzip
import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils import Bunch

from truerisk.data import download as download_module
from truerisk.data import fetch, folders, load
from truerisk.data.download import MD5, download, encode_idx
from truerisk.data.formats.idx import read_idx
from truerisk.data.places import find
from truerisk.errors import TrueriskError


@pytest.fixture(scope="module")
def mnist():
    """The 70,000 rows of OpenML's mnist_784, made from the original files."""
    if not os.environ.get("TRUERISK_DATA"):
        pytest.skip("TRUERISK_DATA does not name a folder with data")
    parts = [find("mnist", part) for part in ("train", "test")]
    if None in parts:
        pytest.skip("mnist is not in the folder that TRUERISK_DATA names")
    arrays = [[read_idx(path) for path in files.paths] for files in parts]
    pixels = np.concatenate([images.reshape(-1, 784) for images, _ in arrays]).astype(np.float64)
    labels = np.concatenate([labels for _, labels in arrays]).astype(str).astype(object)
    return Bunch(data=pixels, target=labels)


def serve(monkeypatch, result):
    calls = []

    def fake(**options):
        calls.append(options)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fake)
    return calls


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No other folder than `data_dir` and an empty cache."""
    monkeypatch.delenv("TRUERISK_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    return tmp_path


def test_mnist_becomes_the_original_files(mnist, monkeypatch, tmp_path):
    original = load("mnist:test")
    monkeypatch.delenv("TRUERISK_DATA")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    calls = serve(monkeypatch, mnist)
    folder = fetch("mnist", data_dir=tmp_path / "a")
    assert folder == tmp_path / "a" / "mnist"
    assert (calls[0]["name"], calls[0]["version"]) == ("mnist_784", 1)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{file}.gz" for file in MD5["mnist"])
    for file, md5 in MD5["mnist"].items():
        content = gzip.decompress((folder / f"{file}.gz").read_bytes())
        assert hashlib.md5(content).hexdigest() == md5
    assert load("mnist:test", data_dir=tmp_path / "a").sha256 == original.sha256
    assert fetch("mnist", data_dir=tmp_path / "a") == folder
    assert len(calls) == 1  # what is here is not fetched again


def test_one_wrong_pixel_is_noticed_and_nothing_is_written(mnist, monkeypatch, alone):
    pixels = mnist.data.copy()
    pixels[69_999, 300] += 1
    serve(monkeypatch, Bunch(data=pixels, target=mnist.target))
    with pytest.raises(TrueriskError, match="differs from the original t10k-images-idx3-ubyte"):
        fetch("mnist", data_dir=alone / "a")
    assert list((alone / "a" / "mnist").iterdir()) == []


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (OSError("no route to host"), "no route to host.*check the network"),
        (Bunch(data=np.ones((5, 784)), target=np.ones(5)), "delivered \\(5, 784\\) numbers"),
    ],
)
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_failed_downloads(monkeypatch, alone, name, result, sentence):
    serve(monkeypatch, result)
    with pytest.raises(TrueriskError, match=sentence):
        fetch(name, data_dir=alone / "a")


def test_cifar_batches_are_cut_and_ordered(monkeypatch, alone):
    # A small copy with its own sums: the real one is not needed to see that rows end up in the right files.
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, size=(60, 3072)), np.arange(60) % 10
    records = np.concatenate([labels[:, None], pixels], axis=1).astype(np.uint8)
    sums = {
        file: hashlib.md5(records[10 * i : 10 * i + 10].tobytes()).hexdigest() for i, file in enumerate(MD5["cifar-10"])
    }
    monkeypatch.setitem(download_module.MD5, "cifar-10", sums)
    known = replace(download_module.KNOWN["cifar-10"], examples={"train": 50, "test": 10})
    monkeypatch.setitem(download_module.KNOWN, "cifar-10", known)
    serve(monkeypatch, Bunch(data=pixels, target=labels))
    assert download("cifar-10", data_dir=alone / "a") == alone / "a" / "cifar-10"
    train, test = (load(name, data_dir=alone / "a") for name in ("cifar-10", "cifar-10:test"))
    assert np.array_equal(train.y, labels[:50])
    assert np.array_equal(train.X.reshape(50, -1), (pixels[:50].astype(np.float32) / np.float32(255)))
    assert np.array_equal(test.y, labels[50:])


def test_a_folder_that_cannot_be_made_is_passed_over(monkeypatch, alone):
    (alone / "file").write_text("in the way")
    monkeypatch.setenv("TRUERISK_DATA", str(alone / "variable"))
    serve(monkeypatch, OSError("unplugged"))
    assert len(folders(alone / "file")) == 3
    with pytest.raises(TrueriskError, match="unplugged"):
        download("mnist", data_dir=alone / "file")
    assert (alone / "variable" / "mnist").is_dir()
    monkeypatch.setenv("TRUERISK_DATA", str(alone / "file"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(alone / "file"))
    with pytest.raises(TrueriskError, match="can be written to"):
        download("mnist", data_dir=alone / "file")


def test_encode_idx_is_read_back(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "x").write_bytes(encode_idx(array))
    assert np.array_equal(read_idx(tmp_path / "x"), array)
