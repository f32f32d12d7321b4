"""``truerisk lab`` as from a shell."""

import json
from pathlib import Path

import pytest

from truerisk.lab import names

EXAMPLE = Path(__file__).parents[2] / "examples" / "neighbours.py"


def test_list(run):
    code, out, _ = run("lab", "list")
    assert code == 0
    for name in names():
        assert name in out
    assert "truerisk lab run --all" in out
    code, out, _ = run("lab", "list", "--json")
    entries = json.loads(out)["experiments"]
    assert entries[0]["name"] == "random-labels"
    assert all({"smoke", "quick", "paper"} <= set(entry["scales"]) for entry in entries)
    runs = {scale: entries[0]["scales"][scale]["runs"] for scale in ("quick", "smoke")}
    for scale, count in runs.items():
        [line] = [line for line in run("lab", "list", "--scale", scale)[1].splitlines() if "random-labels" in line]
        assert line.split()[1] == str(count)
    assert runs["quick"] != runs["smoke"]


def test_run_a_file_and_run_it_again(run, tmp_path):
    code, out, _ = run("lab", "run", EXAMPLE, "--engine", "inline", "--out", "there")
    assert code == 0
    assert (
        "Not known to be committed before their runs: 1 of 1 reproduced. 25 runs computed, 0 found in the store."
        in " ".join(out.split())
    )
    assert "reproduced" in out
    page = (tmp_path / "there" / "neighbours" / "quick.html").read_text()
    assert "Cover, Hart (1967)" in page
    assert f"truerisk lab run {EXAMPLE} --scale quick --out there" in page
    assert "neighbours/quick.html" in (tmp_path / "there" / "index.html").read_text()

    code, out, err = run("lab", "run", EXAMPLE, "--engine", "inline", "--out", "there", "--json")
    assert (code, err) == (0, "")
    [entry] = json.loads(out)["experiments"]
    assert (entry["computed"], entry["reused"]) == (0, 25)
    assert entry["tally"] == {"late": {"reproduced": 1, "not reproduced": 0, "no verdict": 0}}
    assert entry["claims"][0]["cells"][0]["low"] > 0
    assert Path(json.loads(out)["index"]).name == "index.html"


def test_a_failing_run_is_told_and_the_page_is_there(run, tmp_path):
    broken = EXAMPLE.read_text().replace("train, test =", "assert setting['n'] != 50, 'too few'\n    train, test =")
    (tmp_path / "broken.py").write_text(broken)
    code, out, err = run("lab", "run", "broken.py", "--engine", "inline", "--quiet")
    assert code == 2
    assert "failed  n=50, seed=0: AssertionError: too few" in out
    assert "5 runs failed" in err
    assert "Traceback" not in err
    assert "no verdict" in out
    assert (tmp_path / "runs" / "neighbours" / "quick.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the experiments to run, or give --all"),
        (("memorizer", "--all"), "name the experiments to run, or give --all"),
        (("random-lables",), "did you mean random-labels?"),
        (("no-such.py",), "no-such.py cannot be read"),
        (("memorizer", "--scale", "huge"), "must be one of smoke, quick, medium, paper"),
        (("--all", "--scale", "huge"), "must be one of smoke, quick, medium, paper"),
        (("memorizer", "--engine", "cloud"), "the engines are local, inline and tcp://host:port"),
        (("memorizer", "--workers", "0"), "at least 1"),
        ((str(EXAMPLE), "--engine", "inline", "--out", "/dev/null/x"), "/dev/null/x"),
    ],
)
def test_bad_input_is_one_sentence(run, tmp_path, arguments, said):
    code, out, err = run("lab", "run", *arguments)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "does not run: SyntaxError"),
        ("x = 1", "defines no EXPERIMENT"),
        ("EXPERIMENT = 1", "defines no EXPERIMENT"),
    ],
)
def test_a_file_without_an_experiment(run, tmp_path, text, said):
    (tmp_path / "mine.py").write_text(text)
    code, _, err = run("lab", "run", "mine.py")
    assert code == 2
    assert said in err


def test_data_that_are_not_here_are_named_at_once(run, monkeypatch, tmp_path):
    monkeypatch.setenv("TRUERISK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = run("lab", "run", "random-labels", "--scale", "medium")
    assert code == 2
    assert "not here" in err
    assert "truerisk data get" in err


def test_commit_then_run(run, tmp_path):
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text())
    code, out, _ = run("lab", "commit", "mine.py")
    assert code == 0
    assert "falls: at most 0.5 times (quick: seeds 0 to 4)" in out
    assert "1 claim committed to" in out
    assert "Nothing to commit" in run("lab", "commit", "mine.py")[1]
    code, out, _ = run("lab", "run", "mine.py", "--engine", "inline", "--json")
    [entry] = json.loads(out)["experiments"]
    assert entry["claims"][0]["commitment"].endswith("before its runs")
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace("at_most(0.5", "at_most(0.9"))
    code, out, _ = run("lab", "run", "mine.py", "--engine", "inline", "--json")
    [entry] = json.loads(out)["experiments"]
    assert entry["claims"][0]["verdict"] == "no verdict"
    assert "its region, unit, or cells differ" in entry["claims"][0]["sentence"]
    code, _, err = run("lab", "commit", "mine.py")
    assert code == 2
    assert "no new seeds" in err


OWN = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5)).astype("float32")
np.savez("mine.npz", X=X, y=(X[:, 0] > 0).astype("int64") + (X[:, 1] > 0))
"""


def test_own_data(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(OWN, {})
    code, _, err = run("lab", "run", "random-labels", "--scale", "smoke", "--data", "mine.npz", "--engine", "inline")
    assert code == 0, err
    [page] = (tmp_path / "runs" / "random-labels").glob("smoke-mine-npz-*.html")
    assert "mine-npz" in page.read_text()
    assert not (tmp_path / "runs" / "random-labels" / "smoke.html").exists()
    code, _, err = run("lab", "run", "memorizer", "--scale", "smoke", "--data", "mine.npz")
    assert code == 2
    assert "takes no --data" in err
    code, _, err = run("lab", "run", "random-labels", "--data", "no-such.npz")
    assert code == 2
    assert "no-such.npz" in err
    code, _, err = run("lab", "run", "--all", "--data", "mine.npz")
    assert code == 2
    assert "not every experiment takes --data" in err
