"""What needs no network does not wait for torch: helps, lists, slips in options, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest

from truerisk.certificates.methods import METHODS
from truerisk.cli import complete
from truerisk.cli.orbit import FORMS
from truerisk.names import MADE_HERE, SAFE_SOURCES
from truerisk.nets.builtin import KINDS

ALL = """
import contextlib, io, json, os, sys
sys.modules["torch"] = None
from truerisk.cli import main
told = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, out, err = ["truerisk", *arguments], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps({"told": told, "loaded": [n for n in ("scipy", "pandas", "sklearn") if n in sys.modules]}))
"""
COMMANDS = (
    *([name] for name in ("certify", "tour", "search", "verify", "predict", "symmetry", "rescale", "tighten")),
    ["measure"],
    ["landscape"],
    *(["data"], ["data", "list"], ["data", "get"], ["lab"], ["lab", "list"], ["lab", "run"], ["lab", "commit"]),
)
HELPS = [["--version"], ["--help"], *([*command, "--help"] for command in COMMANDS)]
LISTS = [["data", "list"], ["data", "list", "--json"], ["lab", "list"], ["lab", "list", "--json"]]
TIGHTEN = ("--model", "mlp", "--data", "digits", "--sigma-q", "0.1", "--sigma-p", "1")
SHAPED = ("--model", "mlp", "--input")
SLIPS = [
    *(
        ([*command, "--no-such-option"], "--no-such-option")
        for command in COMMANDS
        if command not in (["data"], ["lab"])
    ),
    (["certify", "--delta", "2"], "delta is 2.0"),
    (["certify", "--delta", "word"], "--delta"),
    (["tour", "--delta", "0"], "delta is 0.0"),
    (["tour", "--minutes", "0"], "minutes is 0.0"),
    (["search", "--delta", "1"], "delta is 1.0"),
    (["search", "--seed", "-1"], "seed is -1"),
    (["search", "--device", "abacus"], "device is 'abacus'"),
    (["search", "--prior", "half"], "the prior is 'half'"),
    (["search", "--prior", "init"], "no row is left to search on"),
    (["verify"], "DIR"),
    (["verify", "nowhere"], "there is no certificate.json in nowhere"),
    (["verify", "nowhere", "--seed", "-1"], "the seed is -1"),
    (["predict", "nowhere"], "--data"),
    (["predict", "nowhere", "--data", "digits"], "there is no certificate.json in nowhere"),
    (["symmetry"], "--model"),
    (["symmetry", *SHAPED, "1,x"], "--input '1,x'"),
    (["symmetry", *SHAPED, "1,3", "--integers", "0"], "--integers"),
    (["rescale", *SHAPED, "1,x"], "--input '1,x'"),
    (["rescale", *SHAPED, "1,3", "--to", "round"], "--to is 'round', but must be one of balanced, unit"),
    (["tighten"], "--model"),
    (["tighten", *TIGHTEN, "--sigma-q", "0"], "--sigma-q is '0'"),
    (["tighten", *TIGHTEN, "--form", "hoeffding"], "--form is 'hoeffding'"),
    (["tighten", *TIGHTEN, "--name", "a", "--name", "b"], "--name is given 2 times"),
    (["measure", "--delta", "2"], "delta is 2.0"),
    (["measure", "--rows", "0"], "--rows is 0"),
    (["landscape", "--plane", "tangent"], "--plane is 'tangent'"),
    (["landscape", "--size", "50"], "--size is 50"),
    (["measure", "--audit", "--times", "0"], "--times is 0"),
    (["data", "get", "nothing-like-it"], "nothing-like-it"),
    (["lab", "run"], "name the experiments to run"),
    (["lab", "run", "random-lables"], "did you mean random-labels?"),
    (["lab", "run", "--all", "--scale", "huge"], "must be one of smoke, quick"),
    (["lab", "run", "memorizer", "--scale", "huge"], "must be one of smoke, quick"),
]


def all_of(calls: list[list[str]], folder) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(calls)], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_helps_need_neither_torch_nor_what_else_is_slow(tmp_path):
    found = all_of(HELPS, tmp_path)
    for arguments, (code, out, err) in zip(HELPS, found["told"], strict=True):
        assert (code, err) == (0, ""), arguments
        assert "Usage: truerisk" in out or arguments == ["--version"], arguments
    assert found["loaded"] == []


def test_lists_need_no_torch(tmp_path):
    for arguments, (code, out, err) in zip(LISTS, all_of(LISTS, tmp_path)["told"], strict=True):
        assert (code, err) == (0, ""), arguments
        assert out
    assert list(tmp_path.iterdir()) == []


def test_slips_in_options_are_told_without_torch(tmp_path):
    told = all_of([arguments for arguments, _ in SLIPS], tmp_path)["told"]
    for (arguments, expected), (code, out, err) in zip(SLIPS, told, strict=True):
        assert (code, out) == (2, ""), arguments
        assert expected in err, arguments
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_computes_does_need_torch(tmp_path):
    """The other tests would notice."""
    done = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps([["certify"]])], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode != 0
    assert "torch" in done.stderr


ROOMS = (
    "bounds", "certificates", "codes", "data", "engine", "lab", "landscape", "measures", "nets", "pacbayes", "report",
    "symmetry", "training",
)  # fmt: skip
BARE = """
import sys
import truerisk
assert not [name for name in ("torch", "numpy", "scipy", "pandas") if name in sys.modules]
listed = dir(truerisk)
assert not [name for name in sys.modules if name.startswith("truerisk.") and name != "truerisk._version"]
print(*listed)
for name in sys.argv[1:]:
    assert getattr(truerisk, name) is sys.modules[f"truerisk.{name}"]
assert truerisk.bounds.kl_inverse(0.0, 0.0) < 1e-9
try:
    truerisk.nonsense
except AttributeError as error:
    assert "nonsense" in str(error)
else:
    raise AssertionError("there is no such name")
"""


@pytest.mark.parametrize("rooms", [ROOMS, ROOMS[::-1]])
def test_packages_are_attributes_and_loaded_when_used(rooms):
    """In either order, and with nothing loaded before."""
    done = subprocess.run([sys.executable, "-c", BARE, *rooms], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(rooms) | {"certify", "tighten", "__version__"} <= set(done.stdout.split())


def test_bounds_do_not_wait_for_torch():
    code = (
        "import sys; sys.modules['torch'] = None; import truerisk; print(truerisk.bounds.kl_inverse(0.5, 0.0) >= 0.5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


# ---- one source of truth: what is said without torch is what there is -----------------------------------------------


def test_names_are_those_of_the_packages():
    assert tuple(import_module("truerisk.symmetry.canonical").FORMS) == FORMS
    assert tuple(KINDS) == complete.NETWORKS
    assert set(MADE_HERE) < set(SAFE_SOURCES)


# ---- completion ------------------------------------------------------------------------------------------------------


def completed(line: str) -> list[str]:
    """What a shell offers at the end of a line."""
    words = line.split(" ")
    env = {"_TRUERISK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['truerisk']; from truerisk.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_are_completed():
    assert {"certify", "tour", "verify", "data", "lab"} <= set(completed("truerisk "))
    assert completed("truerisk lab ") == ["list", "commit", "run"]


def test_options_of_certify_are_completed():
    """They are made on demand."""
    assert {"--delta", "--blocks", "--force", "--unlabeled"} <= set(completed("truerisk certify --"))
    assert completed("truerisk certify --me") == ["--method"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("truerisk certify --method p", [*(name for name in METHODS if name.startswith("p"))]),
        ("truerisk certify --method al", ["all"]),
        ("truerisk certify --data fa", ["fashion-mnist"]),
        ("truerisk certify --model mirrored-r", ["mirrored-resnet"]),
        ("truerisk certify --prior i", ["init"]),
        ("truerisk certify --for s", ["stochastic", "single-draw"]),
        ("truerisk verify out --model poo", ["poolnet"]),
        ("truerisk search --data dig", ["digits"]),
        ("truerisk certify --data my-own", []),
    ],
)
def test_names_are_completed(line, offered):
    assert completed(line) == offered


# ---- python -m truerisk ----------------------------------------------------------------------------------------------


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "truerisk", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: truerisk ")
    assert "--install-completion" in done.stdout
    done = subprocess.run([sys.executable, "-m", "truerisk", "verify", "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2
