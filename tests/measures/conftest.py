"""Data for tests of measures: 60 small images of three classes, in the shape (1, 8, 8)."""

from __future__ import annotations

import numpy as np
import pytest

from truerisk.data import Data


@pytest.fixture(scope="session")
def images() -> Data:
    rng = np.random.default_rng(0)
    return Data("images", rng.uniform(size=(60, 1, 8, 8)), np.arange(60) % 3, 3)
