r"""An upper bound on F(t) - min F, from the row and column sums at t alone (for cross terms c = 0).

*From the gradient to the gap.* Along a line, F'' falls at most like exp(-r s), where r = 2 max |tau_e(d)| over the
edges is how fast the fastest exponential of the direction d decays. Integrating twice,

    F(t+d) >= F(t) + g.d + (exp(-r) + r - 1)/r^2 d'Hd,      g, H: gradient and Hessian at t.

Let nu >= (g' H^-1 g)^1/2, and let r <= K |d|_H for every d, |d|_H = (d'Hd)^1/2. The right side falls with r, so it
is at least F(t) - nu h + (exp(-K h) + K h - 1)/K^2 with h = |d|_H. Its minimum over h >= 0 gives, for q = K nu < 1,

    F(t) - min F <= (q + (1-q) ln(1-q)) / K^2,      which is about nu^2/2.

*A diagonal below the Hessian.* H is the sum over edges of 2 w c c', with w = a exp(-2 tau) and c the coefficients
of the edge. For any positive vector y, completing squares for each pair of variables of an edge gives

    H >= diag(z_v / y_v),     z_v = sum over edges of 2 w |c_v| (|c_v| y_v - sum over the others k of |c_k| y_k).

With y constant in each group, z needs only row and column sums. Then nu^2 <= sum g_v^2 y_v/z_v, and K is at most
twice the largest over blocks of the sum over their terms of |c_k| max (y_v/z_v)^1/2, or of (2 min w)^-1/2 where that
is less. Edges with one variable (biases, the first layer) alone make z positive for y = 1; for chains without biases
y must be curved over the layers.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from truerisk.symmetry.solver.edges import Block, FloatArray, IntArray
from truerisk.symmetry.solver.sums import Layer, Sums

_POLICIES = 100
_NEAR = 0.5  # K nu under which the gap is nu^2/2, give or take a quarter
_EPS = float(np.finfo(np.float64).eps)


def upper_gap(sums: Sums) -> float:
    """Return a number that F(t) exceeds min F by at most; infinite if none is found.

    Reads what is not known of the gradient. The rounding errors of the gradient are bounded and added.
    """
    gradient, error = _gradient(sums)
    residual = np.abs(gradient) + error
    ratios = [_ratio(block) for block in sums.problem.blocks]
    for limit in sorted({max(ratio, 1.0) for ratio in ratios}, reverse=True):
        # Each block makes H larger, so it is fair to leave out those that spoil the dominance of the diagonal. Equal
        # pairs (ratio 1) never do, with the right y.
        layers = [layer for layer, ratio in zip(sums.layers, ratios, strict=True) if ratio <= limit]
        bound = _bound(sums, layers, residual)
        if math.isfinite(bound):
            return bound
    return math.inf


def _ratio(block: Block) -> float:
    """How far a block is from being dominated by its diagonal at y = 1: it is up to 1, the ratio of equal pairs."""
    sizes = [abs(coef) for coef, _ in block.rows + block.cols if coef]
    return max((sum(sizes) / size - 1.0 for size in sizes), default=0.0)


def _relative_error(sums: Sums) -> float:
    """Bound the relative error of the sums: of products, of exponentials, and of some hundred updates."""
    longest = max((max(layer.block.a.shape) for layer in sums.layers), default=0) + len(sums.layers)
    return _EPS * (longest + 16.0 * float(np.abs(sums.t).max(initial=0.0)) + 1000.0)


def _gradient(sums: Sums) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and a bound on its rounding error."""
    problem = sums.problem
    gradient, size = problem.slope.copy(), np.abs(problem.slope)
    for layer in sums.layers:
        for side, terms in enumerate(layer.block.sides):
            for coef, index in terms:
                part = coef * sums.of(layer, layer.parts[0], side)
                np.subtract.at(gradient, index, part)
                np.add.at(size, index, np.abs(part))
    return gradient, _relative_error(sums) * size


def _bound(sums: Sums, layers: list[Layer], residual: FloatArray) -> float:
    """The gap as seen by some of the layers."""
    labels = sums.problem.labels
    own, chances = _dominance(sums, layers)
    curved = own > 0.0
    if (residual[~curved] > 0.0).any():
        return math.inf
    y = _hitting_times(chances, labels)
    if y is None:
        return math.inf
    error = _relative_error(sums)
    z = own * ((1.0 - error) * y[labels] - (1.0 + error) * (chances @ y))
    if not (z[curved] > 0.0).all():
        return math.inf
    inverse = np.where(curved, y[labels] / np.where(curved, z, 1.0), 0.0)
    nu = math.sqrt(float(residual**2 @ inverse))
    largest = np.zeros(len(y))
    np.maximum.at(largest, labels, np.sqrt(inverse))
    reaches = [_reach(sums, layer, largest) for layer in sums.layers]
    if 2.0 * max(reaches, default=0.0) * nu > _NEAR:  # K matters: look at the edges too, which takes a pass once
        reaches = [min(r, (2.0 * sums.lightest(w)) ** -0.5) for r, w in zip(reaches, sums.layers, strict=True)]
    return _newton_gap(nu, 2.0 * max(reaches, default=0.0))


def _reach(sums: Sums, layer: Layer, largest: FloatArray) -> float:
    """Bound |tau_e(d)| / |d|_H over the edges of a block; an edge with a = 0 has no say, and does no harm."""
    terms = [(coef, index) for coef, index in layer.block.rows + layer.block.cols if index.size]
    return sum(abs(coef) * float(largest[sums.problem.group(index)]) for coef, index in terms)


def _dominance(sums: Sums, layers: list[Layer]) -> tuple[FloatArray, sparse.csr_array]:
    """Write z_v as  own_v (y_v - sum over groups h of chances_vh y_h)  and return `own` and `chances`."""
    problem, labels = sums.problem, sums.problem.labels
    rows, cols, data = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for layer in layers:
        terms = [(side, *term) for side, terms in enumerate(layer.block.sides) for term in terms if term[1].size]
        for k, (side, coef, index) in enumerate(terms):
            here = 2.0 * abs(coef) * sums.of(layer, layer.parts[0], side).ravel()
            for j, (_, other, where) in enumerate(terms):
                rows.append(index.ravel())
                cols.append(np.full(index.size, problem.group(where)))
                data.append(here * (abs(other) if j == k else -abs(other)))
    shape = (problem.dim, problem.group_count)
    table = sparse.csr_array((np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))), shape=shape).tocoo()
    row, col = table.coords
    own = np.zeros(problem.dim)
    inner = labels[row] == col
    own[row[inner]] = table.data[inner]
    outer = ~inner & (own[row] > 0.0)
    row, col, weight = row[outer], col[outer], -table.data[outer]
    return own, sparse.csr_array((weight / own[row], (row, col)), shape=shape)


def _hitting_times(chances: sparse.csr_array, labels: IntArray) -> FloatArray | None:
    """Return the least y with  y_g >= 1 + (chances @ y)_v  for all variables v of group g, or None without any.

    With coefficients +-1 the rows of `chances` are the jumps of a random walk over groups, which stops where they
    do not add up to 1, and y_g is its longest expected life when the worst variable may be chosen in each
    group: a Markov decision process, solved by policy iteration.
    """
    size = chances.shape[1]
    y = np.ones(size)
    order = np.argsort(labels, kind="stable")
    _, starts = np.unique(labels[order], return_index=True)
    for _ in range(_POLICIES):
        score = 1.0 + chances @ y
        ties = np.flatnonzero(score == np.maximum.reduceat(score[order], starts)[labels])
        worst = np.zeros(size, np.int64)
        worst[labels[ties]] = ties  # any of them will do
        if (score[worst] <= (1.0 + 1e-9) * y).all():
            break
        system = sparse.eye_array(size, format="csc") - sparse.csc_array(chances[worst])
        try:
            y = splu(system).solve(np.ones(size))
        except RuntimeError:  # singular: the walk may go on for ever
            return None
        if not (np.isfinite(y).all() and (y > 0.0).all()):
            return None
    return y


def _newton_gap(nu: float, k: float) -> float:
    """Return (q + (1-q) ln(1-q)) / k^2 for q = k nu; the series of the numerator is q^2/2 + q^3/6 + q^4/12 + ..."""
    q = k * nu
    if not q < 1.0:
        return math.inf
    if q < 1e-3:
        return 0.5 * nu * nu * (1.0 + q)
    return (q + (1.0 - q) * math.log1p(-q)) / (k * k)
