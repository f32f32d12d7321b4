"""The printed ``verify`` command works as it stands, in the terminal, on the page, and from Python."""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import truerisk
from truerisk.certificates.given import Given, commands
from truerisk.data import load
from truerisk.nets import mlp

NET = """
from torch import nn

def build(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


def printed(out: str) -> str:
    return next(line for line in out.splitlines() if line.startswith("Verify")).removeprefix("Verify").strip()


def own(folder: Path, data: str, net: str) -> None:
    digits = load("digits")
    (folder / data).parent.mkdir(exist_ok=True)
    np.savez(folder / data, X=digits.X[:300], y=digits.y[:300])
    (folder / net).write_text(NET)


@pytest.mark.parametrize(
    ("data", "net", "out"),
    [
        ("train.npz", "net.py", "out"),
        ('my data/it\'s "mine" & more.npz', "my net.py", "the out's $HOME"),
        ("train.npz", "net.py", "-out"),
    ],
)
def test_own_network_and_data(run, shell, tmp_path, data, net, out):
    own(tmp_path, data, net)
    quick = ["--epochs", 1, "--quiet"]
    code, told, err = run("certify", "--data", data, "--model", f"{net}:build", "--out", out, *quick)
    assert (code, err) == (0, "")
    done = shell(printed(told))
    assert done.returncode == 0, done.stderr
    assert "Confirmed" in done.stdout
    page = html.unescape(Path(out, "report.html").read_text())
    commands = re.search(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)[1].splitlines()
    assert commands[0] == printed(told)
    assert commands[1] == f"{commands[0]} --retrain"
    assert "DIR is the folder" not in page
    assert str(tmp_path) not in page, "no folder of the maker's but what was typed"


def test_only_what_is_needed(run, tmp_path):
    own(tmp_path, "train.npz", "net.py")
    quick = ["--epochs", 1, "--quiet", "--out"]
    assert printed(run("certify", "--model", "mlp:4", *quick, "a")[1]) == "truerisk verify a"
    assert printed(run("certify", "--model", "net.py:build", *quick, "b")[1]) == (
        "truerisk verify b --model net.py:build"
    )
    assert printed(run("certify", "--data", "train.npz", "--model", "mlp:4", *quick, "c")[1]) == (
        "truerisk verify c --data train.npz"
    )


def test_fresh_data_is_the_data_to_verify_with(run, shell, tmp_path):
    own(tmp_path, "test.npz", "net.py")
    torch.manual_seed(0)
    save_file(mlp((1, 8, 8), 10, (4,)).state_dict(), "w.safetensors")
    fresh = ["--fresh", "test.npz", "--model", "mlp:4", "--weights", "w.safetensors"]
    line = printed(run("certify", *fresh, "--quiet", "--out", "out")[1])
    assert line == "truerisk verify out --data test.npz"
    assert shell(line).returncode == 0


def test_the_folder_that_was_searched():
    mnist = Given.of("mnist", None, Path("/data"), "mnist", "built-in")
    assert mnist.verify("out") == "truerisk verify out --data-dir /data"
    assert Given.of("digits", None, "/data", "digits", "built-in").verify("out") == "truerisk verify out"
    assert Given.of("mnist:test", None, "my data", "mnist:test", "built-in").verify("o") == (
        "truerisk verify o --data-dir 'my data'"
    )


def test_a_path_is_not_taken_for_a_name():
    assert Given.of(Path("digits"), None, None, "/home/me/digits", "built-in").data == "./digits"
    assert Given.of("./digits", None, None, "/home/me/digits", "built-in").data == "./digits"


def test_objects_have_a_call_in_python(tmp_path):
    digits = load("digits")
    few, model = (digits.X[:200], digits.y[:200]), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    cert = truerisk.certify(model, few, epochs=1)
    cert.save(tmp_path / "out")
    told = cert.commands("out")
    assert told.verify == 'truerisk.verify("out", data=..., model=...)'
    assert told.retrain == 'truerisk.verify("out", data=..., model=..., retrain=True)'
    assert told.predict == 'truerisk.Certificate.load("out", model=...).predictor(x)'
    call = cert.commands(tmp_path / "out").verify.replace("data=...", "data=few").replace("model=...", "model=model")
    assert eval(call, {"truerisk": truerisk, "few": few, "model": model}).risk_bound == cert.risk_bound
    assert truerisk.certify("mlp:4", few, epochs=1).commands("out").verify == 'truerisk.verify("out", data=...)'
    assert Given("a.npz", ...).verify('a "b"') == 'truerisk.verify("a \\"b\\"", data="a.npz", model=...)'


def test_paths_given_in_python_are_known(tmp_path):
    own(tmp_path, "train.npz", "net.py")
    cert = truerisk.certify("mlp:4", tmp_path / "train.npz", epochs=1)
    assert cert.commands("out").verify == f"truerisk verify out --data {tmp_path / 'train.npz'}"


def test_a_loaded_certificate_names_in_general_what_it_cannot_know(tmp_path):
    own(tmp_path, "train.npz", "net.py")
    cert = truerisk.certify("mlp:4", tmp_path / "train.npz", epochs=1)
    cert.save(tmp_path / "out")
    loaded = truerisk.Certificate.load(tmp_path / "out")
    assert loaded.commands("out").verify == "truerisk verify out --data FILE"
    assert commands(cert.record).verify == "truerisk verify DIR --data FILE"
    assert loaded.commands("out").general


@pytest.mark.parametrize("out", ["truerisk-out", "my tour's out"])
def test_the_command_of_a_tour(tmp_path, out):
    """Long ones are broken between the words of the shell only."""
    from tours.outcomes import OUTCOMES

    from truerisk.cli.tour import lines
    from truerisk.report.tour import render_tour

    name = "a folder with a long name/and a file with another long name, my data.npz"
    own = OUTCOMES["own"]
    found = replace(own, subject=replace(own.subject, given=Given(name, "n.py:b")))
    told = "\n".join(lines(found, Path(out)))
    command = told[told.index("Verify  ") + 8 :]
    assert shlex.split(command.replace("\\\n", "")) == [
        *("truerisk", "verify", f"{out}/tour/true-labels", "--data", name, "--model", "n.py:b")
    ]
    page = html.unescape(render_tour(found, out))
    assert found.verify(out)[1] in page
    assert "OUT" not in found.verify(out)[1]
    assert "OUT is the folder" not in page
    assert "OUT is the folder" in render_tour(found)
