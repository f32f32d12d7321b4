"""Progress goes to standard error, late, and can be switched off."""

import io
import sys

import pytest

from truerisk import progress


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    monkeypatch.setattr(progress, "_enabled", True)  # put back afterwards: other tests want silence


def work(steps=5):
    with progress.bar("counting", total=steps) as advance:
        for k in range(steps):
            advance(note=f"loss {k}")


def test_plain_lines_go_to_standard_error_only(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    work()
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("counting: 20%, about ")
    assert lines[0].endswith("loss 0")
    assert lines[4].startswith("counting: 100%, about 0 s left")
    assert "\x1b" not in err


def test_short_work_says_nothing(capsys):
    work()
    assert capsys.readouterr() == ("", "")


def test_switched_off_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    progress.enable(False)
    work()
    assert capsys.readouterr() == ("", "")
    progress.enable(True)
    work()
    assert capsys.readouterr().err != ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "shown"), [(-1.0, True), (60.0, False)])
def test_a_terminal_gets_a_bar_after_a_while(monkeypatch, capsys, patience, shown):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    work()
    assert ("counting" in terminal.getvalue()) is shown
    assert capsys.readouterr().out == ""


def test_errors_inside_pass_through():
    def fail():
        with progress.bar("counting", total=2) as advance:
            advance()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
