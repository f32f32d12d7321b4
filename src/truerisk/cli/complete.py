"""Names that a shell completes. Nothing here loads torch: a key was pressed, and a person waits.

Where nothing matches, shells offer the names of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from truerisk.names import DEVICES, SAFE_SOURCES

if TYPE_CHECKING:
    from truerisk.certificates.schema import Flag

NETWORKS = (
    "mlp",
    "convnet",
    "poolnet",
    "cosnet",
    "mirrored-cosnet",
    "resnet",
    "mirrored-resnet",
)  # of ``nets.builtin``
FORMS = ("kl", "mcallester", "catoni")  # of ``pacbayes.columns``
PRIORS = ("zero", "init", "split:0.5", "split:0.8", "split:0.9")
Names = Callable[[str], list[str]]


def _among(names: Iterable[str]) -> Names:
    """Those that begin with what was typed."""
    known = tuple(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


data, model, prior, device, form = map(_among, (SAFE_SOURCES, NETWORKS, PRIORS, DEVICES, FORMS))
BY_FLAG = {"data": data, "fresh": data, "trained_on": data, "model": model, "prior": prior}


def of(flag: Flag) -> Names | None:
    """For an option of ``certify``; None where any text may follow."""
    if flag.name == "method":
        from truerisk.certificates.methods import METHODS
        from truerisk.certificates.request import ALL

        return _among((*METHODS, ALL))
    return _among(flag.limits.among) if flag.limits.among else BY_FLAG.get(flag.name)
