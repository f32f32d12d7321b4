"""Classical bounds on networks, one file for each kind of theorem. The formulas are in ``truerisk.bounds``."""
