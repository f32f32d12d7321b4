"""Benchmarks: ratios against the obvious other way of doing the same. ``python -m benchmarks``."""
