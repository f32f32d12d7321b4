"""``Plan``: how a network is trained. It is defined where torch is not needed."""

from truerisk.plan import Plan

__all__ = ["Plan"]
