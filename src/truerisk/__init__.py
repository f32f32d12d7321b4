"""truerisk: what a neural network will really do on unseen data.

The names below, and packages such as ``truerisk.bounds``, are loaded when they are first used, so that
``import truerisk`` and ``truerisk --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerisk._version import __version__

if TYPE_CHECKING:
    from truerisk.certificates import Certificate, certify, verify
    from truerisk.certificates.search import search
    from truerisk.errors import NotRepeatedError, TrueriskError, VerificationError
    from truerisk.measures import measure
    from truerisk.measures.audit import audit
    from truerisk.measures.compare import compare_measures
    from truerisk.nets import fold_batch_norm
    from truerisk.pacbayes import Gaussian, rescaling_report, tighten
    from truerisk.symmetry import find_symmetry, path_norm
    from truerisk.tours import Tour, tour

_WHERE = {
    "Certificate": "truerisk.certificates",
    "Gaussian": "truerisk.pacbayes",
    "NotRepeatedError": "truerisk.errors",
    "Tour": "truerisk.tours",
    "TrueriskError": "truerisk.errors",
    "VerificationError": "truerisk.errors",
    "audit": "truerisk.measures.audit",
    "certify": "truerisk.certificates",
    "compare_measures": "truerisk.measures.compare",
    "find_symmetry": "truerisk.symmetry",
    "fold_batch_norm": "truerisk.nets",
    "measure": "truerisk.measures",
    "path_norm": "truerisk.symmetry",
    "rescaling_report": "truerisk.pacbayes",
    "search": "truerisk.certificates.search",
    "tighten": "truerisk.pacbayes",
    "tour": "truerisk.tours",
    "verify": "truerisk.certificates",
}

_ROOMS = (
    "bounds", "certificates", "codes", "data", "engine", "lab", "landscape", "measures", "nets", "pacbayes", "report",
    "symmetry", "training",
)  # fmt: skip

__all__ = [
    "Certificate",
    "Gaussian",
    "NotRepeatedError",
    "Tour",
    "TrueriskError",
    "VerificationError",
    "__version__",
    "audit",
    "certify",
    "compare_measures",
    "find_symmetry",
    "fold_batch_norm",
    "measure",
    "path_norm",
    "rescaling_report",
    "search",
    "tighten",
    "tour",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"truerisk.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'truerisk' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
