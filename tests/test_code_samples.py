"""Code samples of the manual fit into their boxes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.rst"))
WIDEST = 88  # characters: 90 fit into a box of the theme on a screen that is 1280 pixels wide
SAMPLE = re.compile(r"( *)(?:\.\. (?:code-block|doctest|testcode|testoutput|parsed-literal)::.*|(?!\.\. ).*::)")

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation is not here")


def samples(text: str) -> Iterator[list[str]]:
    """The lines of each code sample of a page, without their common indentation."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if not (head := SAMPLE.fullmatch(line)):
            continue
        block = []
        for each in lines[start + 1 :]:
            if each.strip() and len(each) - len(each.lstrip()) <= len(head[1]):
                break
            block.append(each)
        shown = [each for each in block if each.strip() and not re.match(r" *:[\w-]+:", each)]
        indent = min((len(each) - len(each.lstrip()) for each in shown), default=0)
        yield [each[indent:] for each in shown]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_sample_is_cut_off(path):
    text = path.read_text()
    shown = [line for sample in samples(text) for line in sample]
    for name in re.findall(r"literalinclude:: (\S+)", text):
        shown += (path.parent / name).read_text().split("\n")
    assert [line for line in shown if len(line) > WIDEST] == []


def test_samples_are_found():
    page = "Text::\n\n   one\n     two\n\nMore.\n\n.. note::\n\n   four\n\n"
    page += ".. code-block:: python\n   :linenos:\n\n   three\n"
    assert list(samples(page)) == [["one", "  two"], ["three"]]
    assert sum(1 for path in PAGES for _ in samples(path.read_text())) > 30


def test_longer_lines_of_docstrings_wrap():
    """The samples of docstrings are as wide as the source; the style sheet breaks their lines."""
    assert 'html_css_files = ["code.css"]' in (DOCS / "conf.py").read_text()
    assert "white-space: pre-wrap" in (DOCS / "_static" / "code.css").read_text()
