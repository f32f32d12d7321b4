"""Certificates: made by ``certify``, kept in files, checked by ``verify``."""

from truerisk.certificates.certificate import Certificate
from truerisk.certificates.checking import Verification, verify
from truerisk.certificates.entry import certify

__all__ = ["Certificate", "Verification", "certify", "verify"]
