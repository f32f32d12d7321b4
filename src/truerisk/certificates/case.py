"""One certificate under verification, and the comparison of networks that were trained again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.settings import Settings
from truerisk.certificates.software import software
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import Architecture
from truerisk.pacbayes import Gaussian

RETRAINED_SAME = 1e-4  # relative difference of retrained weights that another machine's rounding explains
MOST_THREADS = 256


@dataclass
class Verification:
    """The re-derived bound, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One certificate under verification: what it claims, what was loaded, what was found so far."""

    settings: Settings
    data: Data
    arch: Architecture
    evidence: Evidence
    record: dict[str, Any]
    result: Verification

    @property
    def same_software(self) -> bool:
        """The versions that the certificate was made with are those that run now."""
        claimed, mine = self.record["software"], software()
        return all(claimed.get(key) == mine.get(key) for key in ("torch", "numpy", "machine", "device"))

    def trainer(self, fit: Fit | None) -> Trainer:
        """What trains this certificate's networks again."""
        if self.settings.own_training and fit is None:
            raise TrueriskError(
                "this certificate's network was trained by your own function: give verify(..., fit=...)."
            )
        return Trainer(self.settings, self.data, self.arch, fit if self.settings.own_training else None)

    @contextmanager
    def threads(self) -> Iterator[None]:
        """As many threads as the certificate was made with: sums over threads round in their own way."""
        before, claimed = torch.get_num_threads(), self.record["software"].get("threads")
        torch.set_num_threads(claimed if type(claimed) is int and 1 <= claimed <= MOST_THREADS else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def compare(self, what: str, stored: dict[str, Tensor], again: dict[str, Tensor]) -> None:
        """Refuse stored tensors that are not the ones that training again gives."""
        gap = max(_relative_gap(stored[name], again[name]) for name in stored)
        if gap > (0.0 if self.same_software else RETRAINED_SAME):
            raise VerificationError(
                f"the {what} is not the one that training again from seed {self.settings.seed} gives (relative "
                f"difference {gap:.2g}); on other hardware rounding alone can grow to that, so repeat it where it "
                "was made."
            )
        if gap > 0:
            self.result.noticed.append(f"this machine's rounding changes the {what}'s weights by {gap:.1g} (relative)")
        self.result.checked.append(f"the {what} is the one that its seed and its own examples give")

    def compare_gaussian(self, what: str, stored: Gaussian, again: Gaussian) -> None:
        """The same for means, standard deviations and what is fixed."""
        self.compare(what, _tensors(stored), _tensors(again))


def _tensors(gaussian: Gaussian) -> dict[str, Tensor]:
    mean = {f"mean {name}": value for name, value in gaussian.mean.items()}
    return mean | {f"std {name}": value for name, value in gaussian.std.items()} | gaussian.fixed


def _relative_gap(a: Tensor, b: Tensor) -> float:
    """Largest difference over largest value; infinite where one is not a number."""
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    gap = float((a.double() - b.double()).abs().max()) / (float(b.double().abs().max()) or 1.0)
    return gap if gap >= 0 else float("inf")
