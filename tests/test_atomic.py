"""A failed write leaves the old file, and nothing else."""

from __future__ import annotations

import pytest

from truerisk import TrueriskError
from truerisk.atomic import write_atomically


@pytest.mark.parametrize("broken", ["replace", "write_bytes"])
def test_no_half_written_file(monkeypatch, tmp_path, broken):
    path = tmp_path / "data.bin"
    write_atomically(path, b"old")

    def fail(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"pathlib.Path.{broken}", fail)
    with pytest.raises(TrueriskError, match="No space left on device"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_folders_are_made_and_a_file_in_the_way_is_told(tmp_path):
    write_atomically(tmp_path / "a" / "b" / "c", b"x")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x"
    with pytest.raises(TrueriskError, match="cannot be written"):
        write_atomically(tmp_path / "a" / "b" / "c" / "d", b"x")
