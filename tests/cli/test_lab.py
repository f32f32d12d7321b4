"""``truerisk lab`` as from a shell."""

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "neighbours.py"


def test_list(run):
    code, out, _ = run("lab", "list")
    assert code == 0
    memorization = ("random-labels", "regularizers", "rademacher", "memorizer", "kernel-interpolation", "closer-look")
    for name in (*memorization, "rescaling-bounds", "predictiveness"):
        assert name in out
    assert "truerisk lab run --all" in out
    code, out, _ = run("lab", "list", "--json")
    entries = json.loads(out)["experiments"]
    assert entries[0]["name"] == "random-labels"
    assert all({"smoke", "quick", "paper"} <= set(entry["scales"]) for entry in entries)


def test_run_a_file_and_run_it_again(run, tmp_path):
    code, out, _ = run("lab", "run", EXAMPLE, "--engine", "inline", "--out", "there")
    assert code == 0
    assert "1 of 1 published effects were seen again. 15 runs computed, 0 found in the store." in " ".join(out.split())
    assert "seen again" in out
    page = (tmp_path / "there" / "neighbours" / "quick.html").read_text()
    assert "Cover and Hart" in page
    assert f"truerisk lab run {EXAMPLE} --scale quick --out there" in page
    assert "neighbours/quick.html" in (tmp_path / "there" / "index.html").read_text()

    code, out, err = run("lab", "run", EXAMPLE, "--engine", "inline", "--out", "there", "--json")
    assert (code, err) == (0, "")
    [entry] = json.loads(out)["experiments"]
    assert (entry["computed"], entry["reused"], entry["seen"], entry["not_seen"]) == (0, 15, 1, 0)
    assert Path(json.loads(out)["index"]).name == "index.html"


def test_a_failing_run_is_told_and_the_page_is_there(run, tmp_path):
    broken = EXAMPLE.read_text().replace("train, test =", "assert setting['n'] != 50, 'too few'\n    train, test =")
    (tmp_path / "broken.py").write_text(broken)
    code, out, err = run("lab", "run", "broken.py", "--engine", "inline", "--quiet")
    assert code == 2
    assert "failed  n=50, seed=0: AssertionError: too few" in out
    assert "3 runs failed" in err
    assert "Traceback" not in err
    assert "not checked" in out
    assert (tmp_path / "runs" / "neighbours" / "quick.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the experiments to run, or give --all"),
        (("memorizer", "--all"), "name the experiments to run, or give --all"),
        (("random-lables",), "did you mean random-labels?"),
        (("no-such.py",), "no-such.py cannot be read"),
        (("memorizer", "--scale", "huge"), "the scales are smoke, quick, medium, paper"),
        (("--all", "--scale", "huge"), "the scales are smoke, quick, medium, paper"),
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
