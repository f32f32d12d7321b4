"""Classical bounds on networks, one file for each kind of theorem. The formulas are in ``truerisk.bounds``."""

from truerisk.measures.classical import compressed, counting, hidden, products, spectral

__all__ = ["compressed", "counting", "hidden", "products", "spectral"]
