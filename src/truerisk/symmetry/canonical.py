"""Canonical points of an orbit: one choice of weights for each function, whatever the training's path was."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.symmetry.group import Part, Symmetry
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.solver.edges import Problem
from truerisk.symmetry.statistics import assemble


def balanced(model: nn.Module, symmetry: Symmetry) -> Tensor:
    """Log-scales to the weights of smallest sum of squares, biases included (equi-normalization).

    Stock, Graham, Gribonval, Jegou, ICLR 2019, minimize the same over weights without biases. The problem is
    convex. A channel with nothing but zeros on one side has no smallest point and stays where it is.

    >>> from truerisk.symmetry import find_symmetry
    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> _ = [p.data.fill_(w) for p, w in zip(net.parameters(), (9.0, 4.0))]
    >>> symmetry = find_symmetry(net, torch.zeros(1, 1))
    >>> [round(p.item(), 6) for p in symmetry.rescale(net, balanced(net, symmetry)).parameters()]
    [6.0, 6.0]
    """
    weights = dict(model.named_parameters())

    def squares(name: str) -> tuple[Tensor, None] | None:
        return (weights[name].detach().double().square(), None) if name in weights else None

    alive, to_all = symmetry.without(one_sided(assemble(symmetry, squares, counted=False)))
    if not alive.dim:
        return torch.zeros(symmetry.dim, dtype=torch.float64)
    solution = minimize(assemble(alive, squares, counted=False), tolerance=1e-15)  # as far as rounding lets it go
    return -torch.from_numpy(to_all @ solution.t)


def one_sided(problem: Problem) -> np.ndarray:
    """Variables with nothing but zeros on one side: moving them on and on makes the weights smaller and smaller."""
    sides = np.zeros((2, problem.dim))
    for block in problem.blocks:
        for terms, axis in ((block.rows, 2), (block.cols, 1)):
            for coefficient, variables in terms:
                np.add.at(sides[int(coefficient > 0)], variables, block.a.sum(axis))
    return np.flatnonzero((sides == 0).any(0))


def unit_incoming(model: nn.Module, symmetry: Symmetry) -> Tensor:
    """Log-scales after which the weights that enter each free channel have Euclidean norm 1.

    Channels are taken in the order of the network, each normalized by the weights (without bias) of the
    operation that makes it. Where several operations add to one stream, the first one counts.
    """
    weights = dict(model.named_parameters())
    basis = symmetry.solution.basis
    log_scales, done = np.zeros(symmetry.dim), np.zeros(symmetry.dim, dtype=bool)
    for part in symmetry.parts:
        if part.name in weights and part.terms and part.terms[0][0] == 1:
            of_label = torch.from_numpy(basis @ log_scales)
            variables, norms = _incoming(part, weights[part.name].detach().double(), of_label, symmetry)
            new = ~done[variables] & (norms > 0)
            log_scales[variables[new]] = -np.log(norms[new])
            done[variables] = True
    return torch.from_numpy(log_scales)


def _incoming(part: Part, weight: Tensor, of_label: Tensor, symmetry: Symmetry) -> tuple[np.ndarray, np.ndarray]:
    """Variables that are a channel by themselves (coefficient 1, alone), and the norms of what enters them."""
    entries = (weight if part.at is None else weight.reshape(-1)[part.at]).reshape(part.shape)
    (_, out), *others = part.terms
    shift = sum((float(c) * of_label[labels] for c, labels in others), torch.zeros((), dtype=torch.float64))
    squares = (entries * shift.exp()).square()
    out = out.reshape((1,) * (squares.ndim - out.ndim) + out.shape)
    summed = [axis for axis in range(squares.ndim) if out.shape[axis] == 1]
    rows = (squares.sum(summed, keepdim=True) if summed else squares).reshape(-1).numpy()
    labels = out.reshape(-1).numpy()
    basis = symmetry.solution.basis
    plain = np.diff(basis.indptr)[labels] == 1
    labels, rows = labels[plain], rows[plain]
    first = basis.indptr[labels]
    plain = basis.data[first] == 1
    variables, place = np.unique(basis.indices[first[plain]], return_inverse=True)
    return variables, np.sqrt(np.bincount(place, weights=rows[plain], minlength=len(variables)))


FORMS = {"balanced": balanced, "unit": unit_incoming}


def canonical(model: nn.Module, symmetry: Symmetry, form: str) -> Tensor:
    """Log-scales to a canonical form by name: "balanced" or "unit"."""
    if form not in FORMS:
        raise TrueriskError(f"unknown form {form!r}; choose one of {', '.join(FORMS)}.")
    return FORMS[form](model, symmetry)
