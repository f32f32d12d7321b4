"""The three ways truerisk says no."""

from typing import Any


class TrueriskError(ValueError):
    """Bad input, told in one sentence that names the fix; the command line ends with exit code 2."""


class VerificationError(TrueriskError):
    """A certificate that ``verify`` contradicts; the command line ends with exit code 1."""

    verdict = "contradicted"

    @property
    def told(self) -> dict[str, Any]:
        """The verdict, for ``--json``."""
        return {"verdict": self.verdict}


class NotRepeatedError(VerificationError):
    """Training or drawing again gave something else here: the claim is neither confirmed nor contradicted; exit code 1.

    ``risk_bound`` is the bound that ``verify`` derived from the networks it made itself.
    """

    verdict = "not repeated here"

    def __init__(self, message: str, risk_bound: float) -> None:
        super().__init__(message)
        self.risk_bound = risk_bound

    @property
    def told(self) -> dict[str, Any]:
        return {**super().told, "risk_bound": self.risk_bound}
