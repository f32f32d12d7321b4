"""How many threads compute, chosen by the size of the work and never by what else the machine is doing.

Sums over several threads round in another order than sums over one, so the number of threads is part of what decides
the last digit of a result. A certificate is made with a fixed number. Small networks get one thread: they gain nothing
from more, and on a busy machine threads that wait for one another cost ten times what they save.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

LARGE = 10_000_000  # multiplications for one example from which a second thread pays, on an idle machine
FEW, MORE = 1, 2
_most: ContextVar[int] = ContextVar("threads", default=MORE)


def threads_for(module: nn.Module, X: np.ndarray) -> int:
    """1 for small networks, 2 for large ones: a function of the network and the shape of its inputs alone.

    Inside ``limited``, as in a task of a grid, it is never more than that limit.

    >>> import numpy as np
    >>> from torch import nn
    >>> threads_for(nn.Linear(64, 10), np.zeros((1, 64), np.float32))
    1
    """
    from truerisk.nets.cost import products

    return min(MORE if products(module, X) >= LARGE else FEW, _most.get())


@contextmanager
def limited(number: int) -> Iterator[None]:
    """This many threads for torch and for the linear algebra below numpy; the old numbers afterwards."""
    import torch

    before, token = torch.get_num_threads(), _most.set(number)
    torch.set_num_threads(number)
    try:
        with _libraries().limit(limits=number):
            yield
    finally:
        torch.set_num_threads(before)
        _most.reset(token)


@cache
def _libraries() -> Any:
    """The thread pools of this process. Looking for them takes as long as a small task: once is enough."""
    import numpy as np  # noqa: F401
    import scipy.linalg  # noqa: F401  its own pool; loaded only by the task, it would escape the limit
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
