"""Classical bounds on networks, one file for each kind of theorem. The formulas are in ``truerisk.bounds``."""

from truerisk.measures.classical import counting, hidden, products, spectral

__all__ = ["counting", "hidden", "products", "spectral"]
