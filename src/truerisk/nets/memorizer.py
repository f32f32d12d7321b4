"""A ReLU network that fits any labels of n points in d dimensions with 2n + d weights (Zhang et al. 2017, Theorem 1).

Project the points on a direction a in which no two coincide, z_i = <a, x_i>, and sort them. The network

    c(x) = sum_j w_j max(<a, x> - b_j, 0),    b_1 < z_1 <= b_2 < z_2 <= ... <= b_n < z_n,

has on these points the values A w with A_ij = max(z_i - b_j, 0), a lower triangular matrix with a positive diagonal:
any values y can be had, by w = A^-1 y. As a function of z, c is the broken line through the points (z_i, y_i) with
kinks at the b_j, and w_j is the change of slope at b_j. So w follows from differences, without any matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError

Kinks = Literal["points", "middle"]
ROWS = 1000  # inputs evaluated at a time by `outputs`


class Memorizer(nn.Module):
    """c(x) = sum_j w_j max(<a, x> - b_j, 0): d + n + n weights and nothing else."""

    def __init__(self, direction: np.ndarray, kinks: np.ndarray, slopes: np.ndarray) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.from_numpy(np.array(direction)))
        self.b = nn.Parameter(torch.from_numpy(np.array(kinks)))
        self.w = nn.Parameter(torch.from_numpy(np.array(slopes)))

    def forward(self, x: Tensor) -> Tensor:
        z = x.flatten(1) @ self.a
        return torch.relu(z[:, None] - self.b) @ self.w


@dataclass(frozen=True)
class Line:
    """Distinct points on a line, in order: what the direction makes of the data."""

    direction: np.ndarray
    z: np.ndarray
    y: np.ndarray

    @property
    def gap(self) -> float:
        """The smallest distance of two neighbours, as a fraction of the distance of the outermost points."""
        return relative_gap(self.z)


def memorize(X: np.ndarray, y: np.ndarray, seed: int, directions: int = 64, kinks: Kinks = "points") -> Memorizer:
    """The two-layer network of Theorem 1, in float64, through all points (x_i, y_i).

    A point that occurs twice counts once; with two different labels it is refused.

    >>> net = memorize(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), np.array([5.0, -1.0, 7.0]), seed=0)
    >>> outputs(net, np.array([[2.0, 2.0], [0.0, 1.0]])).round(9).tolist()
    [7.0, 5.0]
    >>> sum(p.numel() for p in net.parameters())  # 2n + d
    8
    """
    line = project(X, y, seed, directions)
    b = kink_places(line.z, kinks)
    return Memorizer(line.direction, b, slope_changes(line.z, line.y, kinks))


def memorize_deep(X: np.ndarray, y: np.ndarray, layers: int, seed: int, directions: int = 64) -> nn.Sequential:
    """The same function with ``layers`` hidden layers of width about n/(layers - 1) (Zhang et al. 2017, Corollary 1).

    The paper states O(n/k) units per layer and O(n + d) weights; this construction has (n - 1)/(k - 1) + 3 units and
    at most 4n + d + 5k weights that are not zero. The first layer is the single unit u = max(<a, x> - b_1, 0). Every
    later layer passes u on, computes its share of the kinks, max(u - (b_j - b_1), 0), and passes on in two units the
    positive and the negative part of the sum so far. That is the two-layer function for every input, since u = 0
    left of b_1, where c is 0.
    """
    if layers < 2:
        raise TrueriskError(f"{layers} hidden layers are too few to share the kinks; give at least 2.")
    line = project(X, y, seed, directions)
    b, w = kink_places(line.z, "points"), slope_changes(line.z, line.y, "points")
    shares = np.array_split(np.arange(1, len(b)), layers - 1)
    first = nn.Linear(len(line.direction), 1, dtype=torch.float64)
    _set(first, line.direction[None], -b[:1])
    # What the units of a layer add to the sum: u its own slope change once, at the first layer.
    adds = w[:1]
    modules: list[nn.Module] = [nn.Flatten(), first, nn.ReLU()]
    for share in shares:
        width = len(share) + 3  # u, the kinks, the positive and the negative part of the sum
        weight, bias = np.zeros((width, len(adds))), np.zeros(width)
        weight[: len(share) + 1, 0] = 1
        bias[1 : len(share) + 1] = b[0] - b[share]
        weight[-2], weight[-1] = adds, -adds
        layer = nn.Linear(len(adds), width, dtype=torch.float64)
        _set(layer, weight, bias)
        modules += [layer, nn.ReLU()]
        adds = np.concatenate([[0.0], w[share], [1.0, -1.0]])
    last = nn.Linear(len(adds), 1, bias=False, dtype=torch.float64)
    _set(last, adds[None], None)
    return nn.Sequential(*modules, last, nn.Flatten(0))


def project(X: np.ndarray, y: np.ndarray, seed: int, directions: int) -> Line:
    """The points in order along the best of some random directions: the one with the largest `relative_gap`."""
    points, values = _distinct(X, y)
    generator = np.random.default_rng(seed)
    candidates = generator.standard_normal((directions, points.shape[1]))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    gaps = [relative_gap(np.sort(points @ direction)) for direction in candidates]
    best = int(np.argmax(gaps))
    if gaps[best] == 0:
        raise TrueriskError(
            f"in all {directions} directions two of the {len(points)} points fall on one number in float64; "
            "try more directions or fewer points."
        )
    z = points @ candidates[best]
    order = np.argsort(z)
    return Line(candidates[best], z[order], values[order])


def relative_gap(z: np.ndarray) -> float:
    """The smallest distance of neighbours in a sorted list, divided by the largest distance of all; 1 for one point."""
    return float(np.diff(z).min() / (z[-1] - z[0])) if len(z) > 1 and z[-1] > z[0] else float(len(z) == 1)


def kink_places(z: np.ndarray, kinks: Kinks) -> np.ndarray:
    """b_1 one mean gap left of the first point; the others on the previous point, or in the middle of each gap."""
    first = z[0] - ((z[-1] - z[0]) / (len(z) - 1) if len(z) > 1 else 1.0)
    others = z[:-1] if kinks == "points" else (z[:-1] + z[1:]) / 2
    return np.concatenate([[first], others])


def slope_changes(z: np.ndarray, y: np.ndarray, kinks: Kinks) -> np.ndarray:
    """w = A^-1 y in O(n).

    Kinks on the points: the slopes are (y_i - y_{i-1}) / (z_i - z_{i-1}), each by itself, and a small gap is felt
    nowhere else. Kinks in the middle: the slope is s_i = 2 e_i / g_i, where g_i is the gap before point i and e_i what
    the line has to rise from the kink to the point; e_{i+1} = y_{i+1} - y_i - e_i g_{i+1} / g_i, so that (-1)^i s_i
    is a running sum. There the slope that one small gap needs goes on, with alternating signs, to the last point:
    the reason why this choice, though strictly between the points, loses more digits.

    The weights are closer to the exact ones than those of a triangular solve. What remains of the error, in both
    cases, is the rounding of the network's own sum.
    """
    rises, runs = np.diff(y, prepend=0.0), np.diff(z, prepend=kink_places(z, kinks)[0])
    slopes = rises / runs
    if kinks == "middle":
        slopes[0] /= 2  # the first kink is a whole run away from its point, the others half a gap
        signs = np.where(np.arange(len(z)) % 2, -1.0, 1.0)
        slopes = 2 * signs * np.cumsum(signs * slopes)
    return np.diff(slopes, prepend=0.0)


def outputs(net: nn.Module, X: np.ndarray) -> np.ndarray:
    """The network's values on many inputs, in the precision of its weights, some rows at a time."""
    dtype = next(net.parameters()).dtype
    with torch.no_grad():
        inputs = torch.from_numpy(np.asarray(X))
        parts = [net(inputs[at : at + ROWS].to(dtype)) for at in range(0, len(inputs), ROWS)]
        return torch.cat(parts).double().numpy()


def _distinct(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point once, in float64."""
    flat = X.reshape(len(X), -1).astype(np.float64)
    points, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    values = np.asarray(y, dtype=np.float64)
    which = which.reshape(-1)
    wrong = np.flatnonzero(values != values[first][which])
    if len(wrong):
        other = first[which[wrong[0]]]
        raise TrueriskError(
            f"examples {other} and {wrong[0]} are the same point with the labels {values[other]:g} and "
            f"{values[wrong[0]]:g}, which no function fits; remove one of them."
        )
    return points, values[first]


def _set(layer: nn.Linear, weight: np.ndarray, bias: np.ndarray | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
