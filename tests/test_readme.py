"""The front page: short, in the agreed words, and with no number, link or command that the project does not have."""

import json
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from test_style import faults
from typer.testing import CliRunner

from truerisk.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
PICTURES = ROOT / "docs" / "pictures"


def test_it_is_short():
    assert len(TEXT.splitlines()) < 150


def test_its_words_are_the_agreed_ones():
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", TEXT, flags=re.DOTALL)
    assert faults(prose) == []


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", TEXT))))
def test_every_link_leads_to_a_file(link):
    assert (ROOT / link).is_file()


def test_every_number_was_made_by_the_command():
    """``make pictures`` writes them; README quotes all of them, and no other rate or KL."""
    made = json.loads((PICTURES / "numbers.json").read_text())
    quoted = set(re.findall(r"\d[\d.,]*\d%|\b0\.\d{4}\b|\b\d{1,3}(?:,\d{3})+\b", TEXT))
    pictured = set(re.findall(r"\d[\d.,]*\d%", "".join(path.read_text() for path in PICTURES.glob("*.svg"))))
    assert quoted - set(made.values()) - pictured == set()
    unused = {name for name, value in made.items() if value not in TEXT}
    assert unused <= {"observed error"}


@pytest.mark.parametrize("line", re.findall(r"^\$ (truerisk .*?)(?:\s+#.*)?$", TEXT, flags=re.MULTILINE))
def test_every_command_exists_with_its_options(line):
    words = shlex.split(line)[1:]
    names = words[: 2 if words[0] == "lab" else 1]
    told = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", told.output))


@pytest.mark.parametrize("name", ["certify", "lab", "learned", "measure"])
def test_pictures_are_small_and_stand_alone(name):
    path = PICTURES / f"{name}.svg"
    text = path.read_text()
    assert len(text) < 20_000
    ET.fromstring(text)
    assert "<script" not in text
    assert re.findall(r"https?://[^\"']+", text) == ["http://www.w3.org/2000/svg"]
