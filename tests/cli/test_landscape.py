"""``truerisk landscape`` as from a shell."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

FAST = ("--size", "3", "--rows", "30", "--planes", "1", "--workers", "1")
NET = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), {act}(), nn.Linear(4, 2))
"""


@pytest.fixture
def own(tmp_path):
    """A file with a network, its weights, checkpoints, and data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)).astype(np.float32)
    np.savez(tmp_path / "train.npz", X=X, y=(X[:, 0] > 0).astype(int))
    (tmp_path / "net.py").write_text(NET.format(act="nn.ReLU"))
    (tmp_path / "smooth.py").write_text(NET.format(act="nn.Tanh"))
    for k in range(3):
        torch.manual_seed(k)
        net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
        save_file(net.state_dict(), tmp_path / f"{k}.safetensors")
    return ("--model", "net.py:build", "--weights", "2.safetensors", "--data", "train.npz")


def test_a_users_network(run, own, tmp_path):
    code, out, err = run("landscape", *own, *FAST)
    assert (code, err) == (0, "")
    assert out.startswith("The loss of this network doubles at a distance of ")
    assert "rescaled" in out
    assert "One slice proves nothing" in " ".join(out.split())
    record = json.loads((tmp_path / "truerisk-landscape" / "landscape.json").read_text())
    plane = record["planes"][0]
    assert plane["network"]["center"] == pytest.approx(plane["twin"]["center"], rel=1e-4)
    page = (tmp_path / "truerisk-landscape" / "landscape.html").read_text()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert not (tmp_path / "truerisk-landscape" / ".work").exists()


def test_json_is_one_object_and_the_same_twice(run, own):
    first = run("landscape", *own, *FAST, "--json")[1]
    assert json.loads(first)["examples"] == 30
    assert run("landscape", *own, *FAST, "--json")[1] == first


@pytest.mark.parametrize("plane", ["line", "hessian"])
def test_other_planes(run, own, plane):
    code, out, _ = run("landscape", *own, *FAST, "--plane", plane)
    assert code == 0
    assert ("eigenvalues" in out) == (plane == "hessian")


def test_a_path(run, own):
    path = ("--plane", "pca", "--trajectory", "0.safetensors", "--trajectory", "1.safetensors")
    code, out, _ = run("landscape", *own, *FAST, *path, "--json")
    plane = json.loads(out)["planes"][0]
    assert code == 0
    assert len(plane["path"]) == 3
    assert sum(plane["explained"]) == pytest.approx(1)  # three points lie in a plane


def test_a_network_without_a_twin(run, own):
    code, out, _ = run("landscape", "--model", "smooth.py:build", *own[2:], *FAST)
    assert code == 0
    assert "There is no twin to compare with" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--plane", "tangent"), "--plane is 'tangent'"),
        (("--size", "50"), "--size is 50, but must be an odd number"),
        (("--planes", "0"), "--planes is 0"),
        (("--reach", "-1"), "--reach is -1"),
        (("--directions", "rows"), "--directions is 'rows'"),
        (("--workers", "0"), "--workers is 0"),
        (("--std", "0"), "--std is 0"),
        (("--trajectory", "0.safetensors"), "add --plane pca"),
        (("--plane", "pca"), "must name at least 2"),
        (("--weights", "none.pt"), "does not exist"),
    ],
)
def test_slips(run, own, words, says):
    code, out, err = run("landscape", *own, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_with_no_arguments_a_network_is_trained_first(run, tmp_path):
    code, out, err = run("landscape", *FAST)
    assert code == 0
    assert "mlp:64-64 is trained first" in err
    assert "mlp:64-64" in out
    assert (tmp_path / "truerisk-landscape" / "network.safetensors").is_file()
