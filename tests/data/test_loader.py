"""DataLoaders: their dataset, where each example is visited once and none is changed."""

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from truerisk.data import load
from truerisk.errors import TrueriskError

N = 30
X, Y = torch.randn(N, 3, generator=torch.Generator().manual_seed(0)), torch.arange(N) % 5
SET = TensorDataset(X, Y)


class Order(Sampler):
    """A sampler from a function that makes indices."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return iter(self.make())

    def __len__(self):
        return N


GOOD = {
    "plain": {},
    "batches": {"batch_size": 7},
    "last batch dropped": {"batch_size": 7, "drop_last": True},
    "shuffled": {"shuffle": True, "batch_size": 4},
    "no batches": {"batch_size": None},
    "default collate": {"collate_fn": default_collate},
    "permutation": {"sampler": SubsetRandomSampler(range(N))},
    "tensors as indices": {"sampler": Order(lambda: torch.randperm(N))},
    "numpy's indices": {"sampler": Order(lambda: np.random.permutation(N))},  # noqa: NPY002
    "all samples": {"sampler": RandomSampler(SET, num_samples=N)},
    "one machine": {"sampler": DistributedSampler(SET, num_replicas=1, rank=0)},
    "weights without replacement": {"sampler": WeightedRandomSampler([1.0] * N, N, replacement=False)},
}


@pytest.mark.parametrize("options", GOOD.values(), ids=GOOD.keys())
def test_the_dataset_of_a_loader(options):
    data = load(DataLoader(SET, **options))
    assert data.sha256 == load((X, Y)).sha256
    assert data.name == "TensorDataset"


def fails():
    raise KeyError("no")


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.ones(2), 0)])


REFUSED = {
    "weighted": ({"sampler": WeightedRandomSampler([1.0] * N, N)}, "WeightedRandomSampler draws .*with replacement"),
    "with replacement": ({"sampler": RandomSampler(SET, replacement=True)}, "with replacement"),
    "fewer samples": ({"sampler": RandomSampler(SET, num_samples=20)}, "visits 20 of 30"),
    "more samples": (
        {"sampler": RandomSampler(SET, num_samples=60)},
        "visits 30 of 30 examples, or some of them twice",
    ),
    "part": ({"sampler": SubsetRandomSampler(range(20))}, "visits 20 of 30 .*give loader.dataset, or arrays"),
    "another set": ({"sampler": SequentialSampler(range(20))}, "visits 20 of 30"),
    "several machines": ({"sampler": DistributedSampler(SET, num_replicas=4, rank=0)}, "visits 8 of 30"),
    "twice": ({"sampler": Order(lambda: [0, *range(N - 1)])}, "visits 29 of 30"),
    "endless": ({"sampler": Order(lambda: iter(int, 1))}, "visits 1 of 30"),
    "outside": ({"sampler": Order(lambda: range(1, N + 1))}, "visits 30 of 30"),
    "fails": ({"sampler": Order(fails)}, "Order fails when it is read .KeyError"),
    "no indices": ({"sampler": Order(lambda: ["a"])}, "fails when it is read"),
    "own batches": ({"batch_sampler": BatchSampler(SequentialSampler(SET), 4, False)}, "has a batch_sampler"),
    "own collate": ({"collate_fn": lambda batch: default_collate(batch)}, "has a collate_fn"),
}


@pytest.mark.parametrize(("options", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(options, sentence):
    with pytest.raises(TrueriskError, match=sentence):
        load(DataLoader(SET, **options))


def test_streams_are_refused():
    with pytest.raises(TrueriskError, match="IterableDataset, whose examples have no index"):
        load(DataLoader(Stream()))


def test_random_states_stay_as_they_were():
    generator = torch.Generator().manual_seed(3)
    before = torch.get_rng_state(), generator.get_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    load(DataLoader(SET, sampler=SubsetRandomSampler(range(N), generator=generator)))
    load(DataLoader(SET, sampler=Order(lambda: np.random.permutation(N))))  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(generator.get_state(), before[1])
    assert np.array_equal(np.random.get_state()[1], before[2])  # noqa: NPY002


class OwnIter(DataLoader):
    def __iter__(self):
        for x, y in super().__iter__():
            yield -x, y


class OwnIterator(DataLoader):
    def _get_iterator(self):
        return super()._get_iterator()


class Batches(TensorDataset):
    """Batches are read by other code than single items."""

    def __getitems__(self, rows):
        return [(-X[row], Y[row]) for row in rows]


def test_loaders_with_code_of_their_own():
    for kind in (OwnIter, OwnIterator):
        with pytest.raises(TrueriskError, match=f"{kind.__name__} makes its batches in code of its own; give loader"):
            load(kind(SET, batch_size=4))
    for dataset in (Batches(X, Y), Subset(Batches(X, Y), range(N))):
        with pytest.raises(TrueriskError, match=r"Batches reads batches in code of its own \(__getitems__\)"):
            load(DataLoader(dataset, batch_size=4))
    assert load(DataLoader(Subset(SET, range(N)), batch_size=4)).sha256 == load((X, Y)).sha256
    assert load(Batches(X, Y)).sha256 == load((X, Y)).sha256  # item by item
