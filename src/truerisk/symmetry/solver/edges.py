r"""The function of the log-scales that is minimized: sums of exponentials over weighted edges.

Every weight of a network, or every kernel between two channels, is an edge. Moving along the rescaling group
divides it by exp(tau), where tau is a combination of few unknown log-scales t. The cost of the moved weights is

    F(t) = sum over edges e of   count tau_e + a_e/2 exp(-2 tau_e) - c_e exp(-tau_e).

For a Gaussian posterior N(m, s^2) and prior N(mu, sigma^2) this is their KL divergence up to a constant, with
a = sum of (m^2 + s^2) / sigma^2, c = sum of m mu / sigma^2 and count weights in the edge; with count = 0 and
s = 0 it is half the squared norm of the weights.

Edges come as matrices: tau_ij = r_i + c_j with a part for the row (outputs of a layer) and one for the column
(inputs). Then exp(-2 tau) scales the rows and columns of `a`, and every sum that the solver needs is a product
of the matrix `a` with a vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from truerisk.errors import TrueriskError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Term = tuple[float, IntArray]  # coefficient, number of the variable at each row [B, R] or column [B, C]


@dataclass(frozen=True)
class Block:
    """`B` matrices of edges with  tau[b,i,j] = sum_k coef_k t[rows_k[b,i]] + sum_k coef_k t[cols_k[b,j]].

    A dense layer is one matrix, a grouped convolution one for each group, biases and depthwise kernels are
    matrices of one entry. A side without terms is pinned: its log-scale is 0.
    """

    a: FloatArray  # [B, R, C], at least 0
    rows: tuple[Term, ...]
    cols: tuple[Term, ...]
    count: float  # number of weights in each edge
    c: FloatArray | None = None  # [B, R, C]

    def __post_init__(self) -> None:
        if self.a.ndim != 3 or (self.c is not None and self.c.shape != self.a.shape):
            raise TrueriskError("a block needs an array `a` of shape [B, R, C], and `c` of the same shape or None.")
        if any(x is not None and x.dtype != np.float64 for x in (self.a, self.c)):
            raise TrueriskError("`a` and `c` need to be float64: convert them once, not at every reading.")
        batch, height, width = self.a.shape
        for terms, length in ((self.rows, height), (self.cols, width)):
            if any(index.shape != (batch, length) for _, index in terms):
                raise TrueriskError("the variables of a row term need the shape [B, R], those of a column term [B, C].")

    @property
    def sides(self) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        return self.rows, self.cols


@dataclass(frozen=True)
class Problem:
    """Blocks, and the group of each variable; all variables of one term lie in one group.

    Groups are what the solver moves as a whole in its coarse corrections: typically the channels of one layer.
    """

    blocks: tuple[Block, ...]
    groups: IntArray

    def __post_init__(self) -> None:
        for block in self.blocks:
            for _, index in block.rows + block.cols:
                if not index.size:
                    continue
                if index.min() < 0 or index.max() >= self.dim:
                    raise TrueriskError("a block names a variable that has no group: `groups` has one entry for each.")
                own = self.groups[index]
                if own.min() != own.max():
                    raise TrueriskError("the variables of one term lie in two groups: split the block.")

    @property
    def dim(self) -> int:
        return len(self.groups)

    @cached_property
    def labels(self) -> IntArray:
        """The group of each variable, renumbered 0, 1, ... without holes."""
        return np.unique(self.groups, return_inverse=True)[1].astype(np.int64)

    @property
    def group_count(self) -> int:
        return int(self.labels.max(initial=-1)) + 1

    def group(self, index: IntArray) -> int:
        """The label of the group that the variables of a term lie in."""
        return int(self.labels[index.flat[0]])

    @cached_property
    def slope(self) -> FloatArray:
        """Gradient of the linear part: sum over edges of count tau_e = slope . t."""
        slope = np.zeros(self.dim)
        for block in self.blocks:
            for terms, others in ((block.rows, block.a.shape[2]), (block.cols, block.a.shape[1])):
                for coef, index in terms:
                    slope += coef * block.count * others * np.bincount(index.ravel(), minlength=self.dim)
        return slope
