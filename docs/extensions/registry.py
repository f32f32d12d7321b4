"""Two directives that list what is registered, so that the manual says what the program does.

``.. measures::`` lists all complexity measures by family, ``.. theorems::`` all bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docutils import nodes
from docutils.statemachine import StringList
from markup import literal
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from truerisk.measures import BOUNDS, MEASURES, Measure, Theorem
from truerisk.measures.words import by_family

STAYS, MOVES = "No rescaling changes it", "**A rescaling changes it**"


def of_measure(entry: Measure) -> Iterator[str]:
    facts = [STAYS if entry.invariant else MOVES, f"cost: {entry.cost}"]
    facts += [f"needs {need}" for need in sorted(entry.needs)]
    facts += [f"orders networks as ``{entry.same_order_as}`` does"] if entry.same_order_as else []
    yield f"``{entry.name}``"
    yield f"   {literal(entry.meaning)}"
    yield f"   {literal(entry.paper)}; {literal(entry.equation)}. {'; '.join(facts)}."
    if entry.settings:
        yield f"   Settings: {literal(entry.settings)}."
    yield ""


def of_theorem(entry: Theorem) -> Iterator[str]:
    yield f"``{entry.name}``"
    yield f"   {literal(entry.meaning)}"
    yield f"   {literal(entry.paper)}; {literal(entry.theorem)}. {STAYS if entry.invariant else MOVES}."
    yield ""


class Listed(SphinxDirective):
    """A directive whose content is written by a function."""

    def lines(self) -> Iterable[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(list(self.lines()), source="registry"), self.content_offset, holder)
        return holder.children


class MeasuresList(Listed):
    def lines(self) -> Iterator[str]:
        for family, members in by_family(MEASURES.values()).items():
            yield from (f".. rubric:: {family}", "")
            for entry in members:
                yield from of_measure(entry)


class TheoremsList(Listed):
    def lines(self) -> Iterator[str]:
        for entry in BOUNDS.values():
            yield from of_theorem(entry)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("measures", MeasuresList)
    app.add_directive("theorems", TheoremsList)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
