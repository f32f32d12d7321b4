"""What a claim is: one effect, where it must lie, whose it is, and for which networks and data it must hold."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from truerisk.errors import TrueriskError
from truerisk.lab.effect import Above
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, POINTS, Region

Number = float | Above
# The runs of one seed in one cell -> a number, or a number for each of several rivals by name.
Effect = Callable[[Rows], Number | Mapping[str, Number]]
Kind = Literal["paper", "theorem", "ours"]

SPEAKING = ("quick", "medium", "paper")  # a smoke run says only that the program works


@dataclass(frozen=True)
class Source:
    """Whose a claim is: a paper's, a theorem's, or ours. The three are never counted together."""

    kind: Kind
    cited: str

    def __str__(self) -> str:
        return self.cited


@dataclass(frozen=True)
class Paper:
    """A paper; `at` names a place in it whose claim is checked, `theorem` one of its theorems.

    >>> zhang = Paper("Zhang, Bengio, Hardt, Recht, Vinyals", 2017, "Understanding deep learning requires rethinking "
    ...               "generalization", "ICLR", arxiv="1611.03530")
    >>> str(zhang.at("Table 1")), str(Paper("Cover, Hart", 1967, "Nearest neighbor").theorem("Theorem 1"))
    ('Zhang et al. 2017, Table 1', 'Cover and Hart 1967, Theorem 1')
    """

    authors: str  # last names, separated by commas
    year: int
    title: str
    venue: str = ""
    arxiv: str = ""
    doi: str = ""

    @property
    def short(self) -> str:
        names = [name.strip() for name in self.authors.split(",")]
        return f"{names[0]} et al. {self.year}" if len(names) > 2 else f"{' and '.join(names)} {self.year}"

    def __str__(self) -> str:
        arxiv = f"arXiv {self.arxiv}" if self.arxiv else ""
        return f"{self.authors} ({self.year}): {'. '.join(filter(None, [self.title, self.venue, arxiv]))}."

    @property
    def url(self) -> str:
        """Where it can be read; "" where that is not known."""
        return (
            f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else f"https://doi.org/{self.doi}" if self.doi else ""
        )

    def at(self, place: str) -> Source:
        return Source("paper", f"{self.short}, {place}")

    def theorem(self, place: str) -> Source:
        return Source("theorem", f"{self.short}, {place}")


OURS = Source("ours", "our own question")


@dataclass(frozen=True)
class Claim:
    """One effect and the region that it must lie in; the verdict follows from an interval over seeds (`verdict.judge`).

    ``effect`` gets the runs of one seed in one cell, so it never sees another seed, network or data set. ``every``
    names the fields whose values make the cells; the claim must hold in each of them. ``where`` restricts the runs
    (``{"model": ["mlp-1x512"]}``); both name fields of settings only, never of records.
    ``counted_on``: the number is a share of this many examples, or of as many as this field of the setting says; it
    moves in steps of one over that. ``pilot`` says which trial run informed the threshold: such a claim is counted
    apart and needs seeds that the trial did not use.
    """

    name: str
    says: str  # the effect in one plain sentence
    effect: Effect
    wants: Region
    whose: Source
    published: str = ""  # the published number, in words
    published_at: float | tuple[float, float] | None = None  # the same as people read it: 3.6, or (1.55, 3.6)
    every: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    scales: tuple[str, ...] = SPEAKING
    counted_on: int | str | None = None
    pilot: str = ""
    note: str = ""  # corrections and other things that a reader should know

    def __post_init__(self) -> None:
        _check_words(self.name, self.says)
        _check_source(self.name, self.whose)
        plain_function(self.effect, self.name)
        if not isinstance(self.wants, Region):
            raise TrueriskError(f"the claim {self.name} wants {self.wants!r}; use at_least(20, POINTS) or the like.")
        if isinstance(self.every, str) or "seed" in self.every:
            raise TrueriskError(f'the claim {self.name} has every={self.every!r}; use a tuple such as ("model",).')
        _check_numbers(self.name, self.published_at, self.scales)
        unit, ends = self.wants.unit, (self.wants.low, self.wants.high)
        if not any(unit.low < end < unit.high for end in ends if math.isfinite(end)) or ends[0] >= unit.high:
            raise TrueriskError(
                f"the claim {self.name} wants {self.threshold}, but {unit.name} lie between {unit.number(unit.low)} "
                f"and {unit.number(unit.high)}; choose a threshold strictly between."
            )
        if not (self.counted_on is None or isinstance(self.counted_on, str) or _count(self.counted_on)):
            raise TrueriskError(
                f"the claim {self.name} has counted_on={self.counted_on!r}, but must have a field or an integer of at "
                "least 1; give the number of examples."
            )
        if self.wants.unit in (PERCENT, POINTS) and self.counted_on is None:
            raise TrueriskError(
                f"the claim {self.name} is about shares, but has no counted_on; name the field of the setting with the "
                'number of examples, such as counted_on="n_test".'
            )

    @property
    def group(self) -> str:
        return "trial" if self.pilot else self.whose.kind

    @property
    def threshold(self) -> str:
        return self.wants.words


@dataclass(frozen=True)
class Checked:
    """What the check of an `Exact` claim found: whether it holds, and the numbers that say so."""

    holds: bool
    measured: str


@dataclass(frozen=True)
class Exact:
    """A claim without chance: a count or a theorem, checked on all runs at once. It holds or it does not."""

    name: str
    says: str
    check: Callable[[Rows], Checked]
    whose: Source
    threshold: str  # what `check` asks, in words
    published: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    scales: tuple[str, ...] = SPEAKING
    note: str = ""
    pilot: str = ""
    published_at = None

    def __post_init__(self) -> None:
        _check_words(self.name, self.says)
        _check_source(self.name, self.whose)
        plain_function(self.check, self.name)

    @property
    def group(self) -> str:
        return "trial" if self.pilot else self.whose.kind


AnyClaim = Claim | Exact


def plain_function(effect: Any, name: str) -> None:
    """Refuse an effect whose code has no name: a commitment to it could not be checked."""
    base = effect.func if isinstance(effect, partial) else effect
    own, module = getattr(base, "__qualname__", ""), sys.modules.get(getattr(base, "__module__", ""))
    if not own.isidentifier() or (module is not None and vars(module).get(own) is not base):
        raise TrueriskError(
            f"the effect of {name} is not a function at the top of its file; define it there with def, and set "
            "arguments with functools.partial."
        )


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_numbers(name: str, published: Any, scales: Any) -> None:
    ends = published if isinstance(published, tuple) else (published,)
    if published is not None and not (len(ends) <= 2 and all(isinstance(end, int | float) for end in ends)):
        raise TrueriskError(f"the claim {name} has published_at={published!r}; use a number or two in a tuple.")
    if isinstance(scales, str) or not isinstance(scales, tuple | list):
        raise TrueriskError(f'the claim {name} has scales={scales!r}; use a tuple such as ("quick",).')


def _check_source(name: str, whose: Any) -> None:
    if not isinstance(whose, Source):
        raise TrueriskError(f'the claim {name} has whose={whose!r}; use OURS, or Paper(...).at("Table 1").')


def _check_words(name: str, says: str) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise TrueriskError(f"a claim is named {name!r}; use small letters, digits, and hyphens.")
    if not says.endswith((".", "?")):
        raise TrueriskError(f"the claim {name} says {says!r}; end its sentence with a period.")
