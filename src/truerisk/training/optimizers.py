"""Optimizers by name, behind one step function: torch's own, K-FAC, and Shampoo.

Their updates of a weight w with gradient g, all operations entry by entry unless a matrix is named:

    sgd        w -= lr g
    momentum   v = m v + g                              w -= lr v
    adagrad    s += g^2                                 w -= lr g / (sqrt(s) + e)             Duchi et al. 2011
    rmsprop    s = r s + (1 - r) g^2                    w -= lr g / (sqrt(s) + e)             Tieleman and Hinton 2012
    adadelta   s as above; d = g sqrt(u + e) / sqrt(s + e); u = r u + (1 - r) d^2; w -= lr d       Zeiler 2012
    adam       v = b v + (1 - b) g; s = c s + (1 - c) g^2;  w -= lr (v / (1 - b^t)) / (sqrt(s / (1 - c^t)) + e)
                                                                                             Kingma and Ba 2015
    adamw      w -= lr decay w, then the step of adam   Loshchilov and Hutter 2019 (adam adds decay w to g: L2)
    l-bfgs     w -= t H g, H from the last changes of w and g, t by a line search             Liu and Nocedal 1989
    k-fac      `truerisk.training.kfac`                                                       Martens and Grosse 2015
    shampoo    `truerisk.training.shampoo`                                                    Gupta et al. 2018
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.training.kfac import KFAC
from truerisk.training.shampoo import Shampoo

USUAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adagrad": (torch.optim.Adagrad, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "l-bfgs": (torch.optim.LBFGS, {"line_search_fn": "strong_wolfe", "max_iter": 5, "history_size": 10}),
    "k-fac": (KFAC, {"momentum": 0.9, "damping": 0.1, "clip": 1e-3}),
    "shampoo": (Shampoo, {"momentum": 0.9, "every": 10}),
}
OPTIMIZERS = tuple(USUAL)


def make_optimizer(name: str, target: nn.Module | Iterable[Tensor], lr: float, **options: Any) -> torch.optim.Optimizer:
    """The optimizer of this name for a network, or for tensors (all but K-FAC, which needs to know the layers).

    ``options`` replace torch's defaults and those of this module (`USUAL`): momentum 0.9 for k-fac and shampoo, five
    iterations with a strong Wolfe line search in each step of l-bfgs, and others.

    >>> make_optimizer("adamw", nn.Linear(2, 2), lr=1e-3, weight_decay=0.1).defaults["weight_decay"]
    0.1
    """
    if name not in USUAL:
        raise TrueriskError(f"there is no optimizer {name!r}; choose one of {', '.join(OPTIMIZERS)}.")
    make, usual = USUAL[name]
    if name == "k-fac":
        if not isinstance(target, nn.Module):
            raise TrueriskError("k-fac was given tensors, but needs layers; give the network itself.")
        return make(target, lr=lr, **{**usual, **options})
    tensors = [p for p in target.parameters() if p.requires_grad] if isinstance(target, nn.Module) else list(target)
    return make(tensors, lr=lr, **{**usual, **options})


def take_step(optimizer: torch.optim.Optimizer, module: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[int, int]:
    """Train on one batch by cross-entropy; returns (updates of the weights, gradients of the batch that they took).

    K-FAC takes a second gradient for its curvature. A step of L-BFGS has several updates, none where it has converged,
    and several gradients for its line searches. All others have one of each.

    >>> net = nn.Linear(2, 2)
    >>> take_step(make_optimizer("sgd", net, lr=0.1), net, torch.eye(2), torch.tensor([0, 1]))
    (1, 1)
    """
    gradients = 0

    def closure() -> Any:
        nonlocal gradients
        gradients += 1
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(module(inputs), labels)
        loss.backward()
        return loss

    if isinstance(optimizer, KFAC):
        optimizer.observe(inputs)
        gradients += 1
    before = _iterations(optimizer)
    optimizer.step(closure)
    return _iterations(optimizer) - before if isinstance(optimizer, torch.optim.LBFGS) else 1, gradients


def _iterations(optimizer: torch.optim.Optimizer) -> int:
    """Iterations of L-BFGS so far; other optimizers do not count them."""
    return max((int(state.get("n_iter", 0)) for state in optimizer.state.values()), default=0)
