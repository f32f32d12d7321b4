"""The command line, called as from a shell."""

from __future__ import annotations

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
