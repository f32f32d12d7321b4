"""Checking a certificate: read without trust, derive a bound anew, compare the claim with it."""
