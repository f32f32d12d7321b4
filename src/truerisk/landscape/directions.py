"""Random directions in weight space, and the lengths that they are given.

A slice through the loss shows L(w + a d). Where d is plain noise, large weights seem flat and small ones sharp. Li, Xu,
Taylor, Studer, and Goldstein (NeurIPS 2018, Section 4) therefore give each filter of d the norm of the filter of w,

    d_ij <- d_ij / ||d_ij|| * ||w_ij||     (filter j of layer i; a row of a matrix is a filter),

and call the picture independent of the scale of the weights. That is true of half of all rescalings. Multiply what
enters hidden unit k by c_k and divide what leaves it by c_k: the function stays. A slice stays, too, if each
entry of d is multiplied by the factor of its weight. Filter normalization does so where all entries of a filter have
one factor: for the rows that enter a unit, and for whole layers (all c_k of a layer equal). Rows of the next layer have
entries with different factors 1/c_k, and their common norm mixes them: filter-normalized slices of two networks that
compute the same function differ. Noise in proportion to each weight,

    d_k = |w_k| z_k,     z_k ~ N(0, 1),

moves with every rescaling, so its slices do not differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.seeds import derive

Direction = dict[str, Tensor]  # by name of the parameter

NORMALIZATIONS = {
    "filter": "each filter has the norm of the weights' filter; biases have their own size",
    "filter-weights": "each filter has the norm of the weights' filter; biases and batch norms stay (published code)",
    "elementwise": "each entry is in proportion to its weight: no rescaling changes the surface",
    "none": "plain noise, with the norm of all weights",
}


def weights_of(module: nn.Module) -> Direction:
    """Copies of the trainable parameters; a network without any is refused."""
    found = {name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad}
    if not sum(w.numel() for w in found.values()):
        raise TrueriskError("the network has 0 trainable parameters, but needs at least 1; set requires_grad.")
    return found


def norm(direction: Mapping[str, Tensor]) -> float:
    """The Euclidean norm over all parameters, in float64."""
    return float(sum(float(d.double().square().sum()) for d in direction.values()) ** 0.5)


def random_direction(center: Mapping[str, Tensor], seed: int, number: int = 0, how: str = "filter") -> Direction:
    """A normalized random direction. Each parameter has noise of its own, by name: twins get the same noise.

    >>> d = random_direction({"w": torch.tensor([[3.0, 4.0], [0.0, 1.0]])}, seed=0)
    >>> [round(float(row.norm()), 4) for row in d["w"]]
    [5.0, 1.0]
    """
    noise = {}
    for name, w in center.items():
        generator = torch.Generator().manual_seed(derive(seed, "landscape", number, name))
        noise[name] = torch.randn(w.shape, generator=generator, dtype=torch.float64)
    return normalized(noise, center, how)


def normalized(noise: Mapping[str, Tensor], center: Mapping[str, Tensor], how: str = "filter") -> Direction:
    """Noise with the lengths that ``how`` says (see `NORMALIZATIONS`), in the precision of the weights.

    In the published code (``filter-weights``) parameters with one axis, which are biases and the weights of batch
    norms, do not move. In ``filter`` each of their entries is a filter of its own: it moves by plus or minus its size.

    >>> normalized({"b": torch.tensor([2.0, -1.0])}, {"b": torch.tensor([0.5, 3.0])})["b"].tolist()
    [0.5, -3.0]
    """
    if how not in NORMALIZATIONS:
        raise TrueriskError(f"the directions are {how!r}, but must be one of {', '.join(NORMALIZATIONS)}; choose one.")
    if how == "none":
        scale = norm(center) / max(norm(noise), 1e-300)
        found = {name: scale * z.double() for name, z in noise.items()}
    elif how == "elementwise":
        found = {name: center[name].double().abs() * z.double() for name, z in noise.items()}
    else:
        found = {name: _filters(z.double(), center[name].double(), how) for name, z in noise.items()}
    if not norm(found):
        raise TrueriskError("all trainable weights that would move are 0, so no direction has a length; train first.")
    return {name: d.to(center[name].dtype) for name, d in found.items()}


def _filters(noise: Tensor, weights: Tensor, how: str) -> Tensor:
    if weights.ndim <= 1:
        return noise.sign() * weights.abs() if how == "filter" else torch.zeros_like(weights)
    own, theirs = (each.reshape(len(each), -1).norm(dim=1) for each in (noise, weights))
    ratio = theirs / own.clamp_min(1e-300)
    return noise * ratio.reshape(-1, *[1] * (weights.ndim - 1))
