"""From a torch DataLoader to its dataset, where the loader visits each example once and changes none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from truerisk.errors import TrueriskError

FIX = "give loader.dataset, or arrays (X, y)"


def bases(spec: Any) -> set[str]:
    """The names of an object's classes; torch is not imported to ask, the user's object did it."""
    return {base.__name__ for base in type(spec).__mro__}


def is_loader(spec: Any) -> bool:
    """Whether this is a torch DataLoader."""
    return "DataLoader" in bases(spec) and hasattr(spec, "dataset") and hasattr(spec, "sampler")


def dataset_of(loader: Any) -> Any:
    """The loader's dataset; refused where the loader's batches are other examples than the rows of its dataset.

    Batches and their order do not matter: all rows are read once, including those that `drop_last` leaves out.
    """
    if "IterableDataset" in bases(loader.dataset):
        raise TrueriskError(
            "the loader reads an IterableDataset, whose examples have no index; give a map-style dataset, "
            "or arrays (X, y)."
        )
    if loader.batch_size is None and loader.batch_sampler is not None:
        raise TrueriskError(f"the loader has a batch_sampler, which may repeat or leave out examples; {FIX}.")
    _check_own_code(loader)
    _check_collate(loader)
    _check_sampler(loader)
    return loader.dataset


def _check_own_code(loader: Any) -> None:
    """Batches that other code makes may hold other examples than the rows, and that code is not run here."""
    from torch.utils.data import DataLoader, Subset

    for name in ("__iter__", "_get_iterator"):
        if getattr(type(loader), name) is not getattr(DataLoader, name):
            raise TrueriskError(f"{type(loader).__name__} makes its batches in code of its own; {FIX}.")
    dataset = loader.dataset
    while type(dataset) is Subset:  # its __getitems__ asks the dataset below
        dataset = dataset.dataset
    if callable(getattr(dataset, "__getitems__", None)):
        raise TrueriskError(f"{type(dataset).__name__} reads batches in code of its own (__getitems__); {FIX}.")


def _check_collate(loader: Any) -> None:
    """A function that makes batches may also change examples, and it is not run here."""
    from torch.utils.data import default_collate, default_convert

    if loader.collate_fn not in (default_collate, default_convert):
        raise TrueriskError(f"the loader has a collate_fn, which may change the examples; {FIX}.")


def _check_sampler(loader: Any) -> None:
    """Refuse a sampler that does not visit every row exactly once."""
    from torch.utils.data import RandomSampler, SequentialSampler

    sampler, n = loader.sampler, len(loader.dataset)
    name = type(sampler).__name__
    if getattr(sampler, "replacement", False):
        raise TrueriskError(f"the loader's {name} draws examples with replacement; {FIX}.")
    usual = type(sampler) is SequentialSampler or (type(sampler) is RandomSampler and sampler.num_samples == n)
    if usual and sampler.data_source is loader.dataset:
        return
    visited = _visits(sampler, n, name)
    if sorted(visited) != list(range(n)):
        raise TrueriskError(
            f"the loader's {name} visits {len(set(visited)):,} of {n:,} examples, or some of them twice; {FIX}, "
            "or a Subset."
        )


def _visits(sampler: Any, n: int, name: str) -> list[int]:
    """The rows of one walk through a sampler, which leaves all random states as they were."""
    try:
        with _random_states_kept(sampler):
            return [int(row) for row in islice(iter(sampler), n + 1)]
    except Exception as error:  # the user's own code
        raise TrueriskError(f"the loader's {name} fails when it is read ({type(error).__name__}); {FIX}.") from error


@contextmanager
def _random_states_kept(sampler: Any) -> Iterator[None]:
    from truerisk.seeds import seeded_globals

    generator: Any = getattr(sampler, "generator", None)
    state = generator.get_state() if hasattr(generator, "get_state") else None
    try:
        with seeded_globals(0):
            yield
    finally:
        if state is not None:
            generator.set_state(state)
