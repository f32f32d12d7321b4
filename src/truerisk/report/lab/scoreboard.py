"""The scoreboard: every claim of every experiment in one picture, grouped by whose it is.

It is made from stored summaries alone. These may be damaged: each field is checked where it is read, a verdict or a
group that does not exist becomes "no verdict" or "late", and a claim that cannot be drawn is there in words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from truerisk.lab.interval import LEVEL
from truerisk.lab.tally import GROUPS, WORDS, tally
from truerisk.report.lab.picture import CSS, Shape, Span, shape, strip

Summary = Mapping[str, Any]  # as made by Result.summary(), and "page": a relative link

NAME = re.compile(r"[A-Za-z0-9-]+")  # of a claim or a figure: a part of a link
MINUS = re.compile(r"(?<![\w.)-])-(?=[\d.])")  # before a number
WHY = {  # in place of a picture that cannot be drawn
    "incomplete": "runs missing",
    "diverged": "diverged",
    "broken": "effect failed",
    "changed": "claim changed",
    "smoke": "smoke run",
}
SIGNS = {"reproduced": "yes", "exact": "exact", "not reproduced": "no", "no verdict": "open"}


@dataclass(frozen=True)
class Entry:
    """One claim as the pages show it; all texts are plain."""

    experiment: str  # its name in words, with the scale where there are several
    title: str  # of the experiment, with the same
    page: str
    link: str
    name: str
    says: str
    source: str
    group: str
    verdict: str
    sentence: str
    published: str  # a sentence
    commitment: str
    drawn: Shape | None
    instead: str  # where nothing can be drawn

    @property
    def css(self) -> str:
        return CSS[self.verdict]

    @property
    def sign(self) -> str:
        return SIGNS[self.verdict]

    @property
    def strip(self) -> str:
        return strip(self.drawn) if self.drawn else ""

    @property
    def told(self) -> str:
        """Everything about it for those who do not see the picture."""
        return f"{self.name}, {self.experiment}. {self.says} {self.sentence} {self.published}".rstrip()


def entries(summaries: Sequence[Summary]) -> list[Entry]:
    """All claims, in the order of the experiments."""
    several = len({text(summary.get("scale")) for summary in summaries}) > 1
    found: list[Entry] = []
    for summary in summaries:
        claims = summary["claims"] if isinstance(summary.get("claims"), list | tuple) else []
        found += [_entry(summary, claim, several) for claim in claims if isinstance(claim, Mapping)]
    return found


def _entry(summary: Summary, claim: Mapping[str, Any], several: bool) -> Entry:
    page, name = link(summary), text(claim.get("name"))
    verdict, group = text(claim.get("verdict")), text(claim.get("group"))
    verdict = verdict if verdict in CSS else "no verdict"
    drawn = shape(claim)
    exact = claim.get("wants") is None and verdict in ("exact", "not reproduced")
    reason = text(claim.get("reason"))
    return Entry(
        experiment=label(summary, several),
        title=_title(summary, several),
        page=page,
        link=f"{page}{_anchor(claim)}",
        name=name.replace("-", " ") or "(no name)",
        says=minus(text(claim.get("says"))),
        source=_capital(text(claim.get("source"))),
        group=group if group in GROUPS else "late",
        verdict=verdict,
        sentence=minus(text(claim.get("sentence"))),
        published=_published(minus(text(claim.get("published")))),
        commitment=_capital(text(claim.get("commitment"))),
        drawn=drawn if drawn and (drawn.spans or reason not in WHY) else None,
        instead="exact" if exact else WHY.get(reason, "not drawn"),
    )


def _published(words: str) -> str:
    """
    >>> _published("2 times"), _published("not published; it asks more"), _published("")
    ('Published: 2 times.', 'Not published; it asks more.', '')
    """
    words = words.rstrip(".")
    if not words:
        return ""
    return f"{_capital(words)}." if words.startswith("not published") else f"Published: {words}."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def label(summary: Summary, several: bool) -> str:
    """The name of an experiment in words, with what tells it from another run of it.

    >>> label({"name": "random-labels", "scale": "medium", "data": "wine"}, True)
    'random labels, medium scale, on wine'
    """
    return ", ".join([text(summary.get("name")).replace("-", " ") or "(no name)", *_run(summary, several)])


def _title(summary: Summary, several: bool) -> str:
    run = ", ".join(_run(summary, several))
    return (text(summary.get("title")) or "(no title)") + (f" ({run})" if run else "")


def _run(summary: Summary, several: bool) -> list[str]:
    scale, data = text(summary.get("scale")), text(summary.get("data"))
    return [*([f"{scale} scale"] if several and scale else []), *([f"on {data}"] if data else [])]


def _anchor(claim: Mapping[str, Any]) -> str:
    """The figure that shows the claim, else its row; nothing if its name is not one."""
    for kind, name in (("figure", text(claim.get("figure"))), ("claim", text(claim.get("name")))):
        if NAME.fullmatch(name):
            return f"#{kind}-{name}"
    return ""


def link(summary: Summary) -> str:
    """Relative, whatever the name is: a colon would make it an address of another kind."""
    return quote(text(summary.get("page")))


def text(value: Any) -> str:
    """A text on one line that every file can hold; "" for anything else.

    >>> text("two\\nlines"), text(3), text("half a pair: \\ud800")
    ('two lines', '', 'half a pair: ?')
    """
    if not isinstance(value, str):
        return ""
    return " ".join(value.encode("utf-8", "replace").decode().split())


def minus(words: str) -> str:
    """Real minus signs before numbers.

    >>> minus("-0.6 points (-1.3 to 0.2) in x-1, 4e-9")
    '\u22120.6 points (\u22121.3 to 0.2) in x-1, 4e-9'
    """
    return MINUS.sub("\u2212", words)


def board(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """The groups that there are, each with its counts and its claims by experiment."""
    by_group: dict[str, dict[str, list[Entry]]] = {}
    for entry in found:
        by_group.setdefault(entry.group, {}).setdefault(entry.experiment, []).append(entry)
    return [
        {
            "key": group,
            "title": _capital(title),
            "counts": _counts([entry for block in by_group[group].values() for entry in block]),
            "blocks": [{"label": name, "entries": block} for name, block in by_group[group].items()],
        }
        for group, title in GROUPS.items()
        if group in by_group
    ]


def _counts(some: Sequence[Entry]) -> list[dict[str, Any]]:
    counts = Counter(entry.verdict for entry in some)
    return [{"sign": sign, "css": CSS[word], "word": word, "n": counts[word]} for word, sign in SIGNS.items()]


def counted(found: Iterable[Entry]) -> dict[str, dict[str, int]]:
    """The tally of these claims: what the headline says is what the picture shows."""
    return tally((entry.group, entry.verdict) for entry in found)


def in_words(found: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    """All claims by verdict, failures first."""
    some = list(found)
    titles = {"not reproduced": "Not reproduced", "no verdict": "No verdict", "reproduced": "Reproduced"}
    assert set(titles) == set(WORDS)
    by_word = {word: [entry for entry in some if entry.verdict == word] for word in titles}
    by_word["reproduced"] += [entry for entry in some if entry.verdict == "exact"]
    return [(titles[word], listed) for word, listed in by_word.items() if listed]


def chance(found: Iterable[Entry]) -> str:
    """How many verdicts may be wrong by chance; "" if none follows from an interval."""
    judged = sum(entry.drawn is not None and entry.verdict in ("reproduced", "not reproduced") for entry in found)
    if not judged:
        return ""
    expected = math.ceil(10 * LEVEL * judged - 1e-9) / 10  # a bound rounds up
    which = "the only verdict" if judged == 1 else f"the {judged:,} verdicts"
    return (
        f"Even if the true value lies exactly at the threshold, a verdict from an interval is wrong in at most "
        f"{100 * LEVEL:g}% of cases. Of {which} from intervals, at most {expected:,.1f} are expected to be "
        f"wrong by chance."
    )


def key() -> str:
    """A made-up claim for the legend: a region, a published range, the decisive cell, and another one."""
    spans = (Span(0.25, 0.42, 0.59, (), True), Span(0.66, 0.75, 0.84, (), False))
    return strip(Shape("yes", False, 1.0, 0.12, math.inf, (0.55, 0.9), spans))
