"""Data: where they come from, what they are, and how they are split so that a certificate stays true.

`load` turns a name, a path, arrays or a torch Dataset into checked `Data`; `split` divides them into examples
for the prior and examples that certify. Importing this package imports neither torch nor scikit-learn.
"""

from truerisk.data.dataset import Data, row_hashes
from truerisk.data.inputs import Inputs, load_inputs
from truerisk.data.places import folders
from truerisk.data.sources import catalogue, fetch, load
from truerisk.data.splits import Split, check_partition, duplicates_across, shuffle, split
from truerisk.data.treatments import (
    centre_crop,
    corrupt_labels,
    gaussian_pixels,
    random_labels,
    random_pixels,
    shuffle_pixels,
    whiten_images,
)

__all__ = [
    "Data",
    "Inputs",
    "Split",
    "catalogue",
    "centre_crop",
    "check_partition",
    "corrupt_labels",
    "duplicates_across",
    "fetch",
    "folders",
    "gaussian_pixels",
    "load",
    "load_inputs",
    "random_labels",
    "random_pixels",
    "row_hashes",
    "shuffle",
    "shuffle_pixels",
    "split",
    "whiten_images",
]
