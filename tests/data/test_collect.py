"""torch Datasets: read once in order; what cannot be certified on is refused."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from truerisk.data import load
from truerisk.errors import TrueriskError


class Items(Dataset):
    """A dataset from a function of the index."""

    def __init__(self, item, n=20):
        self.item, self.n = item, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.item(i)


def test_tensor_dataset_equals_its_tensors():
    X, y = torch.randn(30, 3, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 5
    data = load(TensorDataset(X, y))
    assert data.sha256 == load((X, y)).sha256
    assert data.name == "TensorDataset"
    assert data.source is None
    assert load(Subset(TensorDataset(X, y), range(5, 25))).sha256 == load((X[5:25], y[5:25])).sha256


def test_bytes_are_scaled_and_labels_may_be_plain_numbers():
    data = load(Items(lambda i: (torch.full((2, 2), i, dtype=torch.uint8), i % 2)))
    assert data.X.max() == np.float32(19 / 255)
    assert data.y.tolist() == [0, 1] * 10
    assert load(Items(lambda i: (np.ones(3), np.float64(i % 2)))).y.tolist() == [0, 1] * 10


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.ones(2), 0)])


class NoLength(Dataset):
    def __getitem__(self, i):
        return torch.ones(2), i % 2


class Picture:
    """Stands for a PIL image: numpy could read it, with the colors in the last axis."""

    def __array__(self, dtype=None, copy=None):
        return np.zeros((4, 4, 3), dtype=np.uint8)


def runs_out(i):
    if i > 12:
        raise IndexError(i)
    return torch.ones(2), i % 2


REFUSED = {
    "empty": (Items(None, n=0), "is empty"),
    "few": (Items(lambda i: (torch.ones(2), i % 2), n=9), "9 examples are too few"),
    "stream": (Stream(), "map-style"),
    "no length": (NoLength(), "is not a dataset"),
    "no pair": (Items(lambda i: torch.ones(3)), "item 0 is not a pair"),
    "three parts": (Items(lambda i: (1, 2, 3)), "item 0 is not a pair"),
    "shapes differ": (Items(lambda i: (torch.ones(2 + i // 10), 0)), "item 10 has an input of shape"),
    "types differ": (Items(lambda i: (np.ones(2, dtype="f4" if i else "f8"), 0)), "item 1 has an input"),
    "picture": (Items(lambda i: (Picture(), 0)), "is a Picture; give the dataset a transform"),
    "label is text": (Items(lambda i: (torch.ones(2), "cat")), "label of item 0 is a str"),
    "label is one-hot": (Items(lambda i: (torch.ones(2), torch.eye(3)[0])), "label of item 0 is a Tensor"),
    "label is fractional": (Items(lambda i: (torch.ones(2), i / 2)), "look like measurements"),
    "runs out": (Items(runs_out), "ends before item 13"),
}


@pytest.mark.parametrize(("dataset", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(dataset, sentence):
    with pytest.raises(TrueriskError, match=sentence):
        load(dataset)


def test_random_augmentation_is_noticed():
    rng = np.random.default_rng(0)
    with pytest.raises(TrueriskError, match="switch off random augmentation"):
        load(Items(lambda i: (rng.normal(size=3), i % 2)))


@pytest.mark.parametrize("part", [0, 1])
def test_items_are_compared_all_over_the_dataset(part):
    rng = np.random.default_rng(0)

    def item(i):
        pair = [torch.full((2,), i / 1000), i % 2]
        if i >= 900:  # augmented, or labeled by chance
            pair[part] = torch.rand(2) if part == 0 else int(rng.integers(1000))
        return tuple(pair)

    with pytest.raises(TrueriskError, match=r"item 999 changes each time it is read"):
        load(Items(item, n=1000))
