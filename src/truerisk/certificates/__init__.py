"""Certificates: made by ``certify``, kept in files, checked by ``verify``."""

from truerisk.certificates.certificate import Certificate
from truerisk.certificates.entry import certify
from truerisk.certificates.verification import Verification, verify

__all__ = ["Certificate", "Verification", "certify", "verify"]
