"""Configurations that the authors compared on known data (``looks.toml``): delta is split over them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from truerisk.certificates.prior import Prior
from truerisk.names import BUILTIN

if TYPE_CHECKING:
    from truerisk.data import Data
    from truerisk.nets import Architecture

SMALL, RECIPE = "small", "recipe"  # groups of built-in networks
TUNED_ON = {
    "digits": "adbaed7948cb226248b360cd8d5166d941974fdbd356440bc14dcc4fa9b5830d",  # sha256 of truerisk's Data
    "mnist": "036d602b29f87d65a3a148f45a8b20d79df7f4a20007570a5b9cf4a013f7029a",
    "fashion-mnist": "30b4f56c5949850827c5df6efd2dc089b40dff706d3a244e964c182537aa5c89",
    "cifar-10": "e10632f4bcc319d0a681010a2dc73b98c0220f2a1ebb792bb0478c31ce59f015",
}


@dataclass(frozen=True)
class Look:
    """One comparison that the authors made on known data: an entry of ``looks.toml``."""

    data: tuple[str, ...]
    networks: str
    configurations: int
    what: str
    seeds: tuple[int, ...] = ()  # whose certificates certify on none of the rows that were looked at ...
    fraction: float = 1.0  # ... when at least this share of the rows trains

    def missed(self, seed: int, prior: Prior) -> bool:
        """Whether a certificate with this seed and prior certifies on rows that this look did not see."""
        return seed in self.seeds and prior.fraction >= self.fraction


@cache
def looks() -> tuple[Look, ...]:
    """All entries of the log."""
    text = files("truerisk.certificates").joinpath("looks.toml").read_text("utf-8")
    found = []
    for entry in tomllib.loads(text)["look"]:
        clean = entry.pop("clean", {})
        data, seeds = tuple(entry.pop("data")), tuple(clean.get("seeds", ()))
        found.append(Look(data, **entry, seeds=seeds, fraction=clean.get("fraction", 1.0)))
    return tuple(found)


def tried_before(arch: Architecture, data: Data, prior: Prior, seed: int) -> int:
    """How many configurations were compared on the certification rows of this data before the user came.

    Data are recognized by their rows and networks by their structure, because names are the user's to choose.
    """
    from truerisk.nets import builtin_name

    if prior.trained or data.known is None:  # whoever gives an already trained network vouches for its choice
        return 1
    outputs = 1 if arch.column else data.classes  # one logit stands for two classes
    name = arch.name if arch.kind == BUILTIN else builtin_name(arch.template(), data.input_shape, outputs)
    return 1 if name is None else owed(name, data, prior, seed)


def owed(name: str, data: Data, prior: Prior, seed: int) -> int:
    """The same for a built-in network of this name."""
    from truerisk.training.plans import has_recipe

    networks = RECIPE if has_recipe(name) else SMALL
    exact = data.sha256 in TUNED_ON.values()  # other rows would be shuffled otherwise
    seen = [look for look in looks() if data.known in look.data and look.networks == networks]
    return max(1, sum(look.configurations for look in seen if not (exact and look.missed(seed, prior))))
