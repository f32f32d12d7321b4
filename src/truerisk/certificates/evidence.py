"""What a certificate rests on: the split, networks, distributions and other arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor, nn

from truerisk.certificates.settings import Settings, split_fraction
from truerisk.data import Split, shuffle, split
from truerisk.pacbayes import Gaussian
from truerisk.seeds import derive

SPLIT = "split"  # the name of its file
FLOOR_FRACTION = 0.8  # data-free priors: the floor's network trains on this share and is tested on the rest


@dataclass(frozen=True)
class Evidence:
    """All that is needed, with the data and the settings, to derive a certificate's numbers.

    Every entry is one file, named like its key. Names that begin with ``network`` are networks, those that begin
    with ``prior`` or ``posterior`` are Gaussians, all others are plain arrays.
    """

    parts: Split
    networks: dict[str, nn.Module]  # "network" is what the floor tests
    gaussians: dict[str, Gaussian] = field(default_factory=dict)
    arrays: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def having(self, entries: Mapping[str, nn.Module | Gaussian]) -> Evidence:
        """The same evidence with other networks or Gaussians under these names."""
        networks = {name: value for name, value in entries.items() if isinstance(value, nn.Module)}
        gaussians = {name: value for name, value in entries.items() if isinstance(value, Gaussian)}
        return replace(self, networks=self.networks | networks, gaussians=self.gaussians | gaussians)

    @property
    def network(self) -> nn.Module:
        """Deterministic: what hold-out certifies, and what the floor of a certificate tests."""
        return self.networks["network"]

    @property
    def prior(self) -> Gaussian | None:
        return self.gaussians.get("prior")

    @property
    def posterior(self) -> Gaussian | None:
        return self.gaussians.get("posterior")

    @property
    def log_scales(self) -> dict[str, Tensor] | None:
        """From the stored posterior back to the trained one; None where the network can't be followed."""
        return self.arrays.get("log_scales")


def split_data(settings: Settings, n: int) -> Split:
    """The seeded split that the settings ask for; everything certifies where the prior is data-free."""
    return split(n, split_fraction(settings.prior), derive(settings.seed, "split"))


def floor_split(settings: Settings, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, testing) indices of the floor's network for a data-free prior: a seeded shuffle."""
    order = shuffle(n, derive(settings.seed, "floor"))
    cut = round(FLOOR_FRACTION * n)
    return order[:cut], order[cut:]
