"""The command line. Thin: parse, call, print, have the report written.

Nothing here imports torch before a command runs, so that ``truerisk --help`` answers at once.
"""

from __future__ import annotations

import sys

from truerisk.cli.app import app
from truerisk.errors import TrueriskError, VerificationError
from truerisk.progress import printable


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2, a certificate that fails is 1."""
    try:
        app(prog_name="truerisk")  # also as python -m truerisk
    except VerificationError as error:
        _say(f"{error.verdict}: {error}")
        sys.exit(1)
    except TrueriskError as error:
        _say(f"error: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        _say("stopped.")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)  # whoever reads the output has seen enough


def _say(text: str) -> None:
    """One line that does not steer the terminal."""
    print(printable(" ".join(text.split())), file=sys.stderr)


__all__ = ["app", "main"]
