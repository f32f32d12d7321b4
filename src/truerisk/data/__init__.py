"""Data: where they come from, what they are, and how they are split so that a certificate stays true.

`load` turns a name, a path, arrays or a torch Dataset into checked `Data`; `split` divides them into examples
for the prior and examples that certify. Importing this package imports neither torch nor scikit-learn.
"""

from truerisk.data.dataset import Data, row_hashes
from truerisk.data.inputs import load_inputs
from truerisk.data.places import folders
from truerisk.data.sources import catalogue, fetch, load
from truerisk.data.splits import Split, check_partition, duplicates_across, shuffle, split
from truerisk.data.treatments import random_labels

__all__ = [
    "Data",
    "Split",
    "catalogue",
    "check_partition",
    "duplicates_across",
    "fetch",
    "folders",
    "load",
    "load_inputs",
    "random_labels",
    "row_hashes",
    "shuffle",
    "split",
]
