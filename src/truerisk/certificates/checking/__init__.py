"""Checking a certificate: read without trust, derive a bound anew, compare the claim with it."""

from truerisk.certificates.checking.verification import Verification, verify

__all__ = ["Verification", "verify"]
