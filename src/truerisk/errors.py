"""The two ways truerisk says no."""


class TrueriskError(ValueError):
    """Bad input, told in one sentence that names the fix; the command line ends with exit code 2."""


class VerificationError(TrueriskError):
    """A certificate that does not hold; the command line ends with exit code 1."""
