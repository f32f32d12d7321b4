"""Everything that decides a certificate besides the data and the network: chosen before the draws."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from truerisk.certificates.ledger import Entry, ledger
from truerisk.certificates.methods.base import Method
from truerisk.certificates.prior import Prior
from truerisk.certificates.schema import dump, settle, within
from truerisk.errors import TrueriskError
from truerisk.names import OUTPUTS
from truerisk.plan import Plan

LARGEST_SEED = 2**64 - 1
DATA_FREE_STD = 4.0  # width of a data-free prior, in units of 1/sqrt(fan_in)
PRIOR_STDS = (1e-6, 1e6)  # the narrowest and the widest, in the same units
DATA_FREE_START = 0.1  # where a posterior's widths start, in units of a data-free prior's: wider starts get stuck
# Widths to choose from, in the same units, for a prior that was trained on its own split: the widest whose noise
# raises the error on the prior's own examples by at most this much. Looking at these examples is free.
LEARNT_STDS = (0.1, 0.05, 0.025, 0.0125, 0.006, 0.003)
LEARNT_EXCESS = 0.002
OPTIONS_AFTER = "plans"  # where JSON has the method's options


@dataclass(frozen=True)
class Settings:
    """The choices behind one certificate."""

    method: Method
    prior: Prior
    delta: float = within(above=0, below=1)
    seed: int = within(low=0, high=LARGEST_SEED)
    tried: int = within(low=1)
    model: str = within()
    model_kind: str = within()
    own_training: bool = False
    trust_factory: bool = False
    objective: str = "tempered"
    # None: chosen from LEARNT_STDS on the prior's own examples
    prior_std: float | None = within(None, low=PRIOR_STDS[0], high=PRIOR_STDS[1])
    plans: dict[str, Plan] = field(default_factory=dict)
    methods: int = within(1, low=1)  # that share this configuration's part of delta, this one included
    given: bool = False  # weights that saw all of the data came with the network, and are used
    threads: int = within(1, low=1)  # that train and count: sums over more of them round in another order
    repeats_are_draws: bool = False  # the user's word for rows that equal another one
    repeats: int = within(0, low=0)  # such rows between two sets, or among unlabelled inputs
    row_ids: str = ""  # sha256 of the identities that tell rows apart, if any were given
    two_sided: bool = False  # a lower end of the risk as well
    own_errors: int = within(0, low=0)  # wrong answers of a network that came trained on its training set, your word
    own_rows: int = within(0, low=0)  # examples of that set; 0: it was not given
    # What the single output of a network with one output per example is; "" for all others, and then not in JSON, so
    # that it does not enter the seeds of their draws.
    outputs: str = within("", among=("", *OUTPUTS))

    def __post_init__(self) -> None:
        settle(self)

    @cached_property
    def ledger(self) -> list[Entry]:
        """What delta is spent on; a TrueriskError where it can't be shared like that."""
        events = self.method.both_ends() if self.two_sided else self.method.events()
        return ledger(self.delta, self.tried, events, self.methods)

    def to_json(self) -> dict[str, Any]:
        """Plain values: the method by its name, its options as an object of their own."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "outputs" or value:
                found[each.name] = self.method.name if each.name == "method" else dump(value)
            if each.name == OPTIONS_AFTER:
                found["options"] = self.method.options()
        return found


def check_seed(seed: object) -> None:
    """Refuse what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TrueriskError(f"the seed is {seed!r}, but must be an integer of at least 0; try 0.")
