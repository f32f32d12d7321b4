"""Everything that decides a certificate besides the data and the network: chosen before the draws."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import BUILTIN, Architecture, builtin_name
from truerisk.training import Plan
from truerisk.training.plans import has_recipe

PAC_BAYES_KL, HOLD_OUT = "pac-bayes-kl", "hold-out"  # the methods that other modules name

# The small built-in networks and prior scales were picked by comparing some on digits, MNIST, Fashion-MNIST and
# CIFAR-10.
# Whoever picks must pay (rule 3 of the design): fewer than 32 pairs of network and prior were compared on
# each, so a certificate of theirs on these data uses one part in 32 of delta. The recipes of the residual networks
# (``training.recipes``), fewer than 32 too, were compared on rows that the seeds 0, 1 and 2 never certify on when 80 %
# or more of the rows train: such certificates owe nothing. This is about the exact sets: other rows, or another order
# of the rows, are split in another way.
TRIED_BY_AUTHORS = 32
CLEAN_SEEDS, CLEAN_FRACTION = (0, 1, 2), 0.8
TUNED_ON = {
    "digits": "adbaed7948cb226248b360cd8d5166d941974fdbd356440bc14dcc4fa9b5830d",  # sha256 of truerisk's Data
    "mnist": "036d602b29f87d65a3a148f45a8b20d79df7f4a20007570a5b9cf4a013f7029a",
    "fashion-mnist": "30b4f56c5949850827c5df6efd2dc089b40dff706d3a244e964c182537aa5c89",
    "cifar-10": "e10632f4bcc319d0a681010a2dc73b98c0220f2a1ebb792bb0478c31ce59f015",
}

DATA_FREE_STD = 4.0  # width of a data-free prior, in units of 1/sqrt(fan_in)
PRIOR_STDS = (1e-6, 1e6)  # the narrowest and the widest, in the same units
DATA_FREE_START = 0.1  # where a posterior's widths start, in units of a data-free prior's: wider starts get stuck
# Widths to choose from, in the same units, for a prior that was trained on its own split: the widest whose noise
# raises the error on the prior's own examples by at most this much. Looking at these examples is free.
LEARNT_STDS = (0.1, 0.05, 0.025, 0.0125, 0.006, 0.003)
LEARNT_EXCESS = 0.002


TYPES = {
    "method": str,
    "prior": str,
    "delta": float,
    "seed": int,
    "tried": int,
    "methods": int,
    "model": str,
    "model_kind": str,
    "own_training": bool,
    "trust_factory": bool,
    "objective": str,
    "prior_std": float | None,
    "plans": dict,
    "options": dict,
    "given": bool,
    "threads": int,
    "repeats_are_draws": bool,
    "repeats": int,
    "row_ids": str,
}


@dataclass(frozen=True)
class Settings:
    """The choices behind one certificate, as plain values."""

    method: str
    prior: str  # "zero", "init", "split:0.5", or "none" for a network that came trained
    delta: float
    seed: int
    tried: int
    model: str
    model_kind: str
    own_training: bool = False
    trust_factory: bool = False
    objective: str = "tempered"
    prior_std: float | None = None  # None: chosen from LEARNT_STDS on the prior's own examples
    plans: dict[str, Plan] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of the method, as the user set them
    methods: int = 1  # that share this configuration's part of delta, this one included
    given: bool = False  # weights that saw all of the data came with the network, and are used
    threads: int = 1  # that train and count: sums over more of them round in another order
    repeats_are_draws: bool = False  # the user's word for rows that equal another one
    repeats: int = 0  # such rows between two sets, or among unlabelled inputs
    row_ids: str = ""  # sha256 of the identities that tell rows apart, if any were given

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Settings:
        """The inverse of ``record``; every value must have the type it was written with."""
        wrong = [name for name, kind in TYPES.items() if not isinstance(record.get(name), kind)]
        whole = {"seed": 0, "tried": 1, "methods": 1, "threads": 1, "repeats": 0}
        wrong += [n for n, least in whole.items() if n not in wrong and not _at_least(record[n], least)]
        if wrong:
            raise TrueriskError(f"the settings of the certificate are not readable ({', '.join(wrong)}).")
        vouched = record["repeats_are_draws"] or (record["row_ids"] and record["repeats"])
        if bool(record["repeats"]) != bool(vouched):
            raise TrueriskError("the settings of the certificate speak of equal rows that nobody vouches for.")
        if record["prior"] in ("zero", "init") and record["prior_std"] is None:
            raise TrueriskError("the settings of the certificate have a data-free prior without a width.")
        check_prior_std(record["prior_std"])
        try:
            plans = {name: Plan.from_record(plan) for name, plan in record["plans"].items()}
            return cls(**{**record, "plans": plans})
        except (TypeError, AttributeError) as error:
            raise TrueriskError(f"the settings of the certificate are not readable ({error}).") from error


def _at_least(value: int, least: int) -> bool:
    return not isinstance(value, bool) and value >= least


def check_prior_std(std: float | None) -> None:
    """Refuse widths that no network needs: far from 1, floating point would decide what is drawn."""
    if std is not None and not PRIOR_STDS[0] <= std <= PRIOR_STDS[1]:
        low, high = PRIOR_STDS
        raise TrueriskError(f"prior_std is {std}, but must lie between {low:g} and {high:g}; try --prior-std 1.")


def check_seed(seed: object) -> None:
    """Refuse what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TrueriskError(f"the seed is {seed!r}, but must be a whole number that is not negative.")


def tried_before(arch: Architecture, data: Data, prior: str, seed: int) -> int:
    """How many configurations were compared on the certifying rows of this data before the user came.

    Data are recognized by their rows and networks by their structure, because names are the user's to choose.
    """
    if data.known is None:
        return 1
    name = arch.name if arch.kind == BUILTIN else builtin_name(arch.template(), data.input_shape, data.classes)
    if name is None:
        return 1
    exact = data.sha256 in TUNED_ON.values()  # other rows would be shuffled otherwise
    clean = exact and seed in CLEAN_SEEDS and split_fraction(prior) >= CLEAN_FRACTION
    return 1 if has_recipe(name) and clean else TRIED_BY_AUTHORS


def split_fraction(prior: str) -> float:
    """The share of the data that trains the prior: 0 for data-free priors.

    >>> split_fraction("split:0.25"), split_fraction("init")
    (0.25, 0.0)
    """
    kind, _, text = prior.partition(":")
    if prior in ("zero", "init"):
        return 0.0
    try:
        fraction = float(text) if kind == "split" else math.nan
    except ValueError:
        fraction = math.nan
    if not 0 < fraction < 1:
        raise TrueriskError(f"the prior is {prior!r}, but must be zero, init or split:FRACTION, as in split:0.5.")
    return fraction
