"""Networks that look their inputs up in a table (token ids), and what to say where an input is of another kind."""

from __future__ import annotations

import copy
import re

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError

NO_INTEGERS = re.compile(r"scalar types?:? Long|used as indices must be|LongTensor|index tensor|IntTensor")
TOO_LARGE = re.compile(r"index out of range|out of bounds|Class values must be smaller")  # torch's words


def wants_integers(error: Exception) -> bool:
    """Whether torch refused real numbers where it needs integers.

    >>> wants_integers(IndexError("tensors used as indices must be long, int, byte or bool tensors"))
    True
    """
    return bool(NO_INTEGERS.search(str(error)))


def refuse_wrong_tokens(network: nn.Module, example: Tensor) -> None:
    """Run the network once; tell inputs that do not fit its table. Other failures are left to those who follow it."""
    try:
        with torch.no_grad():
            copy.deepcopy(network).eval()(example)
    except Exception as error:
        if example.is_floating_point() and wants_integers(error):
            raise TrueriskError(integers_sentence(network)) from error
        if not example.is_floating_point() and TOO_LARGE.search(str(error)):
            largest = int(example.max())
            raise TrueriskError(
                f"an input is {largest}, but the network's table ends before that{_rows(network)}; give the "
                "vocabulary size with --integers."
            ) from error


def integers_sentence(network: nn.Module) -> str:
    """For real numbers where the network takes token ids: the option that makes integers, with the size if it is known.

    >>> integers_sentence(nn.Embedding(20, 4))
    'the network looks its inputs up in a table, but they are real numbers; give --integers 20 (Python: int64 inputs).'
    """
    sizes = _sizes(network)
    size = str(sizes[0]) if len(sizes) == 1 else "VOCABULARY_SIZE"
    rows = _rows(network) if len(sizes) > 1 else ""
    return (
        f"the network looks its inputs up in a table{rows}, but they are real numbers; give --integers {size} "
        "(Python: int64 inputs)."
    )


def _sizes(network: nn.Module) -> list[int]:
    tables = [layer for layer in network.modules() if isinstance(layer, nn.Embedding | nn.EmbeddingBag)]
    return list(dict.fromkeys(table.num_embeddings for table in tables))


def _rows(network: nn.Module) -> str:
    sizes = _sizes(network)
    return f" (it has {' or '.join(f'{size:,}' for size in sizes)} rows)" if sizes else ""
