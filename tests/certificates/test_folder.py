"""One certificate per folder: a second one is refused or replaces the first, with all its files and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from certificates import golden

import truerisk
from truerisk.certificates import certificate, folder
from truerisk.certificates.certificate import as_text
from truerisk.errors import TrueriskError

FILES = {"network.safetensors", "split.safetensors"}


@pytest.fixture(scope="module")
def pair():
    """Two certificates; the first has more files."""
    first = truerisk.certify("mlp:4", "digits", method="pac-bayes-kl", prior="init", epochs=1)
    return first, truerisk.certify("mlp:4", "digits", epochs=1)


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_another_certificate_is_refused(pair, tmp_path):
    first, second = pair
    first.save(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        TrueriskError, match="already holds a certificate; save into another folder, or replace it with"
    ):
        second.save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    first.save(tmp_path)  # the very same
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_force_leaves_no_stale_file_and_touches_no_other(pair, tmp_path):
    first, second = pair
    first.save(tmp_path)
    assert "posterior.safetensors" in names(tmp_path)
    (tmp_path / "report.html").write_text("old")
    mine = {"notes.txt", "mine.safetensors", "report.html.bak", ".work"}
    for name in mine:
        (tmp_path / name).write_text("mine")
    second.save(tmp_path, force=True)
    assert names(tmp_path) == {"certificate.json"} | FILES | mine
    assert truerisk.verify(tmp_path).claimed == second.risk_bound


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"files": ["mine.safetensors"]}',
        '{"files": 3}',
        "[" * 10_000,
        "\udcff",
        json.dumps(
            {"files": {"../precious.safetensors": "", "../network.safetensors": "", "sub/split.safetensors": ""}}
        ),
        json.dumps({"files": {"mine.safetensors": "", "notes.txt": "", ".": "", "..": "", "": "", "others": ""}}),
    ],
)
def test_a_hostile_or_broken_certificate_removes_nothing_of_yours(pair, tmp_path, text):
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    absolute = tmp_path / "network.safetensors"
    mine = [tmp_path / "precious.safetensors", absolute, out / "mine.safetensors", out / "notes.txt"]
    mine.append(out / "sub" / "split.safetensors")
    for path in mine:
        path.write_text("mine")
    text = text.replace('"../network.safetensors"', json.dumps(str(absolute)))
    (out / "certificate.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TrueriskError, match="already holds"):
        pair[1].save(out)
    pair[1].save(out, force=True)
    assert all(path.read_text() == "mine" for path in mine)
    assert truerisk.verify(out).claimed == pair[1].risk_bound


def test_links_are_removed_and_not_followed(pair, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    pair[0].save(elsewhere / "hold-out")
    kept = (elsewhere / "hold-out" / "posterior.safetensors").read_bytes()
    (out / "posterior.safetensors").symlink_to(elsewhere / "hold-out" / "posterior.safetensors")
    (out / "certificate.json").write_text(json.dumps({"files": {"posterior.safetensors": ""}}))
    (out / "others").symlink_to(elsewhere)
    folder.remove(out)
    assert names(out) == {"others"}
    assert (elsewhere / "hold-out" / "posterior.safetensors").read_bytes() == kept
    assert (elsewhere / "hold-out" / "certificate.json").exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("step", range(1, 8))
def test_an_interruption_never_mixes_two_certificates(pair, tmp_path, monkeypatch, step, force):
    """Stop at each write and removal: no certificate.json is there, and the next save leaves no file of the first."""
    first, second = pair
    if force:
        first.save(tmp_path)
        (tmp_path / "report.html").write_text("old")
    done = []

    def stopping(original):
        def call(*arguments, **more):
            done.append(original)
            if len(done) == step:
                raise KeyboardInterrupt
            return original(*arguments, **more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_atomically", stopping(folder.write_atomically))
        patch.setattr(Path, "unlink", stopping(Path.unlink))
        try:
            (second if force else first).save(tmp_path, force)
            stopped = False
        except KeyboardInterrupt:
            stopped = True
    if stopped:
        assert not (tmp_path / "certificate.json").exists()
        second.save(tmp_path)  # what was interrupted is no certificate
    assert truerisk.verify(tmp_path).risk_bound
    expected = FILES if stopped or force else {f"{name}" for name in first.record.files}
    assert {name for name in names(tmp_path) if not name.endswith(".tmp")} == {"certificate.json"} | expected


def test_others_without_their_certificate_are_refused(pair, tmp_path):
    """Verify would count them among the methods that share delta."""
    pair[0].save(tmp_path / "others" / "pac-bayes-kl")
    with pytest.raises(TrueriskError, match="already holds"):
        pair[1].save(tmp_path)
    pair[1].save(tmp_path, force=True)
    assert not (tmp_path / "others").exists()


def test_a_system_that_refuses_is_told_in_a_sentence(pair, tmp_path):
    (tmp_path / "certificate.json").mkdir()
    with pytest.raises(TrueriskError, match=r"cannot be replaced .*; choose another folder"):
        pair[1].save(tmp_path, force=True)


def test_files_of_measure_are_not_overwritten(pair, tmp_path):
    (tmp_path / "measures.json").write_text("{}")
    for force in (False, True):
        with pytest.raises(TrueriskError, match="holds the files of truerisk measure; give another folder"):
            pair[1].save(tmp_path, force)


def test_every_file_of_every_method_is_known_as_one():
    """A method whose files have other names would leave them behind: add the name to ``folder.OWN``."""
    kept = [json.loads(path.read_text())["record"]["files"] for path in golden.GOLDENS.glob("*.json")]
    assert len(kept) > 20
    assert [name for files in kept for name in files if not folder.OWN.fullmatch(name)] == []
    assert not re.fullmatch(folder.OWN, "../network.safetensors")
    assert not re.fullmatch(folder.OWN, "network.safetensors\n")


def test_a_certificate_is_written_as_one_text(pair, tmp_path):
    path = pair[1].save(tmp_path)
    assert path == tmp_path / "certificate.json"
    assert path.read_bytes() == as_text(pair[1].to_json())
    assert path.name == certificate.CERTIFICATE
