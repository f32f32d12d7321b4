"""``truerisk symmetry`` and ``truerisk rescale``."""

from __future__ import annotations

import json
import logging
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch._subclasses.fake_tensor import FakeTensorMode

from truerisk import TrueriskError, find_symmetry

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.hidden, self.head = nn.Linear(6, 8), nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.bn(self.stem(x))).mean((2, 3))
        return self.head(self.hidden(x).tanh())

def build():
    return Net()

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(20, 4), nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.head(torch.relu(self.hidden(self.embed(x).mean(1))))
"""


@pytest.fixture
def net(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    return "net.py:build"


def test_symmetry_for_people(run, net):
    code, out, err = run("symmetry", "--model", net, "--input", "1,3,8,8")
    assert (code, err) == (0, "")
    assert "12 channels of this network can be rescaled" in out
    assert "stem (conv2d)" in out
    assert "bn.running_mean" in out
    assert "tanh" in out
    assert "is not homogeneous" in " ".join(out.split())


def test_symmetry_for_programs(run, net):
    code, out, _ = run("symmetry", "--model", net, "--input", "1,3,8,8", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["dim"] == 12
    assert [(group["name"], group["size"]) for group in found["groups"]] == [
        ("stem (conv2d)", 6),
        ("bn (batch_norm)", 6),
    ]
    assert found["groups"][1]["moves"] == ["bn.weight", "bn.bias", "hidden.weight"]
    assert [pin["name"] for pin in found["pinned"]] == ["forward"]
    assert found["pinned"][0]["operation"] == "tanh"


def test_symmetry_tells_what_tighten_holds(run, net, tmp_path):
    namespace: dict = {}
    exec(NET, namespace)
    trained = namespace["build"]()
    trained.bn.running_mean[:2] = 1.0
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    arguments = ["symmetry", "--model", net, "--weights", "w.safetensors", "--input", "1,3,8,8"]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "Held in tighten" in out
    assert "rescaling them would move bn.running_mean" in " ".join(out.split())
    pin, held = json.loads(run(*arguments, "--json")[1])["pinned"]
    assert (pin["kind"], pin["operation"], pin["count"]) == ("pinned", "tanh", None)
    assert (held["kind"], held["name"], held["count"]) == ("held in tighten", "stem (conv2d)", 2)
    assert "bn.running_mean" in held["why"]
    assert "Held in tighten" not in run("symmetry", "--model", net, "--input", "1,3,8,8")[1]


def test_tokens_and_built_in_networks(run, net):
    code, out, _ = run("symmetry", "--model", "net.py:Words", "--input", "1,7", "--integers", "20", "--json")
    assert (code, json.loads(out)["dim"]) == (0, 9)
    code, out, _ = run("symmetry", "--model", "mlp:30-20", "--input", "1,64", "--json")
    assert (code, json.loads(out)["dim"]) == (0, 50)


TOKENS = """
import torch
from torch import nn
from torch.nn import functional as F

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(20, 4)), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.look_up(x).mean(1).relu())

class Functional(Table):
    def look_up(self, x):
        return F.embedding(x, self.table)

class Indexed(Table):
    def look_up(self, x):
        return self.table[x]

class OneHot(Table):
    def look_up(self, x):
        return F.one_hot(x, 20).to(self.table.dtype) @ self.table

class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(20, 4), nn.Embedding(7, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head((self.words(x) + self.places(torch.arange(x.shape[1]))).mean(1).relu())
"""


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("net.py:Words", "20"),
        ("tokens.py:Functional", "VOCABULARY_SIZE"),
        ("tokens.py:Indexed", "VOCABULARY_SIZE"),
        ("tokens.py:OneHot", "VOCABULARY_SIZE"),
        ("tokens.py:Places", "VOCABULARY_SIZE"),
    ],
)
def test_real_numbers_for_a_table_are_told_by_the_option(run, net, tmp_path, model, size):
    (tmp_path / "tokens.py").write_text(TOKENS)
    for command in (["symmetry"], ["rescale", "--to", "unit", "--out", "r.safetensors"]):
        code, out, err = run(*command, "--model", model, "--input", "1,7")
        assert (code, out) == (2, "")
        assert f"give --integers {size} (Python: int64 inputs)." in err
        assert len(err.strip().splitlines()) == 1
    assert run("symmetry", "--model", model, "--input", "1,7", "--integers", 20)[0] == 0
    code, _, err = run("symmetry", "--model", model, "--input", "1,7", "--integers", 5000)
    assert code == 2
    assert "ends before that" in err
    assert "--integers" in err


def test_a_table_of_a_users_own_is_told_in_python():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(20, 4)

        def forward(self, x):
            return self.embed(x).mean(1)

    with pytest.raises(TrueriskError, match=r"give --integers 20 \(Python: int64 inputs\)\.$"):
        find_symmetry(Own(), torch.zeros(1, 7))


LAYERS = "from torch import nn\n\nclass Block(nn.Sequential):\n    pass\n"
BESIDE = """
from torch import nn

def build(input_shape, classes):
    from layers import Block
    size = 1
    for k in input_shape:
        size *= k
    return nn.Sequential(nn.Flatten(), Block(nn.Linear(size, 6), nn.ReLU()), nn.Linear(6, classes))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["symmetry", "--input", "1,64"],
        ["rescale", "--input", "1,64", "--to", "balanced", "--out", "r.safetensors"],
        ["measure", "--only", "parameters", "--quiet"],
        ["certify", "--method", "hold-out", "--epochs", "1", "--quiet"],
    ],
)
def test_every_command_finds_files_beside_the_model(run, tmp_path, command):
    """From another folder, with an import inside the factory."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "layers.py").write_text(LAYERS)
    (tmp_path / "deep" / "net.py").write_text(BESIDE)
    before = list(sys.path)
    code, _, err = run(command[0], "--model", "deep/net.py:build", *command[1:])
    assert code == 0, err
    assert sys.path == before
    assert "layers" not in sys.modules


@pytest.mark.parametrize("form", ["balanced", "unit"])
def test_rescale_writes_the_same_function(run, net, tmp_path, form):
    code, out, err = run("rescale", "--model", net, "--input", "1,3,8,8", "--to", form, "--out", "r.safetensors")
    assert (code, err) == (0, "")
    assert "the same function" in out
    assert "sum of squared weights" in out
    namespace: dict = {}
    exec(NET, namespace)
    torch.manual_seed(1)
    trained = namespace["build"]().eval()
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    arguments = ["rescale", "--model", net, "--weights", "w.safetensors", "--input", "1,3,8,8", "--to", form, "--json"]
    code, out, _ = run(*arguments, "--out", "r.safetensors")
    record = json.loads(out)
    twin = namespace["build"]().eval()
    twin.load_state_dict(load_file(tmp_path / "r.safetensors"))
    x = torch.randn(5, 3, 8, 8)
    assert code == 0
    assert record["dim"] == 12
    assert torch.allclose(twin(x), trained(x), rtol=1e-4, atol=1e-5)
    assert not torch.equal(twin.stem.weight, trained.stem.weight)
    if form == "balanced":
        assert record["squares_after"] < record["squares_before"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "1,x"], "is no shape"),
        (["--input", "0,3"], "is no shape"),
        (["--input", "1,4,8,8"], "could not follow the network"),
        (["--input", "1,7", "--integers", "0"], "at least 1"),
        (["--input", "1,3,8,8", "--weights", "none.pt"], "does not exist"),
    ],
)
def test_bad_input_is_one_sentence(run, net, arguments, message):
    for command in ("symmetry", "rescale"):
        code, out, err = run(command, "--model", net, *arguments)
        assert code == 2
        assert message in err
        assert "Traceback" not in err
        assert out == ""


def test_torch_logs_no_traceback_for_a_wrong_shape(run, tmp_path):
    """torch writes one to its own handler, past redirected streams, before the exception reaches us."""
    (tmp_path / "flat.py").write_text("from torch import nn\ndef build(): return nn.Linear(64, 6)\n")
    log, seen = logging.getLogger("torch._subclasses.fake_tensor"), []
    handler = logging.Handler()
    handler.emit = seen.append
    log.addHandler(handler)
    try:
        code, _, err = run("symmetry", "--model", "flat.py:build", "--input", "1,8")
        with pytest.raises(RuntimeError), FakeTensorMode():  # the handler hears it where nothing is silenced
            torch.empty(1, 8) @ torch.empty(64, 6)
    finally:
        log.removeHandler(handler)
    assert code == 2
    assert "could not follow the network" in err
    assert len(seen) == 1


def test_an_unknown_form_leaves_nothing_behind(run, net, tmp_path):
    code, _, err = run("rescale", "--model", net, "--input", "1,3,8,8", "--to", "round")
    assert code == 2
    assert "balanced, unit" in err
    assert not (tmp_path / "rescaled.safetensors").exists()
