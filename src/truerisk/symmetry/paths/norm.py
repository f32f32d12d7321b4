"""The path norm: one number for all path products of a network.

It is the l_p norm of the vector of all path products,

    ( sum over paths of |product of the weights along the path|^p )^(1/p)

(Neyshabur, Tomioka and Srebro 2015, "Norm-based capacity control in neural networks"). It does not change when a
hidden unit's incoming weights are multiplied by a positive number and its outgoing weights are divided by it. One
pass over the network finds it, with |w|^p in place of every weight w, a sum in place of every maximum and ones at
the input (Gonon, Brisebarre, Riccietti and Gribonval 2024, "A path-norm toolkit for modern networks").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.symmetry.paths.follow import Paths, follow
from truerisk.symmetry.paths.rules import RULES

_LARGEST_LOG = math.log(torch.finfo(torch.float64).max)


@dataclass(frozen=True)
class _Logs(Paths):
    """For each entry, the logarithm of the sum over its paths of ``|product|^p``; of the largest one if p is infinite.

    Logarithms carry deep networks past the range of floats and very uneven rescalings within a layer.
    """

    logs: Tensor
    p: float

    @property
    def shape(self) -> torch.Size:
        return self.logs.shape

    def start(self, bias: Tensor) -> _Logs:
        return _Logs(self._log(bias), self.p)

    def move(self, fn: Callable[[Tensor], Tensor]) -> _Logs:
        # The zeros that fn may put between the entries stand for no path, whose logarithm is -inf.
        there = fn(torch.ones((), dtype=torch.float64).expand(self.shape)) != 0
        return _Logs(fn(self.logs).where(there, -math.inf), self.p)

    def scale(self, weight: Tensor) -> _Logs:
        return _Logs(self.logs + self._log(weight), self.p)

    def plus(self, other: _Logs) -> _Logs:
        sum_of = torch.maximum if math.isinf(self.p) else torch.logaddexp
        return _Logs(sum_of(self.logs, other.logs), self.p)

    def matmul(self, weight: Tensor, sparse: bool = False) -> _Logs:
        """A matrix product of numbers that are at most 1.

        What is large or small in the weights out of an entry or into an entry is taken out as logarithms first,
        so that only terms 1e-308 times smaller than their neighbours in one sum can vanish.
        """
        logs = self._log(weight)
        if math.isinf(self.p):
            columns = [(self.logs + column.unsqueeze(-2)).amax(-1) for column in logs.unbind(-1)]
            return _Logs(torch.stack(columns, -1), self.p)
        out_of = _finite(logs.amax(-1, keepdim=True))
        logs -= out_of
        into = _finite(logs.amax(-2, keepdim=True))
        logs -= into
        entries = self.logs + out_of.mT
        top = _finite(entries.amax(-1, keepdim=True))
        return _Logs(((entries - top).exp() @ logs.exp_()).log_() + top + into, self.p)

    def _log(self, weight: Tensor) -> Tensor:
        return weight.abs().log_().mul_(1.0 if math.isinf(self.p) else self.p)


def _finite(logs: Tensor) -> Tensor:
    return logs.where(logs > -math.inf, 0.0)


def path_norm(model: nn.Module, example_input: Tensor | tuple[Tensor, ...], p: float = 1.0, log: bool = False) -> float:
    """Return ``( sum over paths of |product of weights|^p )^(1/p)``, from inputs and biases to outputs.

    The network is taken in eval mode; ``example_input`` gives only the shape of one input, whatever its batch
    size. With ``p=math.inf`` it is the largest ``|product|``; for p below 1 the same formula, though not a norm.
    ``log=True`` gives the natural logarithm, which is finite where the norm is too large for a float and -inf
    where every path is zero. A network with an operation that is not linear, a ReLU or a max-pool is refused.

    Batch norm counts as the affine map that it is: folding it into the layer before it changes no path. Only the bias
    of a layer whose output also goes elsewhere, or reaches the norm by way of another operation, starts its own paths.

    >>> model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).double()
    >>> model[0].weight.data, model[2].weight.data = torch.tensor([[3.0], [2.0]]), torch.tensor([[1.0, -2.0]])
    >>> round(path_norm(model, torch.zeros(1, 1)), 12), round(path_norm(model, torch.zeros(1, 1), p=2), 12)
    (7.0, 5.0)
    """
    if not p > 0:
        raise TrueriskError("p must be a positive number: 1 and 2 are the usual path norms.")
    ends = follow(model, example_input, _Logs(torch.zeros(0), float(p)).start, RULES)
    logs = torch.cat([end.logs.flatten() for end in ends])
    total = logs.max().item() if math.isinf(p) else torch.logsumexp(logs, 0).item() / p
    if math.isinf(total) and total > 0:
        raise TrueriskError(f"the path norm with p = {p} is too large even for its logarithm: take a larger p.")
    if not log and total > _LARGEST_LOG:
        raise TrueriskError(f"the path norm is exp({total:.6g}), too large for a float: ask for log=True.")
    return total if log else math.exp(total)
