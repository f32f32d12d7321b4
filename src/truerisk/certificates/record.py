"""What a certificate says: typed, and as ``certificate.json`` has it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from truerisk.certificates.counts import RescaledKL
from truerisk.certificates.ledger import Entry
from truerisk.certificates.schema import dump
from truerisk.errors import TrueriskError
from truerisk.plan import DrawPlan

if TYPE_CHECKING:
    from truerisk.certificates.settings import Settings
    from truerisk.data import Data

FORMAT = 5
WORDS = 4  # version of the wording. Sentences are for people: verify reads none that were worded by another version.
LOSSES = ("zero-one",)  # what counts as wrong
D = TypeVar("D")


@dataclass(frozen=True)
class Part:
    """A part of the bound, in words, and how much of the risk it is."""

    part: str
    value: float


@dataclass(frozen=True)
class Lower:
    """The other end: the true risk is at least ``risk``, and the error on the examples that certify ``empirical``."""

    risk: float
    empirical: float


@dataclass(frozen=True)
class Derivation:
    """What follows from the counts by arithmetic alone. The parts add up to the bound."""

    risk_bound: float
    empirical_risk: float
    empirical_risk_upper: float
    breakdown: tuple[Part, ...]
    kl: RescaledKL | None = None
    draws: DrawPlan | None = None
    details: tuple[Any, ...] = ()  # what only this method has: one frozen dataclass for each of ``Method.details``
    lower: Lower | None = None  # where both ends were asked for

    def detail(self, kind: type[D]) -> D:
        """The detail of this kind."""
        return next(each for each in self.details if isinstance(each, kind))


@dataclass(frozen=True)
class Floor:
    """The hold-out baseline: a bound that one could have instead, from a plain test."""

    bound: float
    errors: int
    n: int
    delta: float
    what: str  # was tested


@dataclass(frozen=True)
class Fit:
    """How well the predictor fits what it was trained on, and how much worse it does on unseen examples.

    The gap is the true risk minus the training error; ``gap_lower`` is there where both ends were asked for.
    """

    training_error: float
    n: int  # training examples, or answers by draws on them
    gap_lower: float | None
    gap_upper: float
    diagnosis: str


@dataclass(frozen=True)
class DataCard:
    """Which data a certificate is about."""

    name: str
    source: str | None  # what loads it again
    n: int
    classes: int
    input_shape: tuple[int, ...]
    dtype: str  # of the inputs: float32, or int64 where the network takes integers
    counts: tuple[int, ...]  # of each class
    sha256: str
    class_names: tuple[str, ...] = ()  # in the order of the labels; empty where classes have numbers only
    feature_names: tuple[str, ...] = ()  # in the order of the columns; empty where the inputs are not a table

    def __post_init__(self) -> None:
        names = self.class_names
        if names and len(names) != self.classes:
            raise TrueriskError(
                f"the data has {len(names):,} class names for {self.classes:,} classes; give one name for each class."
            )
        if len(set(names)) != len(names):
            raise TrueriskError("two classes of the data have the same name; give each class a name of its own.")
        if any(unicodedata.category(letter) in ("Cc", "Cs", "Cf") for name in names for letter in name or "\0"):
            raise TrueriskError("a class name of the data has characters that cannot be shown; rename this class.")
        columns = len(set(self.feature_names))
        if self.feature_names and (columns,) != self.input_shape:
            raise TrueriskError(
                f"the data has {columns:,} different column names for inputs of shape {self.input_shape}; "
                "give each column a name of its own."
            )

    @property
    def integers(self) -> bool:
        return self.dtype == "int64"

    @property
    def blank(self) -> np.ndarray:
        """One input of zeros, of the right shape and type."""
        return np.zeros((1, *self.input_shape), dtype=np.int64 if self.integers else np.float32)

    @classmethod
    def of(cls, data: Data) -> DataCard:
        shape, counts = tuple(data.input_shape), tuple(data.counts.tolist())
        dtype, names = str(data.X.dtype), (tuple(data.class_names), tuple(data.feature_names))
        return cls(data.name, data.source, len(data), data.classes, shape, dtype, counts, data.sha256, *names)


@dataclass(frozen=True)
class Record:
    """One certificate in numbers and sentences; ``to_json`` is its file."""

    settings: Settings
    data: DataCard
    n_certify: int
    n_prior: int
    counts: dict[str, int]
    floor: Floor
    ledger: list[Entry]
    derivation: Derivation
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    sentence: str
    files: dict[str, str]  # name to sha256
    software: dict[str, str]
    version: str
    made: str = field(compare=False)  # when: see ``certificates.made``
    fit: Fit | None = None
    words: int = WORDS

    def __getitem__(self, name: str) -> Any:
        """A field of ``certificate.json`` by its name there, for scripts that look one up."""
        return self.to_json()[name]

    def derived(self) -> dict[str, Any]:
        """The fields that follow from data, files and settings: those that verify compares."""
        found, floor, kl = self.derivation, self.floor, self.derivation.kl
        details = {name: value for each in found.details for name, value in dump(each).items()}
        return {
            "method": self.settings.method.name,
            "predictor": self.settings.method.predictor,
            "delta": self.settings.delta,
            "n_certify": self.n_certify,
            "n_prior": self.n_prior,
            "losses": list(LOSSES),
            "floor": floor.bound,
            "floor_detail": {"errors": floor.errors, "n": floor.n, "delta": floor.delta, "what": floor.what},
            "counts": self.counts,
            "ledger": self.ledger,
            "data": dump(self.data),
            "seed": self.settings.seed,
            "kl": None if kl is None else kl.kl,
            "kl_unrescaled": None if kl is None else kl.original,
            "rescaling": None if kl is None else kl.columns(),
            "draws": dump(found.draws),
            "risk_bound": found.risk_bound,
            "risk_lower": None if found.lower is None else found.lower.risk,
            "empirical_risk": found.empirical_risk,
            "empirical_risk_upper": found.empirical_risk_upper,
            "empirical_risk_lower": None if found.lower is None else found.lower.empirical,
            "fit": dump(self.fit),
            **details,
            "breakdown": dump(found.breakdown),
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "sentence": self.sentence,
            "words": self.words,
        }

    def to_json(self) -> dict[str, Any]:
        """All of ``certificate.json``."""
        about = {
            "model": {"name": self.settings.model, "kind": self.settings.model_kind},
            "settings": self.settings.to_json(),
            "files": self.files,
            "software": self.software,
            "version": self.version,
            "made": self.made,
        }
        return {"format": FORMAT, **self.derived(), **about}
