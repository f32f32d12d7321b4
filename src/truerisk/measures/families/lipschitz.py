"""How much the outputs can change when the input changes: Lipschitz constants for the l2 norm.

    lipschitz-local  <=  the true constant  <=  lipschitz-eclipse-fast  <=  lipschitz-product

The first is the steepest slope seen at an example; the other two are certified for all inputs.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import vjp

from truerisk.measures.anatomy import RELU, SAME, Between, Layer
from truerisk.measures.layerwise import chain, operator_norms
from truerisk.measures.operators import SLACK, dense, operator_shape
from truerisk.measures.passes import network, push
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

REORDERS = {
    "permute",
    "transpose",
    "getitem",
}  # the place of an entry changes, which a matrix for the next layer misses
WIDEST = 2_000  # entries that enter or leave a convolution that is written out as a matrix
OUTPUTS = 32  # up to so many outputs the whole Jacobian is formed
STEPS = 30  # of power iteration beyond
EXAMPLES = 128  # that are looked at, spread evenly over the sample
STEEP = 16  # of them, at which slopes are computed
ROUNDING = {torch.float32: 1e-4}  # relative, of a slope in the network's own precision; SLACK for others


@measure(
    "lipschitz-product",
    family="lipschitz",
    meaning="Lipschitz bound by layer norms: no two inputs are driven apart by more than this factor.",
    paper="Szegedy et al. 2014",
    equation="prod rho_i ||W_i||_op (maps from images to images, certified from above; rho_i of what is between)",
    invariant=False,
    cost="weights",
    same_order_as="operator-product",
)
def lipschitz_product(subject: Subject) -> Value:
    steps = chain(subject)
    norms = operator_norms(subject)
    factors = [norms[step.name] if isinstance(step, Layer) else step.lipschitz for step in steps]
    log = sum(math.log(factor) for factor in factors) if all(factors) else -math.inf
    return Value.of_log(log, {layer.name: norms[layer.name] for layer in subject.layers})


@measure(
    "lipschitz-eclipse-fast",
    family="lipschitz",
    meaning="Lipschitz bound by ECLipsE-Fast: below the product of layer norms, since it sees how layers align.",
    paper="Xu and Sivaranjani 2024 (ECLipsE-Fast)",
    equation=(
        "sqrt(lmax(W_l X_{l-1}^-1 W_l^T)), X_0 = I, X_i = t_i I - t_i^2 G_i / 4, G_i = W_i X_{i-1}^-1 W_i^T, "
        "t_i = 2 / lmax(G_i)"
    ),
    invariant=False,
    cost="weights",
    settings=f"ReLU chains; convolutions that take and give at most {WIDEST} entries, written out as matrices",
)
def eclipse_fast(subject: Subject) -> Value:
    return Value.of_log(log_eclipse_fast(_matrices(chain(subject))))


def log_eclipse_fast(matrices: list[Tensor]) -> float:
    """log of the bound for W_l relu(... relu(W_1 x)).

    With Y_i = lmax(G_i) X_i the eigenvalues stay between 1 and 2 at every layer and the scale is carried in the
    logarithm: nothing overflows, every inverse is well conditioned, and rounding stays far below SLACK.
    """
    log, middle = 0.0, torch.eye(matrices[0].shape[1], dtype=torch.float64)
    for matrix in matrices:
        root = torch.linalg.cholesky(middle)
        half = torch.linalg.solve_triangular(root, matrix.T, upper=False)  # half^T half = W Y^-1 W^T
        top = float(torch.linalg.matrix_norm(half, ord=2)) ** 2 * (1 + SLACK)
        if top == 0:
            return -math.inf
        log += 0.5 * math.log(top)
        middle = 2 * torch.eye(len(matrix), dtype=torch.float64) - half.T @ half / top
    return log


def _matrices(steps: tuple[Layer | Between, ...]) -> list[Tensor]:
    """One matrix for each stretch between ReLUs: layers with nothing between them are multiplied."""
    matrices: list[Tensor] = []
    fresh = True
    for step in steps:
        if isinstance(step, Layer):
            if step.geometry is not None and max(operator_shape(step)) > WIDEST:
                raise NotDefined(f"{step.name} is too large a convolution to be written out as a matrix.")
            matrices = [*matrices, dense(step)] if fresh else [*matrices[:-1], dense(step) @ matrices[-1]]
            fresh = False
        elif step.operation in RELU:
            fresh = True
        elif step.operation not in SAME or step.operation in REORDERS:
            raise NotDefined(f"it is defined for chains with nothing but ReLUs between layers, not {step.operation}.")
    for before, after in pairwise(matrices):
        assert before.shape[0] == after.shape[1]
    return matrices


@measure(
    "lipschitz-local",
    family="lipschitz",
    meaning="Largest slope at the examples: a lower bound on every Lipschitz constant of the network.",
    paper="Novak et al. 2018 (norm of the Jacobian at data)",
    equation="max over examples of ||J(x)||_2, J the Jacobian of the logits: a lower bound on the Lipschitz constant",
    invariant=True,
    cost="gradients",
    settings=(
        f"at the {STEEP} that seem steepest (along random signs of the outputs) of {EXAMPLES} examples of the sample; "
        f"more than {OUTPUTS} outputs: by {STEPS} power iterations"
    ),
)
def lipschitz_local(subject: Subject) -> float:
    subject.X  # noqa: B018  refuses integers
    sample = subject.sample[0]
    x = sample[:: math.ceil(len(sample) / EXAMPLES)]
    outputs = subject.logits.shape[1]
    jacobian = 8 * x[0].numel() * min(outputs, OUTPUTS)
    rows = max(1, subject.budget // (3 * network(subject).row + 2 * jacobian))  # twice forwards, once backwards
    slopes = _exact if outputs <= OUTPUTS else _iterated
    generator = subject.generator("lipschitz-local")
    module = subject.copy()
    if len(x) > STEEP:
        seeming = torch.cat([_seeming(module, part, generator) for part in x.split(rows)])
        x = x[seeming.topk(STEEP).indices]
    tops = [float(slopes(module, part, generator).max()) for part in x.split(rows)]
    return max(tops) * (1 - ROUNDING.get(x.dtype, SLACK))


def _seeming(module: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
    """||J^T z|| of each example for random signs z, whose mean square is ||J||_F^2: one backward pass for all."""
    x = x.clone().requires_grad_()
    out = module(x.clone())  # a copy: the first step may work in place
    signs = torch.randint(0, 2, out.shape, generator=generator, dtype=out.dtype) * 2 - 1
    return torch.autograd.grad((signs * out).sum(), x)[0].flatten(1).norm(dim=1)


def _exact(module: nn.Module, x: Tensor, _: torch.Generator) -> Tensor:
    """||J||_2 of each example, from J J^T."""
    x = x.clone().requires_grad_()
    out = module(x.clone())  # a copy: the first step may work in place
    each = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0].flatten(1) for column in out.unbind(1)]
    jacobian = torch.stack(each, dim=1).double()
    return torch.linalg.eigvalsh(jacobian @ jacobian.mT)[:, -1].clamp_min(0).sqrt()


def _iterated(module: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
    """The same from below: ||J v|| for a unit vector v, improved by v <- J^T J v."""

    def forward(x: Tensor) -> Tensor:
        out: Tensor = module(x.clone())
        return out

    v = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    top = torch.zeros(len(x), dtype=x.dtype)
    for _ in range(STEPS):
        v = v / v.flatten(1).norm(dim=1).clamp_min(1e-30).reshape(-1, *(1,) * (x.ndim - 1))
        stretched = push(forward, x, v)[1]
        top = torch.maximum(top, stretched.norm(dim=1))
        (v,) = vjp(forward, x)[1](stretched)
    return top.detach()
