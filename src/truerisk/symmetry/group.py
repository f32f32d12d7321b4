"""The rescaling group of a network, and what can be done with it."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.symmetry.held import IN_TIGHTEN, Held, listed, tell_held
from truerisk.symmetry.system import Solution, System, Term
from truerisk.symmetry.tracer import Pin


@dataclass(frozen=True)
class Part:
    """Entries of a parameter or buffer that move by exp(sum of coefficient * log-scale).

    ``at``: their positions in the flattened tensor (None: all, in order), laid out in ``shape``, to which
    the labels of the terms broadcast.
    """

    name: str
    shape: torch.Size
    at: Tensor | None
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Group:
    """Free log-scales that come from one operation: the channels of a layer."""

    name: str
    size: int
    moves: tuple[str, ...]  # parameters and buffers


@runtime_checkable
class Rescalable(Protocol):
    """Anything with named weights that can be multiplied, such as a Gaussian over them."""

    def rescaled(self, factors: Mapping[str, Tensor]) -> Any: ...


Network = TypeVar("Network")


class Factors(Mapping[str, Tensor]):
    """By name, what each entry of a parameter or buffer is multiplied by; made when asked for, one at a time."""

    def __init__(self, symmetry: Symmetry, of_label: Tensor) -> None:
        self._shapes = symmetry.shapes
        self._of_label = of_label
        self._parts: dict[str, list[Part]] = {}
        for part in symmetry.parts:
            if part.terms:
                self._parts.setdefault(part.name, []).append(part)

    def __getitem__(self, name: str) -> Tensor:
        parts, shape = self._parts[name], self._shapes[name]
        if parts[0].at is None:
            return self._of(parts[0]).expand(parts[0].shape).reshape(shape)
        whole = torch.ones(shape, dtype=torch.float64)
        for part in parts:
            whole.view(-1)[part.at] = self._of(part).expand(part.shape).reshape(-1)
        return whole

    def _of(self, part: Part) -> Tensor:
        """exp(u_out) exp(-u_in): exponentials of channels, not of single weights."""
        factors = [(float(c) * self._of_label[labels]).exp() for c, labels in part.terms]
        return functools.reduce(torch.mul, factors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Symmetry:
    """All rescalings that leave the function of a network as it is.

    They form a vector space of log-scales: ``dim`` numbers, in the order of ``groups``. ``pinned`` lists what
    is held at 0, as pairs (where, why). ``still`` has True where a buffer or a frozen parameter of the network at hand
    is not 0: ``rescale`` may move such entries, ``tighten`` may not.
    """

    def __init__(
        self,
        system: System,
        parts: list[Part],
        pins: list[Pin],
        shapes: dict[str, torch.Size],
        still: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.system, self.parts, self.shapes, self.still = system, parts, shapes, still or {}
        self.pins = list(dict.fromkeys(pins))
        self.solution: Solution = system.solve()
        self.dim = len(self.solution.free)
        self.group_of = system.origin(self.solution.free)

    @property
    def pinned(self) -> list[tuple[str, str]]:
        """Where log-scales are 0, and why; a reason that begins with "held in tighten:" leaves ``rescale`` alone.

        >>> from truerisk.symmetry import find_symmetry
        >>> net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
        >>> _ = net[1].running_mean.fill_(0.1)
        >>> for where, why in find_symmetry(net, torch.zeros(1, 3)).pinned:
        ...     print(f"{where}: {why}")
        0 (linear): held in tighten: 5 channels, because rescaling them would move 1.running_mean, which is not drawn
        """
        pins = [(pin.where, f"{pin.operation}: {pin.why}") for pin in self.pins]
        return pins + [(held.where, f"{IN_TIGHTEN}: {held.reason}") for held in self.held_in_tighten]

    @functools.cached_property
    def held_in_tighten(self) -> tuple[Held, ...]:
        """Free log-scales that ``tighten`` will hold at 0, as long as the network's fixed tensors stay as they are."""
        return tell_held(self, *self.holding(self.still), self.still)

    @property
    def groups(self) -> list[Group]:
        """Where the free log-scales come from, and what they move."""
        moved: dict[int, list[str]] = {}
        for part in self.parts:
            labels = np.concatenate([np.unique(labels.numpy()) for _, labels in part.terms] or [np.zeros(0, int)])
            for group in np.unique(self.group_of[self.solution.basis[labels].indices]).tolist():
                moved.setdefault(group, []).append(part.name)
        sizes = Counter(self.group_of.tolist())
        return [Group(self.system.origins[g], sizes[g], tuple(dict.fromkeys(moved.get(g, [])))) for g in sorted(sizes)]

    def random(self, std: float = 1.0, seed: int = 0) -> Tensor:
        """Normal log-scales: a random walk along the orbit. The same seed gives the same ones."""
        generator = torch.Generator().manual_seed(derive(seed, "rescaling"))
        return std * torch.randn(self.dim, dtype=torch.float64, generator=generator)

    def factors(self, log_scales: Tensor) -> Factors:
        """What each entry of each moved parameter and buffer is multiplied by."""
        log_scales = torch.as_tensor(log_scales, dtype=torch.float64)
        if log_scales.shape != (self.dim,) or not bool(log_scales.isfinite().all()):
            raise TrueriskError(
                f"log_scales must be {self.dim} finite numbers for this network, not a tensor of shape "
                f"{tuple(log_scales.shape)}; sym.random() makes one."
            )
        return Factors(self, torch.from_numpy(self.solution.basis @ log_scales.numpy()))

    def rescale(self, model: Network, log_scales: Tensor) -> Network:
        """The same function with other weights: a new module, or a new Gaussian, with its weights multiplied."""
        factors = self.factors(log_scales)
        if isinstance(model, Rescalable):
            return cast(Network, model.rescaled(factors))
        if not isinstance(model, nn.Module):
            raise TrueriskError(f"only a module or a Gaussian can be rescaled, not a {type(model).__name__}.")
        twin = copy.deepcopy(model)
        tensors = dict(twin.named_parameters()) | dict(twin.named_buffers())
        strange = [name for name in factors if name not in tensors or tensors[name].shape != self.shapes[name]]
        if strange:
            raise TrueriskError(f"this is the symmetry of another network: {strange[0]} does not fit.")
        with torch.no_grad():
            for name, factor in factors.items():
                tensor = tensors[name]
                moved = (tensor.double() * factor.to(tensor.device)).to(tensor.dtype)
                if bool(tensor.isfinite().all()) and not bool(moved.isfinite().all()):
                    raise TrueriskError(f"{name} overflows: these log-scales are too large.")
                tensor.copy_(moved)
        return twin

    def holding(self, fixed: Mapping[str, Tensor]) -> tuple[Symmetry, sparse.csr_matrix]:
        """The rescalings that leave these tensors as they are, and the map of their log-scales to ours.

        Entries that are 0 stay 0 under any rescaling, so they hold nothing.
        """
        system = self.system.copy()
        touched = [part for part in self.parts if part.terms and part.name in fixed]
        if not any(bool(fixed[part.name].any()) for part in touched):
            return self, sparse.eye_array(self.dim, format="csr")
        for part in touched:
            if bool(fixed[part.name].any()):
                values = fixed[part.name].reshape(-1)
                held = (values if part.at is None else values[part.at]).reshape(-1) != 0
                for_all = [(c, labels.expand(part.shape).reshape(-1)[held]) for c, labels in part.terms]
                system.equate(for_all)
        return self._within(system)

    def without(self, variables: np.ndarray) -> tuple[Symmetry, sparse.csr_matrix]:
        """The rescalings with these log-scales at 0, and the map of the others to ours."""
        system = self.system.copy()
        system.tie(torch.from_numpy(self.solution.free[variables]), torch.zeros(1, dtype=torch.int64))
        return self._within(system)

    def _within(self, system: System) -> tuple[Symmetry, sparse.csr_matrix]:
        smaller = Symmetry(system, self.parts, self.pins, self.shapes, self.still)
        return smaller, smaller.solution.basis[self.solution.free]

    @property
    def headline(self) -> str:
        if not self.dim:
            return "Nothing in this network can be rescaled."
        return (
            f"{self.dim:,} channels of this network can be rescaled: multiply what enters one, divide what leaves it "
            "by the same number, and the function stays."
        )

    def __str__(self) -> str:
        groups = self.groups
        width = max([len(g.name) for g in groups], default=0)
        lines = [self.headline] + [""] * bool(groups)
        lines += [f"  {g.name:<{width}}  {g.size:>6,}  moves {listed(g.moves)}" for g in groups]
        if self.pins:
            lines += ["", "Held at scale 1:"] + [f"  {pin.where}: {pin.operation}: {pin.why}" for pin in self.pins]
        if self.held_in_tighten:
            lines += ["", "Held in tighten:"] + [f"  {held}" for held in self.held_in_tighten]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Symmetry: {self.dim} free log-scales, {len(self.pins)} places pinned>"
