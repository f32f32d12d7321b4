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
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.measures.anatomy import Anatomy, Layer, anatomy
from truerisk.measures.gradients import Gradients, gradients
from truerisk.nets import check_network, fold_batch_norm, outputs
from truerisk.nets.evaluate import as_input, margins, precision
from truerisk.seeds import derive

ROWS = 1_000  # examples for what takes many passes; seeded, the same for every measure
BUDGET = 2**30  # bytes that a pass over the examples may take at a time


T = TypeVar("T")


class NotDefined(TrueriskError):
    """A measure has no value for this network; the message says why."""


class Subject:
    """A network in eval mode with its batch norms folded, and data.

    ``module`` and ``init`` (the same network at its initialization, if given) keep their own precision; weights are
    read in float64. ``record`` is what is known of the training, by name. ``seed`` decides every random choice.

    A network that cannot be followed may hold batch norms that belong into weights. Its outputs are known all the same:
    ``function`` computes them for every network. ``module`` is only for networks whose norms are folded.
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
        self.function, self.unfolded = _folded(self.original, self._inputs(slice(1), self.original))
        self.init: nn.Module | None = None
        if init is not None:
            first = check_network(init, data.X, data.classes)
            self.init = _folded(first, self._inputs(slice(1), first))[0]
        if self.init is not None and shapes(self.init) != shapes(self.function):
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

    @property
    def module(self) -> nn.Module:
        """The network with its batch norms folded: the one whose weights are measured."""
        if self.unfolded:
            raise NotDefined(self.unfolded)
        return self.function

    def _inputs(self, rows: Any, module: nn.Module) -> Tensor:
        return as_input(self.data.X[rows], precision(module))

    @property
    def X(self) -> np.ndarray:
        """All inputs, where they are real numbers: integers such as token ids have no norm, and change in jumps."""
        if self.data.integers:
            raise NotDefined("its inputs are integers, and it measures lengths or small changes of inputs.")
        return self.data.X

    @cached_property
    def example(self) -> Tensor:
        """One input of the right shape."""
        return self._inputs(slice(1), self.function)

    @property
    def anatomy(self) -> Anatomy:
        return self.shared("anatomy", self._anatomy)

    def _anatomy(self) -> Anatomy:
        module = self.module
        try:
            return anatomy(module, self.example)
        except TrueriskError as error:
            raise NotDefined(f"the layers of the network cannot be found: {error}") from error

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
        return outputs(self.function, self.data.X).double()

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
        return self._inputs(self.rows, self.function), torch.from_numpy(self.data.y[self.rows])

    @property
    def gradients(self) -> Gradients:
        """Sums over the per-example gradients of the sample, from one pass."""
        return self.shared("gradients", self._gradients)

    def _gradients(self) -> Gradients:
        try:
            return gradients(self.module, *self.sample, budget=self.budget)
        except RuntimeError as error:
            if not str(error).startswith("vmap"):
                raise
            raise NotDefined(
                "torch.func.vmap cannot follow the network, and per-example gradients need it; write the forward "
                "without a path that depends on the values of the data."
            ) from error

    def shared(self, name: str, compute: Callable[[], T]) -> T:
        """What ``compute`` returns, computed when it is asked for first and kept under ``name``; a refusal, too."""
        if name not in self._kept:
            try:
                self._kept[name] = compute()
            except NotDefined as reason:  # a search in vain is as long as any other
                self._kept[name] = reason
        kept = self._kept[name]
        if isinstance(kept, NotDefined):
            raise kept
        found: T = kept
        return found

    def copy(self) -> nn.Module:
        """A network of one's own to change."""
        return copy.deepcopy(self.module)

    def generator(self, *purpose: object) -> torch.Generator:
        """Random numbers for one purpose, the same for the same seed."""
        return torch.Generator().manual_seed(derive(self.seed, "measures", *purpose))


def _folded(module: nn.Module, example: Tensor) -> tuple[nn.Module, str]:
    """(the network without batch norm, nothing), or (the network as it is, why its batch norms cannot be folded).

    A norm that does not follow a layer stays, and counts as a layer of its own (see ``anatomy``).
    """
    try:
        return fold_batch_norm(module, example), ""
    except TrueriskError as error:
        norms = [name for name, m in module.named_modules() if isinstance(m, _BatchNorm)]
        return module, f"the batch norm {norms[0]} cannot be folded into the layer before it: {error}" if norms else ""


def shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in module.named_parameters()}
