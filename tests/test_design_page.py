"""The page about the design names packages, files and rules as they are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import truerisk

SRC = Path(truerisk.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.rst"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
NAMED = re.compile(r"``([\w/*-]+(?:\.py|/))``")


def section(title: str) -> str:
    """The text below a title, up to the next one."""
    return re.split(r"\n[^\n]+\n---+\n", PAGE.read_text().split(f"{title}\n---")[1])[0]


def rooms() -> list[str]:
    return re.findall(r"\* - ``(\w+)``", section("The packages"))


def imports(package: str) -> set[str]:
    """Names under ``truerisk`` that a package imports, wherever."""
    found = set()
    for path in (SRC / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "truerisk":
                inside = node.module.split(".")[1:2] or [name.name for name in node.names]
                found.update(inside)
    return found - {package}


def test_the_table_of_packages_is_complete():
    assert sorted(rooms()) == sorted(path.parent.name for path in SRC.glob("*/__init__.py"))


@pytest.mark.parametrize("package", [path.parent.name for path in sorted(SRC.glob("*/__init__.py"))])
def test_packages_import_only_from_those_above(package):
    above = rooms()[: rooms().index(package)]
    assert sorted(imports(package) & set(rooms()) - set(above)) == []


def test_the_order_is_that_of_the_contributing_guide():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    line = text.split("Packages import only from those above them:\n")[1].split("\n\n")[0]
    assert re.findall(r"`(\w+)`", line) == rooms()


def test_files_that_the_page_names_are_there():
    places = (SRC, SRC / "certificates", SRC / "certificates" / "workshop", ROOT)
    named = set(NAMED.findall(PAGE.read_text()))
    assert len(named) > 40
    assert sorted(name for name in named if not any(any(place.glob(name.rstrip("/"))) for place in places)) == []


def test_rules_that_the_code_cites_are_there():
    rules = [
        int(number) for number in re.findall(r"^(\d+)\. \*\*", section("Rules that keep a certificate true"), re.M)
    ]
    assert rules == list(range(1, 14))
    cited = [
        (path.name, where, numbers)
        for path in (*SRC.rglob("*.py"), *SRC.rglob("*.toml"))
        for numbers, where in re.findall(r"[Rr]ules? ([\d, and]+?) of (\S+)", path.read_text())
    ]
    assert len(cited) >= 8
    for name, where, numbers in cited:
        assert where.startswith("docs/design.rst"), name
        assert {int(number) for number in re.findall(r"\d+", numbers)} <= set(rules), name
