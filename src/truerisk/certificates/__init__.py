"""Certificates: made by ``certify``, kept in files, checked by ``verify``.

The names are loaded when they are first used, so that what declares and reads certificates needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truerisk.certificates.certificate import Certificate
    from truerisk.certificates.checking.opening import Verification
    from truerisk.certificates.checking.verification import verify
    from truerisk.certificates.entry import certify

_WHERE = {
    "Certificate": "certificate",
    "Verification": "checking.opening",
    "certify": "entry",
    "verify": "checking.verification",
}

__all__ = ["Certificate", "Verification", "certify", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
