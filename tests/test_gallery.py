"""The gallery of the manual: ten figures that exist, in the order of the page, each small enough to be kept."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.gallery import CHOSEN, DOCS, PICTURES
from truerisk.lab import load

PAGE = (DOCS / "gallery.rst").read_text()
LESSONS = Path(__file__).parents[1] / "src" / "truerisk" / "lab" / "lessons"


def test_the_page_shows_what_was_chosen():
    assert len(CHOSEN) == 10
    assert re.findall(r"image:: pictures/gallery/(\S+)", PAGE) == [chosen.file for chosen in CHOSEN]
    assert re.findall(r"truerisk lab run ([\w-]+)``\)", PAGE) == [chosen.experiment for chosen in CHOSEN]
    assert {path.name for path in PICTURES.iterdir()} == {chosen.file for chosen in CHOSEN}


@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda chosen: chosen.file)
def test_pictures(chosen):
    """Each is SVG without scripts, and its figure still exists in its lesson."""
    content = (PICTURES / chosen.file).read_bytes()
    assert len(content) < 100_000
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(content).iter()}
    assert "svg" in tags
    assert "script" not in tags
    source = (LESSONS / f"{chosen.experiment.replace('-', '_')}.py").read_text()
    stem = chosen.figure.rpartition("-")[0]  # some figures are made in a loop
    assert f'"{chosen.figure}"' in source or (stem and f'f"{stem}-{{' in source)
    assert load(chosen.experiment).lesson is not None
