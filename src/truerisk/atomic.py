"""Write files so that nobody ever finds half of one."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

from truerisk.errors import TrueriskError


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name beside ``path``, then rename: the whole file, or nothing."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise TrueriskError(
            f"{path} cannot be written ({error.strerror or error}); free some space or choose another folder."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # already renamed, or its folder could not be made
            temporary.unlink()
