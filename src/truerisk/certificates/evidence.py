"""What a certificate rests on: the split, networks, distributions and other arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from truerisk.data import Split, shuffle, split
from truerisk.errors import TrueriskError, VerificationError
from truerisk.seeds import derive

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from truerisk.certificates.settings import Settings
    from truerisk.pacbayes import Gaussian

FLOOR_FRACTION = 0.8  # data-free priors: the floor's network trains on this share and is tested on the rest


@dataclass(frozen=True)
class Evidence:
    """All that is needed, with the data and the settings, to derive a certificate's numbers.

    Every entry is one file, named like its key; a method declares what each of its files holds (``origins.File``).
    """

    parts: Split
    networks: Mapping[str, nn.Module]  # "network" is what the floor tests
    gaussians: Mapping[str, Gaussian] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)

    def having(
        self,
        networks: Mapping[str, nn.Module] | None = None,
        gaussians: Mapping[str, Gaussian] | None = None,
        arrays: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> Evidence:
        """The same evidence with other or more entries under these names."""
        return replace(
            self,
            networks={**self.networks, **(networks or {})},
            gaussians={**self.gaussians, **(gaussians or {})},
            arrays={**self.arrays, **(arrays or {})},
        )

    @property
    def network(self) -> nn.Module:
        """Deterministic: what hold-out certifies, and what the baseline of a certificate tests."""
        return self.networks["network"]

    def gaussian(self, name: str) -> Gaussian:
        """The distribution of this name."""
        if name not in self.gaussians:
            raise VerificationError(f"the certificate's files have no entry {name!r}; certify again.")
        return self.gaussians[name]

    @property
    def prior(self) -> Gaussian:
        return self.gaussian("prior")

    @property
    def posterior(self) -> Gaussian:
        return self.gaussian("posterior")

    @property
    def log_scales(self) -> Mapping[str, Tensor] | None:
        """From the stored posterior back to the trained one; None where the network cannot be traced."""
        return self.arrays.get("log_scales")


def split_data(settings: Settings, n: int) -> Split:
    """The seeded split that the settings ask for; everything certifies where the prior is data-free."""
    fraction = settings.prior.fraction
    if fraction and not round(fraction * n):
        raise TrueriskError(
            f"{settings.prior} sets none of {n} examples aside; give a larger fraction, or --prior init."
        )
    return split(n, fraction, derive(settings.seed, "split"))


def floor_split(settings: Settings, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, testing) indices of the baseline's network for a data-free prior: a seeded shuffle."""
    order = shuffle(n, derive(settings.seed, "floor"))
    cut = round(FLOOR_FRACTION * n)
    return order[:cut], order[cut:]
