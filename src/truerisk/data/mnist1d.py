"""MNIST-1D drawn as theory wants it: independent examples, and constants that no example has touched.

The signals are those of Greydanus and Kobak, "Scaling Down Deep Learning with MNIST-1D" (ICML 2024), made
by their package `mnist1d`. Two things are done differently here. Their data set has exactly equally many
examples of each class, so its labels are not independent; here each label is drawn uniformly by itself. And
their inputs are standardised with the mean and deviation of the very examples, training and test together,
so each example depends on all others; here both constants are fixed beforehand.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from truerisk.data.dataset import Data, from_arrays
from truerisk.errors import TrueriskError
from truerisk.progress import bar

EXAMPLES = 5000
SEEDS = {"mnist1d": 0, "mnist1d:test": 1}
CLASSES = 10

# Measured once on 100,000 examples with seed 987654321, which no data set of this package uses, then rounded.
MEAN, STD = -0.0059, 0.1548

# Inputs are rounded to multiples of 2^-12, far below the noise. Mathematical libraries differ in the last bit
# of a logarithm; after rounding, the same seed gives the same bytes and fingerprint on other machines, except
# where a value lies within rounding error of the middle between two multiples, which is rare.
GRID = 2.0**12


def generate_mnist1d(n: int = EXAMPLES, seed: int = 0) -> Data:
    """`n` independent examples with inputs of shape (40,), determined by `seed`.

    With the same seed, a smaller `n` gives the first examples of a larger one. The global random states are
    left as they were.
    """
    if n < 1:
        raise TrueriskError(f"mnist1d: {n} examples were asked for; ask for at least 10.")
    if not 0 <= seed < 2**32:
        raise TrueriskError(f"mnist1d: the seed {seed} lies outside 0 to 2^32 - 1; choose one inside.")
    templates, args, transform = _generator()
    X, y = np.empty((n, args.final_seq_length)), np.empty(n, dtype=np.int64)
    with _numpy_seeded(seed), bar("generating mnist1d", total=n) as advance:
        for i in range(n):
            y[i] = np.random.randint(0, CLASSES, dtype=np.int64)  # noqa: NPY002
            X[i], _ = transform(templates["x"][y[i]], templates["t"], args)
            advance()
    X = np.round((X - MEAN) / STD * GRID) / GRID
    name = next((key for key, value in SEEDS.items() if (n, seed) == (EXAMPLES, value)), None)
    return from_arrays(
        X.astype(np.float32),
        y,
        name=name or "mnist1d",
        classes=CLASSES,
        note=f"{n} independent draws with seed {seed}",
        source=name,
    )


def _generator() -> tuple[dict[str, Any], Any, Any]:
    """Templates, settings and the random transformation of the package; about a second to import."""
    with warnings.catch_warnings():
        # The package imports a plotting and a web library; their deprecations are no concern of our users.
        warnings.simplefilter("ignore")
        from mnist1d.data import get_dataset_args, get_templates
        from mnist1d.transform import transform
    return get_templates(), get_dataset_args(), transform


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global random state, which the package draws from, and put the old state back at the end.

    This old generator has a virtue: its streams are frozen, so they are the same in all numpy versions.
    """
    before = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
