"""Act 3. What a certificate costs: every method on the same data and a network of the same shape.

Each certificate stands alone at the same delta, split over all configurations that were compared before on the rows
that enter its bound.
Two more bounds come from act 2: PAC-Bayes around the weights as trained, with a data-free prior, raw and rescaled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truerisk.certificates.request import Request
from truerisk.errors import TrueriskError
from truerisk.tours.asked import PRIOR, Asked
from truerisk.tours.twin import Twin

HOLD_OUT, PROGRESSIVE, POSTERIOR, CODE = "hold-out", "progressive", "single-draw", "description-length"
CODE_EPOCHS = 20  # a longer search finds a slightly shorter file, in three times the time
OPTIONS: dict[str, dict[str, Any]] = {
    HOLD_OUT: {"prior": PRIOR},
    PROGRESSIVE: {"prior": PRIOR},
    POSTERIOR: {"prior": PRIOR},
    CODE: {"epochs": CODE_EPOCHS},
}
RAW, RESCALED = "pac-bayes-raw", "pac-bayes-rescaled"
TITLES = {
    HOLD_OUT: "Hold-out test: half of the rows set aside",
    PROGRESSIVE: "Progressive validation: several networks",
    POSTERIOR: "Trained posterior: one sampled network",
    CODE: "Compressed network: every bit counts",
    RAW: "PAC-Bayes around the trained weights",
    RESCALED: "PAC-Bayes around the weights, rescaled",
}


@dataclass(frozen=True)
class Cost:
    """A method and its bound; None with the ``reason`` where the method refuses this network."""

    name: str
    bound: float | None
    observed: float | None = None
    n: int = 0  # examples that enter the bound
    tried: int = 1
    saved: bool = True  # as a certificate
    reason: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.name]

    @property
    def vacuous(self) -> bool:
        """Whether it is 100% as printed, rounded up."""
        return self.bound is not None and self.bound > 0.999


@dataclass(frozen=True)
class Costs:
    """What the third act found, in the order in which it was computed."""

    methods: tuple[Cost, ...]
    default: str  # the method that ``truerisk certify`` uses unless told otherwise

    @property
    def ranked(self) -> list[Cost]:
        """Those that have a bound, smallest first."""
        return sorted((each for each in self.methods if each.bound is not None), key=lambda each: each.bound or 0.0)

    @property
    def refused(self) -> list[Cost]:
        return [each for each in self.methods if each.bound is None]

    @property
    def baseline(self) -> float | None:
        return next((each.bound for each in self.methods if each.name == HOLD_OUT), None)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(each) for each in (*self.ranked, *self.refused)]


def cost(asked: Asked, name: str, folder: Path, work: Path) -> Cost:
    """One certificate, saved under ``folder``."""
    try:
        made = asked.certify(asked.load(), work, method=name, **OPTIONS[name])
    except TrueriskError as error:
        return Cost(name, None, reason=str(error), saved=False)
    made.save(folder / name, force=True)
    return Cost(name, made.risk_bound, made.empirical_risk, made.record.n_certify, made.record.settings.tried)


def from_twin(twin: Twin) -> tuple[Cost, Cost]:
    """The two bounds around the trained weights. All their events are covered by delta; they are not saved."""
    return (
        Cost(RAW, twin.risk_raw, twin.error, twin.n, twin.tried, saved=False),
        Cost(RESCALED, twin.risk_tightened, twin.error, twin.n, twin.tried, saved=False),
    )


def default_method() -> str:
    """The method of ``truerisk certify`` without options."""
    return Request().candidates(trained=False)[0].name
