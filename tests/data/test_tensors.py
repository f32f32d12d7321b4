"""Files of torch.save: tensors only, by place or by name; nothing that could run code is loaded."""

import os
import pickle

import numpy as np
import pytest
import torch

from truerisk.data import load, load_inputs
from truerisk.errors import TrueriskError

X, Y = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2


@pytest.fixture
def save(tmp_path):
    def put(content, name="data.pt", **options):
        torch.save(content, tmp_path / name, **options)
        return tmp_path / name

    return put


@pytest.mark.parametrize("name", ["data.pt", "data.pth"])
@pytest.mark.parametrize("content", [(X, Y), [X, Y], {"X": X, "y": Y}, {"data": X, "targets": Y, "about": "toy"}])
def test_pairs_and_names(save, content, name):
    data = load(save(content, name))
    assert data.sha256 == load((X, Y)).sha256
    assert (data.name, data.source) == ("data", name)


def test_types_and_choices(save):
    assert load(save((X.bfloat16(), Y.bool()))).y.tolist() == [0, 1] * 10
    assert load(save((X.to(torch.uint8), Y), _use_new_zipfile_serialization=False)).X.max() <= 1
    assert load(save((torch.arange(40).reshape(20, 2), Y))).X.dtype == np.int64
    assert load(save({"X": X, "y": Y, "classes": 4})).classes == 4
    assert load(save({"X": X, "y": Y, "classes": torch.tensor(5)})).classes == 5
    path = save({"a": X, "b": -X, "c": Y, "x_test": X, "y_test": 1 - Y})
    assert load(f"{path}:b,c").sha256 == load((-X, Y)).sha256
    test = load(f"{path}:test")
    assert test.y.tolist() == [1, 0] * 10
    assert (test.name, test.source) == ("data:test", "data.pt:test")


REFUSED = {
    "one tensor": (X, r"labels are missing; save it with torch.save\(\(X, y\), path\)"),
    "three tensors": ((X, Y, Y), "does not hold a pair of tensors, but a tuple"),
    "numbers": ((1, 2), "but a tuple"),
    "text": ("hello", "but a str"),
    "nothing": (None, "but a NoneType"),
    "empty dictionary": ({}, "does not hold any array"),
    "weights": ({"0.weight": X, "0.bias": X[0]}, "type .*data.pt:INPUTS,LABELS"),
    "classes": ({"X": X, "y": Y, "classes": "two"}, "must be one integer"),
    "sparse": ((X.to_sparse(), Y), "not plain"),
    "complex": ((X * 1j, Y), "not plain"),
    "endless view": ((torch.zeros(1).expand(2**40), Y), "needs 13,194,139,533,312 bytes"),
    "measurements": ((X, Y / 3), "look like measurements"),
    "other length": ((X, Y[:-1]), "20 inputs but 19 labels"),
}


@pytest.mark.parametrize(("content", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(save, content, sentence):
    with pytest.raises(TrueriskError, match=sentence) as caught:
        load(save(content))
    assert "\n" not in str(caught.value)


class Payload:
    """Makes a folder as soon as it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_python_objects_run_nothing(save, tmp_path, zipped):
    mark = tmp_path / "mark"
    path = save((X, Payload(mark)), _use_new_zipfile_serialization=zipped)
    with pytest.raises(TrueriskError, match="never loaded because they can run code"):
        load(path)
    with pytest.raises(TrueriskError, match="never loaded because they can run code"):
        load_inputs(path)
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(TrueriskError, match="never loaded because they can run code"):
        load(path)
    assert not mark.exists()


def test_broken_files(save, monkeypatch):
    path = save((X, Y))
    content = path.read_bytes()
    for broken in (content[:-100], content[: len(content) // 2], b"hello", b"PK\x03\x04" + b"\0" * 60):
        path.write_bytes(broken)
        with pytest.raises(TrueriskError, match="is broken, or holds Python objects"):
            load(path)
    path.write_bytes(b"")
    with pytest.raises(TrueriskError, match="is empty"):
        load(path)
    path.write_bytes(content)
    monkeypatch.setattr("truerisk.data.formats.tensors.MAX_BYTES", 100)
    with pytest.raises(TrueriskError, match="unpacks to"):
        load(path)


def test_choices_without_names(save):
    with pytest.raises(TrueriskError, match="tensors without names"):
        load(f"{save((X, Y))}:X,y")


def test_inputs(save):
    assert load_inputs(save(X[:1])).y is None
    assert torch.equal(torch.as_tensor(load_inputs(save(X)).X), X)
    assert load_inputs(save((X, Y))).y.tolist() == Y.tolist()
    assert load_inputs(save({"X": X})).y is None


def test_views_that_repeat_and_views_that_negate(save):
    tiny = torch.zeros(1, 3)
    with pytest.raises(TrueriskError, match=r"repeats a few stored numbers; save its .contiguous\(\) copy"):
        load(save((tiny.expand(20, 3), Y)))
    # the rows of a larger tensor, and a transposed one, repeat nothing
    assert load(save((torch.cat([X, X])[:20], Y))).sha256 == load((X, Y)).sha256
    assert load(save((X.T.contiguous().T, Y))).sha256 == load((X, Y)).sha256
    negated = torch._neg_view(-Y)
    assert load(save((X, negated))).y.tolist() == Y.tolist()
    assert load((X, negated)).y.tolist() == Y.tolist()
    assert load((torch._neg_view(X), Y)).sha256 == load((-X, Y)).sha256
