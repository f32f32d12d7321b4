"""The command line, called as from a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from truerisk import cli
from truerisk.pacbayes import monte_carlo


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """20,000 draws in place of a million: the same arithmetic, sooner."""
    monkeypatch.setattr(monte_carlo, "TRIALS", 20_000)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """run(*arguments) -> (exit code, standard output, standard error), inside an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["truerisk", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def shell(tmp_path):
    """A line as a person would paste it: ``truerisk`` is this very program."""
    program = tmp_path / "bin" / "truerisk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m truerisk "$@"\n')
    program.chmod(0o755)

    def call(line: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        return subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path, env=env)

    return call
