"""Shared by the tests of data: notes on standard error, which are switched off elsewhere."""

import pytest

from truerisk import progress


@pytest.fixture
def notes(capsys):
    """A function that returns the notes since it was called last."""
    progress.enable(True)
    yield lambda: capsys.readouterr().err
    progress.enable(False)
