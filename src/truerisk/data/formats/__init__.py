"""Readers of data files, one module for each format. None of them runs code from a file.

Each takes a path, what stands after the colon of a specification (`file.csv:species`), and whether labels are needed;
each returns a `Content`, whose values `dataset.from_arrays` checks.
"""
