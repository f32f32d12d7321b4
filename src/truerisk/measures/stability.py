"""How a chain of layers carries its examples, and how it carries noise: what the cushions are made of.

In a network of d layers let x^i be what leaves layer i (before its activation), phi what is between two layers, A^i the
i-th layer as a matrix (of a convolution: the operator), J^{i,j} the derivative of x^j by x^i, M^{i,j} the map from x^i
to x^j, all at one example, and eta noise (Arora et al. 2018, section 3):

    layer cushion            mu_i = min over x of ||A^i phi(x^{i-1})|| / (||A^i||_F ||phi(x^{i-1})||)
    interlayer cushion       mu_{i,j} = min over x of ||x^j|| / (||J^{i,j}||_F ||x^i||)
    activation contraction   c = max over x and i of ||x^i|| / ||phi(x^i)||
    interlayer smoothness    rho = ||eta|| ||x^j|| / (||x^i|| ||M^{i,j}(x^i + eta) - M^{i,j}(x^i) - J^{i,j} eta||)

The paper has no biases; then J^{i,j} x^i = x^j = M^{i,j}(x^i), and these are its definitions. A bias here is a column
of A^i that meets a constant 1. Convolutions are taken as the linear maps they are: their shared weights win nothing
(section 5 of the paper treats them apart).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, fx
from torch.func import vjp, vmap

from truerisk.measures.anatomy import SAME, Layer
from truerisk.measures.passes import Network, inputs, network, push, size
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.nets.graph import shape_of

EXAMPLES = 100  # whose derivatives are taken
PROBES = 256  # a wider layer's ||J||_F is estimated with that many random signs; up to that width it is exact
WORK = 3e9  # multiplications that all derivatives together may take
NOISE = 0.1  # ||eta|| / ||x^i||
DRAWS = 4  # of the noise, for each example
SHARE = 0.05  # of the noise for which the smoothness may fail
HOMOGENEOUS = ("relu", "leaky_relu", "max_pool", "avg_pool", "adaptive_avg_pool", "amax", "abs")


@dataclass(frozen=True)
class Chain:
    """A network whose layers and nodes are known, in order."""

    network: Network
    layers: tuple[Layer, ...]
    nodes: tuple[fx.Node, ...]  # x^i
    entering: tuple[fx.Node, ...]  # phi(x^{i-1})
    norms: tuple[float, ...]  # ||A^i||_F, with the bias

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def widths(self) -> list[int]:
        return [size(node) for node in self.nodes]


def chain(subject: Subject) -> Chain:
    """The chain of a network, or NotDefined."""
    return subject.shared("cushion chain", lambda: _chain(subject))


def _chain(subject: Subject) -> Chain:
    parts = subject.anatomy
    if not parts.chain:
        raise NotDefined(f"it is defined for chains of layers, and this network is none: {parts.why}.")
    for step in parts.chain:
        if not isinstance(step, Layer) and not (step.operation in SAME or step.operation.startswith(HOMOGENEOUS)):
            raise NotDefined(f"it is defined for ReLUs and pooling between the layers, not for {step.operation}.")
    places = [k for k, step in enumerate(parts.chain) if isinstance(step, Layer)]
    after = parts.chain[places[-1] + 1 :] if places else ()
    if not places or any(not isinstance(step, Layer) and step.operation not in SAME for step in after):
        raise NotDefined("it is defined for networks whose last step is a linear layer.")
    nodes = parts.graph.nodes
    leaving = tuple(nodes[k] if isinstance(shape_of(nodes[k]), torch.Size) else nodes[k + 1] for k in places)
    entering = tuple(nodes[k].all_input_nodes[0] for k in places)
    norms = tuple(_frobenius(layer, nodes[k]) for layer, k in zip(parts.layers, places, strict=True))
    return Chain(network(subject), parts.layers, leaving, entering, norms)


def _frobenius(layer: Layer, node: fx.Node) -> float:
    """||[A b]||_F of the operator: each weight counts as often as it is used at a place that is not padding."""
    bias = 0.0 if layer.bias is None else layer.repeats * float(layer.bias.square().sum())
    if layer.weight.ndim == 1:
        return math.sqrt(layer.repeats * float(layer.weight.square().sum()) + bias)
    ones = torch.ones(node.all_input_nodes[0].meta["val"].shape, dtype=torch.float64)
    assert callable(node.target)
    return math.sqrt(float(node.target(ones, layer.weight.square(), None, *node.args[3:]).sum()) + bias)


# ---- one pass over all examples --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """||phi(x^{i-1})|| and ||x^i|| of each example (rows) and layer (columns)."""

    entering: Tensor
    leaving: Tensor


def lengths(subject: Subject) -> Lengths:
    """Of all examples, from one pass that every measure here shares."""
    return subject.shared("cushion lengths", lambda: _lengths(subject))


def _lengths(subject: Subject) -> Lengths:
    parts = chain(subject)
    rows = [
        torch.stack([value.norm(dim=1) for value in found], dim=1)
        for found in parts.network.many(inputs(subject), (*parts.entering, *parts.nodes), subject.budget)
    ]
    return Lengths(*torch.cat(rows).split(parts.depth, dim=1))


def cushions(subject: Subject) -> Tensor:
    """mu_i of each layer."""
    parts, found = chain(subject), lengths(subject)
    constant = torch.tensor([0.0 if layer.bias is None else 1.0 for layer in parts.layers], dtype=torch.float64)
    weighed = (found.entering.square() + constant).sqrt() * torch.tensor(parts.norms, dtype=torch.float64)
    if not bool((weighed > 0).all()):
        raise NotDefined("a layer is 0, or nothing enters it for some example.")
    return (found.leaving / weighed).amin(0)


def contraction(subject: Subject) -> Tensor:
    """The largest ||x^i|| / ||phi(x^i)|| of each hidden layer; empty if there is none."""
    found = lengths(subject)
    if not bool((found.entering[:, 1:] > 0).all()):
        raise NotDefined("for some example all units of a hidden layer are off.")
    return (found.leaving[:, :-1] / found.entering[:, 1:]).amax(0)


# ---- derivatives of some examples ------------------------------------------------------------------------------------


def interlayer(subject: Subject) -> Tensor:
    """mu_{i,j} of each pair i < j as a matrix; infinite elsewhere."""
    return subject.shared("interlayer cushions", lambda: _interlayer(subject))


def _interlayer(subject: Subject) -> Tensor:
    parts = chain(subject)
    rows, x = _examples(subject)
    probes = [_probes(subject, node) for node in parts.nodes]
    bytes_each = 24 * sum(map(len, probes)) * max(parts.widths)
    chunk = max(1, subject.budget // bytes_each)
    squares = torch.cat([vmap(lambda one: _squares(parts, probes, one))(part) for part in x.split(chunk)])
    leaving = lengths(subject).leaving[rows]
    ratios = leaving[:, None, :] / (squares.sqrt() * leaving[:, :, None])
    above = torch.ones(parts.depth, parts.depth, dtype=torch.bool).triu(1)
    return ratios.amin(0).where(above, torch.tensor(torch.inf, dtype=torch.float64))


def _squares(parts: Chain, probes: list[Tensor], x: Tensor) -> Tensor:
    """||J^{i,j}||_F^2 of all pairs i < j for one example: rows of J^{i,j} are pulled down layer by layer."""
    outs = parts.network.follow({parts.network.entry: x[None]}, parts.nodes)
    found = [[x.new_zeros(())] * parts.depth for _ in range(parts.depth)]
    rows = probes[-1][:0]
    counts: list[int] = []  # rows of each J^{., j}, for j from the top down to i + 1
    for i in reversed(range(parts.depth - 1)):
        rows, counts = torch.cat([rows, probes[i + 1]]), [*counts, len(probes[i + 1])]
        _, pull = vjp(  # type: ignore[misc]
            lambda v, i=i: parts.network.follow({parts.nodes[i]: v}, [parts.nodes[i + 1]])[0], outs[i]
        )
        (rows,) = vmap(pull)(rows)
        for k, block in enumerate(rows.flatten(1).square().sum(1).split(counts)):
            found[i][parts.depth - 1 - k] = block.sum()
    return torch.stack([torch.stack(line) for line in found])


def _probes(subject: Subject, node: fx.Node) -> Tensor:
    """Rows whose squares sum to ||J||_F^2 once they are multiplied with J; with random signs, on average."""
    width = size(node)
    if width <= PROBES:
        rows = torch.eye(width, dtype=torch.float64)
    else:
        signs = torch.randint(2, (PROBES, width), generator=subject.generator("cushions", node.name))
        rows = (2.0 * signs.double() - 1) / math.sqrt(PROBES)
    return rows.reshape(-1, *node.meta["val"].shape)


def _examples(subject: Subject) -> tuple[Tensor, Tensor]:
    """(rows, inputs) of as many examples as the work allows, at most EXAMPLES."""
    parts = chain(subject)
    if parts.depth < 2:
        raise NotDefined("it is defined for networks with at least two layers.")
    work = [layer.weight.numel() * layer.repeats for layer in parts.layers]
    pulled = [sum(min(width, PROBES) for width in parts.widths[i:]) for i in range(1, parts.depth)]
    count = min(EXAMPLES, subject.n, int(WORK / sum(w * k for w, k in zip(work[1:], pulled, strict=True))))
    if count < 1:
        raise NotDefined("the derivatives between its layers would take too long.")
    rows = torch.from_numpy(subject.rows[:count])
    return rows, inputs(subject)[rows].double()


def smoothness(subject: Subject) -> Tensor:
    """rho of each pair i < j, for all but SHARE of noise and examples; infinite where noise switches nothing."""
    return subject.shared("interlayer smoothness", lambda: _smoothness(subject))


def _smoothness(subject: Subject) -> Tensor:
    parts = chain(subject)
    _, x = _examples(subject)
    x = x.repeat(DRAWS, *[1] * (x.ndim - 1))
    noise = torch.randn(len(x), max(parts.widths), generator=subject.generator("smoothness")).double()
    chunk = parts.network.rows(subject.budget, 6)
    rho = torch.full((parts.depth, parts.depth), torch.inf, dtype=torch.float64)
    for i in range(parts.depth - 1):
        each = vmap(lambda one, eta, i=i: _roughness(parts, i, one, eta), chunk_size=chunk)
        found = each(x, noise[:, : parts.widths[i]])
        rho[i, i + 1 :] = 1 / torch.quantile(found, 1 - SHARE, dim=0, interpolation="higher")
    return rho


def _roughness(parts: Chain, i: int, x: Tensor, noise: Tensor) -> Tensor:
    """1/rho of the pairs (i, j), j > i, for one example and one draw of noise."""
    (start,) = parts.network.follow({parts.network.entry: x[None]}, [parts.nodes[i]])
    eta = (NOISE * start.norm() / noise.norm() * noise).reshape(start.shape)
    later = parts.nodes[i + 1 :]
    widths = parts.widths[i + 1 :]

    def onward(value: Tensor) -> Tensor:
        return torch.cat([found.flatten() for found in parts.network.follow({parts.nodes[i]: value}, later)])

    clean, moved = push(onward, start, eta)
    off = (onward(start + eta) - clean - moved).split(widths)
    return torch.stack([o.norm() / c.norm() for o, c in zip(off, clean.split(widths), strict=True)]) / NOISE
