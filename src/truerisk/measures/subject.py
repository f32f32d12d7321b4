"""What is measured: a network, its examples, and everything expensive that several measures share.

Each shared part (a pass for the outputs, a pass for the gradients, the singular values of a layer) is computed when the
first measure asks for it, once. Passes run in chunks that fit into a budget of memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.measures.anatomy import Anatomy, Layer, anatomy
from truerisk.measures.gradients import Gradients, gradients
from truerisk.nets import check_network, fold_batch_norm, outputs
from truerisk.nets.evaluate import margins, precision
from truerisk.seeds import derive

ROWS = 1_000  # examples for what takes many passes; seeded, the same for every measure
BUDGET = 2**30  # bytes that a pass over the examples may take at a time


T = TypeVar("T")


class Subject:
    """A network in eval mode with its batch norms folded, and data.

    ``module`` and ``init`` (the same network at its initialization, if given) keep their own precision; weights are
    read in float64. ``record`` is what is known of the training, by name. ``seed`` decides every random choice.
    """

    def __init__(
        self,
        module: nn.Module,
        data: Data,
        init: nn.Module | None = None,
        *,
        record: Mapping[str, Any] | None = None,
        rows: int = ROWS,
        seed: int = 0,
        budget: int = BUDGET,
    ) -> None:
        self.data, self.record, self.seed, self.budget = data, dict(record or {}), seed, budget
        self._kept: dict[str, Any] = {}
        self.original = check_network(module, data.X, data.classes)
        self.module = _folded(self.original)
        self.init = None if init is None else _folded(check_network(init, data.X, data.classes))
        if self.init is not None and shapes(self.init) != shapes(self.module):
            raise TrueriskError("the initial network has other layers or shapes than the trained one: give its own.")
        count = min(rows, len(data))
        chosen = np.random.default_rng(derive(seed, "measures", "rows")).permutation(len(data))[:count]
        self.rows = np.sort(chosen)

    @property
    def has(self) -> frozenset[str]:
        """What the caller gave besides network and data."""
        return frozenset(({"init"} if self.init is not None else set()) | ({"record"} if self.record else set()))

    @property
    def n(self) -> int:
        return len(self.data)

    @cached_property
    def example(self) -> Tensor:
        """One input of the right shape."""
        return torch.from_numpy(self.data.X[:1]).to(precision(self.module))

    @cached_property
    def anatomy(self) -> Anatomy:
        return anatomy(self.module, self.example)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers with weights, in the order in which they run."""
        return self.anatomy.layers

    @cached_property
    def moves(self) -> dict[str, Tensor]:
        """W - W_0 of each layer, as matrices (see ``Layer.matrix``). Only with ``init``."""
        assert self.init is not None
        before = {layer.name: layer.matrix for layer in anatomy(self.init, self.example).layers}
        return {layer.name: layer.matrix - before[layer.name] for layer in self.layers}

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """All trainable parameters of the folded network, in float64."""
        return {name: p.detach().double() for name, p in self.module.named_parameters() if p.requires_grad}

    @cached_property
    def initial_parameters(self) -> dict[str, Tensor]:
        assert self.init is not None
        return {name: p.detach().double() for name, p in self.init.named_parameters() if p.requires_grad}

    @cached_property
    def singular_values(self) -> dict[str, Tensor]:
        """Of each layer's matrix, largest first."""
        return {layer.name: torch.linalg.svdvals(layer.matrix) for layer in self.layers}

    @cached_property
    def logits(self) -> Tensor:
        """Outputs for all examples, in float64."""
        return outputs(self.module, self.data.X).double()

    @cached_property
    def labels(self) -> Tensor:
        return torch.from_numpy(self.data.y)

    @cached_property
    def margins(self) -> Tensor:
        """Logit of the label minus the largest other logit: negative where the network is wrong. All examples."""
        return margins(self.logits, self.labels)[0]

    @cached_property
    def sample(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels of ``rows``, in the network's precision."""
        x = torch.from_numpy(self.data.X[self.rows]).to(precision(self.module))
        return x, torch.from_numpy(self.data.y[self.rows])

    @cached_property
    def gradients(self) -> Gradients:
        """What one pass over the gradients of the sample's examples gives."""
        return gradients(self.module, *self.sample, budget=self.budget)

    def shared(self, name: str, compute: Callable[[], T]) -> T:
        """What ``compute`` returns, computed when it is asked for first and kept under ``name``."""
        if name not in self._kept:
            self._kept[name] = compute()
        kept: T = self._kept[name]
        return kept

    def copy(self) -> nn.Module:
        """A network of one's own to change."""
        return copy.deepcopy(self.module)

    def generator(self, *purpose: object) -> torch.Generator:
        """Random numbers for one purpose, the same for the same seed."""
        return torch.Generator().manual_seed(derive(self.seed, "measures", *purpose))


def _folded(module: nn.Module) -> nn.Module:
    """Without batch norm where that can be told; a norm that stays counts as a layer of its own (see ``anatomy``)."""
    try:
        return fold_batch_norm(module)
    except TrueriskError:
        return module


def shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in module.named_parameters()}
