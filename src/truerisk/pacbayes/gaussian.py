"""Gaussian distributions over the weights of a module, and the KL divergence between two of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from itertools import chain

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import identical
from truerisk.nets.hidden import replaced_forwards

ROUNDING = 1e-13  # relative error of a float64 KL, with room to spare: see Gaussian.kl

PIECE = 1 << 19  # weights at a time: what fits into a cache (the quickest of 2^15 to 2^20 when it was tried)

Scale = float | Mapping[str, float | Tensor]


class Gaussian:
    """Independent Gaussian weights: every trainable parameter has a mean and a standard deviation.

    Frozen parameters and buffers (batch-norm statistics, say) are part of the network, not of the
    distribution: they stay as they are in ``module``.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> p, q = Gaussian.zero(net, std=1.0), Gaussian.zero(net, std=1.0)
    >>> q.mean["weight"][:] = torch.tensor([[3.0, 4.0]])
    >>> round(q.kl(p), 9)  # |mean|^2 / 2
    12.5
    """

    def __init__(self, module: nn.Module, mean: Mapping[str, Tensor], std: Mapping[str, Tensor]) -> None:
        if replaced_forwards(module) or any(isinstance(m, torch.jit.ScriptModule) for m in module.modules()):
            raise TrueriskError(
                "the forward of the network was replaced or compiled, so drawn weights would not reach it; give the "
                "plain module (for a compiled one: module._orig_mod)."
            )
        self.module = copy.deepcopy(module).eval()
        self.mean, self.std = self._ordered(mean), self._ordered(std)
        self._check()

    @classmethod
    def around(cls, model: nn.Module, std: Scale) -> Gaussian:
        """Mean: the weights of ``model``. ``std``: one number, or a number or tensor for each name.

        A name may be that of a parameter (``"0.weight"``) or of a module, for all parameters in it (``"0"``,
        ``"features.3"``). The most specific name wins, and ``""`` stands for all the rest.

        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        >>> q = Gaussian.around(net, {"0": 0.1, "0.bias": 0.2, "": 0.5})
        >>> {name: round(float(std.mean()), 1) for name, std in q.std.items()}
        {'0.weight': 0.1, '0.bias': 0.2, '2.weight': 0.5, '2.bias': 0.5}
        """
        return cls(model, trainable(model), _full(model, std))

    @classmethod
    def zero(cls, model: nn.Module, std: Scale) -> Gaussian:
        """Mean: 0 everywhere. ``std``: as in ``around``."""
        means = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
        return cls(model, means, _full(model, std))

    def _ordered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """In the order of the module's parameters, whatever order a file has: draws use up noise in this order."""
        if any(tensor.is_complex() for tensor in tensors.values()):
            raise TrueriskError("the network has complex weights, which have no Gaussian here; make them real.")
        place = {name: i for i, name in enumerate(trainable(self.module))}
        names = sorted(tensors, key=lambda name: place.get(name, len(place)))
        return {name: tensors[name].detach().double().clone() for name in names}

    def _check(self) -> None:
        shapes = {name: p.shape for name, p in trainable(self.module).items()}
        if not shapes:
            raise TrueriskError("the module has no trainable parameters, so there is nothing to draw.")
        for what, tensors in (("mean", self.mean), ("std", self.std)):
            if {name: t.shape for name, t in tensors.items()} != shapes:
                raise TrueriskError(f"the names and shapes of {what} are not those of the module's parameters.")
            broken = [name for name, t in tensors.items() if not bool(t.isfinite().all())]
            if broken:
                raise TrueriskError(f"the {what} of {', '.join(broken[:5])} is not finite.")
        negative = [name for name, t in self.std.items() if not bool((t > 0).all())]
        if negative:
            raise TrueriskError(f"the std of {', '.join(negative[:5])} must be positive everywhere.")

    @property
    def size(self) -> int:
        """How many weights are random."""
        return sum(t.numel() for t in self.mean.values())

    @property
    def fixed(self) -> dict[str, Tensor]:
        """Everything in the network that is not random: buffers and frozen parameters."""
        frozen = {name: p.detach() for name, p in self.module.named_parameters() if not p.requires_grad}
        return frozen | dict(self.module.named_buffers())

    def kl(self, other: Gaussian, factors: Mapping[str, Tensor] | None = None) -> float:
        """KL(self, other) in nats, rounded up; with ``factors``, KL(self, other.rescaled(factors)) without the copy.

        For one weight with means m, mu and standard deviations s, sigma, and r = s^2/sigma^2:
        ((m - mu)^2/sigma^2 + r - 1 - ln r) / 2. A relative slack of 1e-13 of all parts is added: far more
        than float64 arithmetic with pairwise summation can lose, so rounding never makes a KL smaller.
        """
        return kl_from(self.sums(other, factors))

    def sums(self, other: Gaussian, factors: Mapping[str, Tensor] | None = None) -> list[Sums]:
        """The sums that this KL is computed from, for each parameter."""
        factors = factors or {}
        self.refuse_without_kl(other, factors)
        return [kl_sums(self, other, name, factors.get(name)) for name in self.mean]

    def refuse_without_kl(self, other: Gaussian, factors: Mapping[str, Tensor] | None = None) -> None:
        """Both must be over the same weights, and what is fixed must be the same."""
        if {n: t.shape for n, t in self.mean.items()} != {n: t.shape for n, t in other.mean.items()}:
            raise TrueriskError("the two distributions are over different networks, so they have no KL.")
        factors = factors or {}
        mine = self.fixed
        theirs = {n: _multiplied(t, factors[n]) if n in factors else t for n, t in other.fixed.items()}
        moved = [n for n in mine if n not in theirs or not identical(mine[n], theirs[n].to(mine[n].dtype))]
        if moved or len(mine) != len(theirs):
            raise TrueriskError(
                f"the two distributions fix {', '.join(moved) or 'parts of the network'} at different values; the "
                "KL of the weights says nothing about that."
            )

    def rescaled(self, factors: Mapping[str, Tensor]) -> Gaussian:
        """The distribution of the weights after a multiplication: means and standard deviations, and what is fixed."""
        mine = self.mean | self.fixed
        mean, std = dict(self.mean), dict(self.std)
        twin = copy.deepcopy(self.module)
        fixed = dict(twin.named_parameters()) | dict(twin.named_buffers())
        for name, factor in factors.items():
            if name not in mine or mine[name].shape != factor.shape:
                raise TrueriskError(f"these factors are for another network: {name} does not fit.")
            if name in mean:
                mean[name], std[name] = mean[name] * factor, std[name] * factor
            else:
                fixed[name].data.copy_(_multiplied(fixed[name].data, factor))
        return Gaussian(twin, mean, std)

    def network(self) -> nn.Module:
        """The network at the mean, in the module's own precision and in eval mode."""
        twin = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, parameter in trainable(twin).items():
                parameter.copy_(self.mean[name])
        return twin


def in_float32(gaussian: Gaussian) -> Gaussian:
    """Round to float32 numbers, so that a file keeps exactly what was used."""
    mean = {name: value.float() for name, value in gaussian.mean.items()}
    return Gaussian(gaussian.module, mean, {name: value.float() for name, value in gaussian.std.items()})


def _multiplied(tensor: Tensor, factor: Tensor) -> Tensor:
    """A factor exp(u) exp(-u) is 1, whatever the last digit says."""
    factor = torch.where((factor - 1).abs() < 1e-14, 1.0, factor)
    return (tensor.double() * factor).to(tensor.dtype)


Sums = list[tuple[float, float, float, float]]


def kl_sums(q: Gaussian, p: Gaussian, name: str, factor: Tensor | None = None, kept: Tensor | None = None) -> Sums:
    """For each piece of a parameter: sums of (m - mu)^2/sigma^2 + r, of ln r, of |ln r|, and the count.

    What the first of these is for each weight goes to ``kept``. Logarithms are of products of eight ratios, where
    these neither over- nor underflow; a relative error of a ratio is an absolute error of its logarithm, so it is
    the count that bounds it.
    """
    mu = p.mean[name]
    centred = is_zero(mu)
    flat = [_pieces(t) for t in (q.mean[name], q.std[name], mu, p.std[name])]
    factors = [None] * len(flat[0]) if factor is None else _pieces(factor)
    results = [None] * len(flat[0]) if kept is None else _pieces(kept)
    scratch = torch.empty(3, min(mu.numel(), PIECE), dtype=torch.float64)
    sums: Sums = []
    for m, s, centre, sigma, f, out in zip(*flat, factors, results, strict=True):
        shift, ratio, scale = scratch[:, : len(m)]
        shift = shift if out is None else out
        if f is not None:
            centre, sigma = centre if centred else centre * f, torch.mul(sigma, f, out=scale)
        torch.div(m if centred else m - centre, sigma, out=shift)
        torch.div(s, sigma, out=ratio)
        squares = shift.square_().addcmul_(ratio, ratio).sum()
        logs = _logs(ratio)
        sums.append((float(squares), 2 * float(logs.sum()), 2 * float(logs.abs_().sum()), float(len(m))))
    return sums


def kl_from(sums: list[Sums]) -> float:
    """The KL from the sums of all parameters, rounded up."""
    squares, log, _, count = _totals(sums)
    slack = kl_slack(sums)
    return max(0.0, (squares - count - log) / 2) + slack if math.isfinite(slack) else math.inf


def kl_slack(sums: list[Sums]) -> float:
    """What was added to that KL against rounding; where the KL is near 0, this is nearly all of it."""
    squares, _, size, count = _totals(sums)
    return ROUNDING * (squares + count + size) / 2


def _totals(sums: list[Sums]) -> tuple[float, ...]:
    return tuple(math.fsum(column) for column in zip(*chain.from_iterable(sums), strict=True))


def is_zero(tensor: Tensor) -> bool:
    """Whether all entries are 0; four times as quick as not tensor.any()."""
    return not tensor.numel() or not any(tensor.aminmax())


def _pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    return tensor.reshape(-1).split(PIECE)


def _logs(values: Tensor) -> Tensor:
    """Numbers with the same sum as the logarithms of the values."""
    if len(values) % 8 == 0:
        low, high = map(float, (products := values.view(8, -1).prod(0)).aminmax())
        if 1e-290 < low <= high < 1e290:
            return products.log_()
    return values.log()


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that a distribution is over; a parameter used twice appears once."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def _full(module: nn.Module, std: Scale) -> dict[str, Tensor]:
    """A standard deviation for each weight: that of the most specific entry which the parameter fits."""
    parameters = trainable(module)
    if not isinstance(std, Mapping):
        return {name: _spread_over(name, std, p) for name, p in parameters.items()}
    names: dict[nn.Parameter, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        names.setdefault(p, []).append(name)
    fitting = {key for own in names.values() for name in own for key in _enclosing(name)}
    strange = [repr(key) for key in std if key not in fitting]
    if strange:
        raise TrueriskError(
            f"std has an entry for {', '.join(strange[:3])}, but the names of this network are {_some(fitting)}; "
            "use these."
        )
    keys = {name: _nearest(names[p], std) for name, p in parameters.items()}
    missing = [name for name, key in keys.items() if key is None]
    if missing:
        raise TrueriskError(
            f'std has no entry for {", ".join(missing[:5])}; add one for each, or the entry "" for all the rest.'
        )
    return {name: _spread_over(name, std[key], parameters[name]) for name, key in keys.items() if key is not None}


def _nearest(names: list[str], std: Mapping[str, object]) -> str | None:
    """The entry for a parameter, which may have several names: its own, else the innermost module around it."""
    found = [(steps, key) for name in names for steps, key in enumerate(_enclosing(name)) if key in std]
    return min(found, key=lambda pair: (not pair[1], pair[0]), default=(0, None))[1]


def _enclosing(name: str) -> list[str]:
    """
    >>> _enclosing("features.0.weight")
    ['features.0.weight', 'features.0', 'features', '']
    """
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), -1, -1)]


def _some(names: Iterable[str]) -> str:
    shown = sorted(name for name in names if name)
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def _spread_over(name: str, value: float | Tensor, parameter: Tensor) -> Tensor:
    try:
        value = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError):
        raise TrueriskError(f"the std of {name} is {value!r}, but must be a positive number; try 0.1.") from None
    try:
        return value.expand(parameter.shape)
    except RuntimeError:
        shapes = f"of shape {tuple(value.shape)}, but must be a number or of shape {tuple(parameter.shape)}"
        raise TrueriskError(f"the std of {name} is {shapes}; give one of them.") from None
