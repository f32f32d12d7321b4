import numpy as np
import pytest

from truerisk.data import Data
from truerisk.data.poison import poison, wrong_labels
from truerisk.errors import TrueriskError


def made(n, classes=3, start=0, width=2):
    return Data(
        "made", np.arange(start, start + n * width, dtype=np.float32).reshape(n, width), np.arange(n) % classes, classes
    )


def test_poison_keeps_the_training_examples_and_adds_wrong_ones():
    train, pool = made(5), made(4, start=100)
    found = poison(train, pool, 3)
    assert (found.X[:5] == train.X).all()
    assert (found.y[:5] == train.y).all()
    assert (found.X[5:] == pool.X[:3]).all()
    assert found.y[5:].tolist() == [1, 2, 0]
    assert (wrong_labels(pool).y != pool.y).all()
    assert "3 poisoned" in found.name
    assert found.source is None
    assert len(poison(train, pool, 0)) == 5


def test_integers_stay_integers():
    train = Data("tokens", np.arange(6).reshape(3, 2), [0, 1, 0], 2)
    assert poison(train, train, 2).integers


def test_refused():
    with pytest.raises(TrueriskError, match="from 0 to 4"):
        poison(made(5), made(4), 5)
    with pytest.raises(TrueriskError, match="differ in input shape"):
        poison(made(5), made(4, width=3), 1)
    with pytest.raises(TrueriskError, match="at least 2"):
        wrong_labels(Data("one", np.eye(2), [0, 0], 1))
