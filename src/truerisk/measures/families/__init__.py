"""The measures, one file for each family, in the order in which the table shows them."""

from truerisk.measures.families import counts

__all__ = ["counts"]
