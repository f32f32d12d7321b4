"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build``, without network."""

import sys
from pathlib import Path

from truerisk import __version__

sys.path.append(str(Path(__file__).parent / "extensions"))

project = "truerisk"
author = "The truerisk developers"
copyright = author
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.doctest", "absolute_values", "format", "registry"]
exclude_patterns = ["_build", "_static", "extensions"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["code.css"]
html_title = f"truerisk {release}"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

# The examples in docstrings name what their own module holds.
doctest_global_setup = """
import math
import torch
from torch import nn
from truerisk import Gaussian, audit, certify, find_symmetry, measure, path_norm, search, tighten
from truerisk.bounds import *
from truerisk.codes import bits
from truerisk.data import load
from truerisk.lab import Rows
from truerisk.nets import fold_batch_norm, unfoldable
from truerisk.pacbayes import gibbs_risk, kl_chain, lifted_kl, tuned_scale
from truerisk.symmetry import balanced, path_lift, unit_incoming
from truerisk.words import bound, bound_percent, lower, seen
"""
