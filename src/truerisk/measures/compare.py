"""``truerisk.compare_measures``: two networks side by side, and the votes of the measures that predict best.

A measure votes by its sign in the reference zoo: if larger values go with a larger gap there, the network with the
smaller value counts as simpler. A ratio within 5% of 1 is no vote, because that much is noise for measures that search.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from truerisk.errors import TrueriskError
from truerisk.measures.found import Measures, as_csv
from truerisk.measures.ratios import Number, log10_of, log10_ratio, ratio
from truerisk.measures.registry import MEASURES, name_of
from truerisk.measures.theorems import BOUNDS
from truerisk.measures.zoo import Zoo, zoo

if TYPE_CHECKING:
    import pandas

SAME = math.log10(1.05)  # orders of magnitude: a ratio this close to 1 is no difference
COLUMNS = (
    "name", "family", "a", "a_log10", "b", "b_log10", "ratio", "ratio_log10", "simpler", "zoo_tau", "invariant",
    "meaning",
)  # fmt: skip


@dataclass(frozen=True)
class Vote:
    """One measure of two networks: log10 of the ratio of the second to the first, and the sign of the measure."""

    name: str
    orders: float
    sign: int

    @property
    def simpler(self) -> int:
        """1 if the first network is rated simpler, 2 if the second, 0 if neither."""
        if abs(self.orders) <= SAME or not self.sign:
            return 0
        return 1 if self.sign * self.orders > 0 else 2


def votes(one: Measures, two: Measures, names: Iterable[str] | None = None, known: Zoo | None = None) -> list[Vote]:
    """The votes of the measures that predict best in the zoo, where both networks have them."""
    known = known or zoo()
    found = []
    shared = [name for name in (one.values if names is None else names) if two.number(name) is not None]
    for name in known.leading(shared):  # of what both have, so that the order of the two does not matter
        orders = log10_ratio(one.number(name), two.number(name))
        if orders is not None:
            found.append(Vote(name, orders, known.measures[name].sign))
    return found


@dataclass(frozen=True)
class Comparison:
    """Two networks, A and B, measured alike."""

    a: Measures
    b: Measures
    names: tuple[str, str] = ("A", "B")

    @property
    def votes(self) -> list[Vote]:
        return votes(self.a, self.b)

    @property
    def simpler(self) -> tuple[int, int, int]:
        """How many of the votes are for A, for B, and for neither."""
        given = [vote.simpler for vote in self.votes]
        return given.count(1), given.count(2), given.count(0)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary for each measure or bound that both networks have; ``ratio`` is B / A."""
        shared = [name for name in (*self.a.values, *self.a.bounds) if self.b.number(name) is not None]
        return [self._row(name) for name in shared]

    def _row(self, name: str) -> dict[str, Any]:
        entry, known = (MEASURES.get(name) or BOUNDS[name]), zoo().measures.get(name)
        one, two = self.a.number(name), self.b.number(name)
        assert one is not None
        assert two is not None
        orders = log10_ratio(one, two)
        vote = Vote(name, orders or 0.0, known.sign if known else 0).simpler
        return {
            "name": name_of(name),
            "family": MEASURES[name].family if name in MEASURES else "bound",
            **_two("a", one),
            **_two("b", two),
            "ratio": None if orders is None else ratio(orders),
            "ratio_log10": orders,
            "simpler": ("", "A", "B")[vote],
            "zoo_tau": known.tau if known else None,
            "invariant": entry.invariant,
            "meaning": entry.meaning,
        }

    @property
    def table(self) -> pandas.DataFrame:
        """name, family, a, b, ratio (B / A), simpler (A or B, by the sign of tau in the zoo), zoo_tau, ..."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(COLUMNS))

    def csv(self) -> str:
        return as_csv(self.rows(), COLUMNS)

    def record(self) -> dict[str, Any]:
        """Plain JSON: ``{measures: [...], bounds: [...], skipped: [...]}``; infinite numbers are null."""
        rows = [{k: None if _infinite(v) else v for k, v in row.items()} for row in self.rows()]
        missing = {**self.a.skipped, **self.b.skipped}
        return {
            "a": _network(self.a, self.names[0]),
            "b": _network(self.b, self.names[1]),
            "leading": [
                {"name": name_of(v.name), "ratio_log10": v.orders, "simpler": ("", "A", "B")[v.simpler]}
                for v in self.votes
            ],
            "measures": [row for row in rows if row["family"] != "bound"],
            "bounds": [row for row in rows if row["family"] == "bound"],
            "skipped": [{"name": name_of(name), "reason": reason} for name, reason in missing.items()],
            "zoo": zoo().record(),
        }


def compare_measures(a: Measures, b: Measures, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare what ``measure`` found for two networks; ``ratio`` is B / A.

    >>> from truerisk.measures import measure
    >>> from truerisk.nets import architecture
    >>> small, large = (architecture(f"mlp:{k}", (64,), 10).build(0) for k in (8, 16))
    >>> found = compare_measures(*(measure(net, "digits", only=["parameters"]) for net in (small, large)))
    >>> [(row["name"], row["a"], row["b"], round(row["ratio"], 2)) for row in found.rows()]
    [('parameters', 610.0, 1210.0, 1.98)]
    """
    if not (isinstance(a, Measures) and isinstance(b, Measures)):
        raise TrueriskError("compare_measures takes two results of truerisk.measure; measure each network first.")
    return Comparison(a, b, names)


def _two(side: str, number: Number) -> dict[str, Any]:
    return {side: number.value, f"{side}_log10": log10_of(number)}


def _network(found: Measures, name: str) -> dict[str, Any]:
    observed = None if found.observed is None else found.observed.record()
    return {"name": name, "n": found.n, "classes": found.classes, "observed": observed}


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
