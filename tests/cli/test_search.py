"""``truerisk search`` as a person or a script uses it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from truerisk.certificates.search import contest
from truerisk.data import load

QUICK = ["--model", "mlp:8", "--model", "mlp:16", "--lr", "0.001", "--lr", "0.01", "--epochs", "2", "--quiet"]


@pytest.fixture
def some_digits(tmp_path):
    """Data of the user's own, for which nothing was tried before."""
    digits = load("digits")
    np.savez(tmp_path / "some digits.npz", X=np.sqrt(digits.X[:600]), y=digits.y[:600])  # in other shades


def test_help(run):
    code, out, _ = run("search", "--help")
    assert code == 0
    assert "without using any certification example" in " ".join(out.split())
    assert "--lr" in run("certify", "--help")[1]


def test_tables_and_the_line_to_run_next(run, some_digits):
    """The printed command works as it is, and its certificate keeps all of delta."""
    code, out, err = run("search", "--data", "some digits.npz", *QUICK)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "Used 300 rows" in text
    assert "Candidates, tested on 60 held-out rows" in text
    assert "certification rows error baseline" in text
    line = next(line for line in out.splitlines() if line.startswith("Next"))
    words = shlex.split(line.removeprefix("Next"))
    assert words[:4] == ["truerisk", "certify", "--data", "some digits.npz"]
    assert not Path("truerisk-search").exists(), "checkpoints are removed"

    quick = ["--method", "hold-out", "--quiet", "--json"]
    plain = json.loads(run("certify", "--data", "some digits.npz", "--model", "mlp:8", "--epochs", 1, *quick)[1])
    code, out, _ = run(*words[1:], *quick, "--force")
    record = json.loads(out)
    assert code == 0
    assert record["settings"]["tried"] == plain["settings"]["tried"] == 1
    assert record["settings"]["plans"]["prior"]["lr"] == float(words[words.index("--lr") + 1])
    assert run("verify", "truerisk-out", "--data", "some digits.npz")[0] == 0


def test_json(run):
    code, out, _ = run("search", *QUICK, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["rows"] == 898
    assert len(record["candidates"]) == 4
    assert [p["prior"] for p in record["predictions"]] == ["split:0.5", "split:0.8", "split:0.9"]
    assert [p["trained_on"] for p in record["curve"]["points"]] == [180, 359, 718]
    assert record["command"].startswith("truerisk certify --data digits --model ")
    assert record["prior"] == min(record["predictions"], key=lambda p: p["floor"])["prior"]


def test_a_stopped_search_says_that_it_goes_on(run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(contest.Field, "errors", stop)
    code, out, err = run("search", *QUICK)
    assert (code, out) == (130, "")
    assert "run the same command again to resume" in err


def test_other_files_in_the_work_folder_stay(run):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep me")
    assert run("search", *QUICK, "--work", "mine")[0] == 0
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("data-free", ["--prior", "init"]),
        ("split:2", ["--prior", "split:2"]),
        ("learning rate", ["--lr", "0"]),
        ("is a file", ["--work", "file"]),
        ("no built-in", ["--model", "transformer"]),
    ],
)
def test_bad_input_is_one_sentence(run, told, arguments):
    Path("file").write_text("")
    code, out, err = run("search", "--quiet", *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
