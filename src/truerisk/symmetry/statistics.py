"""From numbers for each weight to the edges that the solver works on: sums over kernels, cut into matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from truerisk.symmetry.group import Part, Symmetry
from truerisk.symmetry.solver.edges import Block, Problem, Term

# For a parameter: the quadratic and (if any is not 0) the cross terms of its weights, or None to leave it out.
Numbers = Callable[[str], tuple[Tensor, Tensor | None] | None]


class Forms(NamedTuple):
    """Each label as a combination of variables; labels with equal ``kind`` differ in the variables alone."""

    variables: NDArray[np.int64]  # [labels, most terms], -1 where there are fewer
    coefficients: NDArray[np.float64]
    kind: NDArray[np.int64]


def assemble(symmetry: Symmetry, numbers: Numbers, counted: bool = True) -> Problem:
    """The problem of the best log-scales: minimize the sum of  count t + a/2 exp(-2t) - c exp(-t)  over weights.

    ``counted=False`` leaves the linear part out.
    """
    forms = _forms(symmetry)
    blocks: list[Block] = []
    for part in symmetry.parts:
        given = numbers(part.name) if part.terms else None
        if given is not None:
            blocks += _blocks(part, *given, forms, counted)
    return Problem(tuple(blocks), symmetry.group_of)


def _forms(symmetry: Symmetry) -> Forms:
    basis = symmetry.solution.basis.tocsr()
    most = max(int(np.diff(basis.indptr).max(initial=0)), 1)
    variables = np.full((basis.shape[0], most), -1, dtype=np.int64)
    coefficients = np.zeros((basis.shape[0], most))
    row = np.repeat(np.arange(basis.shape[0]), np.diff(basis.indptr))
    place = np.arange(basis.nnz) - basis.indptr[row]
    # Terms in the order of their groups, so that channels of one layer look alike.
    order = np.lexsort((basis.data, symmetry.group_of[basis.indices], row))
    variables[row, place] = basis.indices[order]
    coefficients[row, place] = basis.data[order]
    groups = np.append(symmetry.group_of, -1)[variables]
    kind = np.zeros(len(variables), dtype=np.int64)
    for column in (*coefficients.T, *groups.T):
        _, code = np.unique(column, return_inverse=True)
        _, kind = np.unique(kind * (code.max() + 1) + code, return_inverse=True)
    return Forms(variables, coefficients, kind)


def _blocks(part: Part, a: Tensor, c: Tensor | None, forms: Forms, counted: bool) -> Iterator[Block]:
    """Axes that both terms depend on number the matrices, the others are rows and columns; the rest is summed."""
    (sign, rows), *more = part.terms
    other, cols = more[0] if more else (0, torch.zeros((1,) * len(part.shape), dtype=torch.int64))
    rows, cols = (t.reshape((1,) * (len(part.shape) - t.ndim) + t.shape) for t in (rows, cols))
    tall = {axis for axis in range(rows.ndim) if rows.shape[axis] > 1}
    wide = {axis for axis in range(cols.ndim) if cols.shape[axis] > 1}
    parts = [sorted(tall & wide), sorted(tall - wide), sorted(wide - tall)]
    rest = [axis for axis in range(rows.ndim) if axis not in tall | wide]
    sizes = [int(np.prod([part.shape[axis] for axis in axes], dtype=np.int64)) for axes in [*parts, rest]]
    order = [*parts[0], *parts[1], *parts[2], *rest]

    def matrices(values: Tensor) -> NDArray[np.float64]:
        chosen = values.reshape(part.shape) if part.at is None else values.reshape(-1)[part.at].reshape(part.shape)
        laid_out = chosen.permute(order).reshape(sizes)
        return (laid_out.sum(-1) if sizes[3] > 1 else laid_out.squeeze(-1)).numpy()

    whole = Block(matrices(a), (), (), float(sizes[3]) if counted else 0.0, None if c is None else matrices(c))
    row_labels = rows.permute(order).reshape(sizes[0], sizes[1]).numpy()
    col_labels = cols.permute(order).reshape(sizes[0], sizes[2]).numpy()
    return _cut(whole, (float(sign), row_labels), (float(other), col_labels), forms)


def _cut(whole: Block, rows: Term, cols: Term, forms: Forms) -> Iterator[Block]:
    """Pieces in which all rows look alike, and all columns."""
    kinds = [forms.kind[labels] for _, labels in (rows, cols)]
    if all((kind == kind[:, :1]).all() for kind in kinds):
        pairs = kinds[0][:, 0] * len(forms.kind) + kinds[1][:, 0]
        everything = slice(None)
        for pair in np.unique(pairs):
            chosen = np.flatnonzero(pairs == pair)
            yield from _piece(whole, rows, cols, forms, chosen, everything, everything)
        return
    for b in range(len(whole.a)):
        for kind_of_row in np.unique(kinds[0][b]):
            for kind_of_col in np.unique(kinds[1][b]):
                i = np.flatnonzero(kinds[0][b] == kind_of_row)
                j = np.flatnonzero(kinds[1][b] == kind_of_col)
                yield from _piece(whole, rows, cols, forms, np.array([b]), i, j)


def _piece(
    whole: Block, rows: Term, cols: Term, forms: Forms, b: NDArray[np.int64], i: object, j: object
) -> Iterator[Block]:
    """A block of some matrices, rows and columns; none if it moves with no variable."""

    def taken(values: NDArray[np.float64]) -> NDArray[np.float64]:
        values = values if len(b) == len(values) else values[b]
        return np.ascontiguousarray(values[:, i, :][:, :, j])  # type: ignore[index]

    row_terms = _terms(rows[0], rows[1][b][:, i], forms)  # type: ignore[index]
    col_terms = _terms(cols[0], cols[1][b][:, j], forms)  # type: ignore[index]
    a = taken(whole.a)
    if a.shape[1:] == (1, 1):
        row_terms, col_terms = _merged(row_terms + col_terms), ()
    if row_terms or col_terms:
        yield Block(a, row_terms, col_terms, whole.count, None if whole.c is None else taken(whole.c))


def _terms(sign: float, labels: NDArray[np.int64], forms: Forms) -> tuple[Term, ...]:
    first = labels.reshape(-1)[0]
    coefficients = sign * forms.coefficients[first]
    return tuple((coefficients[k], forms.variables[labels, k]) for k in np.flatnonzero(coefficients))


def _merged(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Terms of one and the same variables added up; those that cancel vanish."""
    merged: list[Term] = []
    for coefficient, variables in terms:
        for place, (other, same) in enumerate(merged):
            if np.array_equal(variables, same):
                merged[place] = (other + coefficient, same)
                break
        else:
            merged.append((coefficient, variables))
    return tuple(term for term in merged if term[0])
