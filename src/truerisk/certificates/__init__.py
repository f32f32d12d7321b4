"""Certificates: made by ``certify``, kept in files, checked by ``verify``."""

from truerisk.certificates.case import Verification
from truerisk.certificates.certificate import Certificate
from truerisk.certificates.entry import certify
from truerisk.certificates.verification import verify

__all__ = ["Certificate", "Verification", "certify", "verify"]
