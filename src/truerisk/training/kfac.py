"""K-FAC: natural gradients with a Kronecker-factored Fisher matrix (Martens and Grosse 2015), for linear layers.

A linear layer maps inputs a (with a last entry 1 for the bias) to s = W a, and g is the derivative of -log p(label)
with respect to s. Its block of the Fisher matrix is E[a a^T (x) g g^T]. K-FAC takes the expectation of both factors
apart (Section 3), which makes the inverse that of two small matrices:

    A = E[a a^T]     G = E[g g^T]     (A (x) G)^-1 vec(V) = vec(G^-1 V A^-1)
    W <- W - lr (G + l I)^-1 dL/dW (A + l I)^-1

With ``pi`` (Section 6.3), l is the damping of the product, split between the factors by the mean of their eigenvalues:
A + p sqrt(l) I and G + sqrt(l) / p I, with p^2 = (tr A / dim A) / (tr G / dim G). With ``clip``, a step d that would
change the predictions too much is shortened, so that lr^2 d^T F d is at most that (Ba et al. 2017).

Labels of G are drawn from the network's own predictions: the Fisher matrix of the model. With the given labels it is
the "empirical Fisher", another matrix (Kunstner et al. 2019). Section and equation numbers are from memory. Left out of
the published method: a learned damping, a learned momentum, and blocks for pairs of layers. Libraries for K-FAC are
made for clusters, or need packages that do not run beside a CPU build of torch, so it is written out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.training.loop import DivergedError


class KFAC(Optimizer):
    """K-FAC for the linear layers of a classifier; all other parameters get plain SGD, with a note.

    Before each step, `observe` takes the inputs of the batch: one more pass forward and back, in which dropout would
    draw other masks and batch norm would count the batch again. ``decay`` is that of the moving averages of A and G (at
    most 1 - 1/k in observation k), ``every`` says after how many steps inverses are computed anew. Inputs with several
    positions per example count each position as an example.

    >>> from truerisk.nets import mlp
    >>> X, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
    >>> net = mlp((4,), 2, (8,))
    >>> optimizer = KFAC(net, lr=0.3, damping=0.1)
    >>> for _ in range(30):
    ...     optimizer.observe(X)
    ...     optimizer.zero_grad()
    ...     F.cross_entropy(net(X), y).backward()
    ...     optimizer.step()
    >>> bool((net(X).argmax(1) == y).all())
    True
    """

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        damping: float = 1e-2,
        decay: float = 0.95,
        every: int = 10,
        momentum: float = 0.0,
        pi: bool = True,
        clip: float = math.inf,
        seed: int = 0,
    ) -> None:
        _refuse(lr, damping, decay, every, momentum, clip)
        self.module, self.damping, self.decay, self.every = module, damping, decay, every
        self.pi, self.clip = pi, clip
        self.layers = [m for m in module.modules() if isinstance(m, nn.Linear) and m.weight.requires_grad]
        self.generator = torch.Generator().manual_seed(seed)
        self.seen, self.steps = 0, 0
        self.factors: list[tuple[Tensor, Tensor]] = []
        self.inverses: list[tuple[Tensor, Tensor]] = []
        groups: list[dict[str, Any]] = [{"params": _parameters(layer)} for layer in self.layers]
        taken = {id(p) for group in groups for p in group["params"]}
        if len(taken) < sum(len(group["params"]) for group in groups):
            raise TrueriskError("K-FAC needs linear layers that share no parameter; use the optimizer shampoo.")
        rest = [p for p in module.parameters() if p.requires_grad and id(p) not in taken]
        if not groups:
            raise TrueriskError("K-FAC needs a linear layer with trainable weights; use the optimizer momentum.")
        if rest:
            progress.note(f"K-FAC knows linear layers only; {len(rest)} other tensors get plain SGD")
        super().__init__([*groups, {"params": rest}] if rest else groups, {"lr": lr, "momentum": momentum})

    def observe(self, inputs: Tensor, labels: Tensor | None = None) -> None:
        """Update A and G with a batch. ``labels``: those of the empirical Fisher; by default the network draws them."""
        found: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in self.layers}

        def keep(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
            found[layer].append((given[0].detach().clone(), out))
            return out.clone()  # the network may go on in place, as ReLU(inplace=True) does

        handles = [layer.register_forward_hook(keep) for layer in self.layers]
        try:
            with torch.enable_grad():
                logits = self.module(inputs)
        finally:
            for handle in handles:
                handle.remove()
        if any(len(uses) != 1 for uses in found.values()):
            raise TrueriskError("K-FAC needs linear layers that run once per pass; use the optimizer shampoo.")
        if not bool(logits.isfinite().all()):
            raise DivergedError("K-FAC has outputs that are not finite numbers; lower the learning rate.")
        if labels is None:
            labels = torch.multinomial(logits.detach().softmax(1), 1, generator=self.generator)[:, 0]
        loss = F.cross_entropy(logits, labels, reduction="sum")  # so g is that of each example, not its share of a mean
        slopes = torch.autograd.grad(loss, [found[layer][0][1] for layer in self.layers])
        self.seen += 1
        kept = min(1 - 1 / self.seen, self.decay)
        new = [_moments(layer, found[layer][0][0], slope) for layer, slope in zip(self.layers, slopes, strict=True)]
        old = self.factors or new
        self.factors = [
            (A.lerp(B, 1 - kept), G.lerp(H, 1 - kept)) for (A, G), (B, H) in zip(old, new, strict=True)
        ]  # fmt: skip

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update with the gradients that are there, or with those that the closure computes."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.factors:
            raise TrueriskError("K-FAC has seen no batch; call observe(inputs) before step().")
        if self.steps % self.every == 0:
            pairs = [damped_inverses(A, G, self.damping, self.pi) for A, G in self.factors]
            self.inverses = [
                (left.to(A.dtype), right.to(A.dtype)) for (left, right), (A, _) in zip(pairs, self.factors, strict=True)
            ]
        self.steps += 1
        moves = [self._moves(number, group) for number, group in enumerate(self.param_groups)]
        short = self._shortened(moves)
        for group, pairs in zip(self.param_groups, moves, strict=True):
            for p, move in pairs:
                move = move * short
                if group["momentum"]:
                    state = self.state[p]
                    move = state["velocity"] = group["momentum"] * state.get("velocity", 0.0) + move
                p.add_(move, alpha=-group["lr"])
        return loss

    def _moves(self, number: int, group: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
        """Each parameter of a group with G^-1 dL/dW A^-1, or with its gradient where that is not defined."""
        params = [p for p in group["params"] if p.grad is not None]
        if number >= len(self.layers) or len(params) < len(group["params"]):
            return [(p, p.grad) for p in params]
        left, right = self.inverses[number]
        joint = left @ torch.cat([p.grad.reshape(len(p), -1) for p in params], dim=1) @ right
        parts = joint.split([p[0].numel() for p in params], dim=1)
        return [(p, part.reshape(p.shape)) for p, part in zip(params, parts, strict=True)]

    def _shortened(self, moves: list[list[tuple[Tensor, Tensor]]]) -> float:
        """min(1, sqrt(clip / (lr^2 d^T F d))) for natural gradients d; F d is the gradient, but for the damping."""
        if math.isinf(self.clip):
            return 1.0
        natural = zip(self.param_groups[: len(self.layers)], moves, strict=False)
        size = sum(
            group["lr"] ** 2 * float((p.grad * move).sum())
            for group, pairs in natural
            for p, move in pairs
            if p.grad is not None
        )
        return min(1.0, math.sqrt(self.clip / size)) if size > 0 else 1.0


def damped_inverses(A: Tensor, G: Tensor, damping: float, pi: bool = True) -> tuple[Tensor, Tensor]:
    """((G + .. I)^-1, (A + .. I)^-1) in float64, with the damping of this module's formulas.

    >>> left, right = damped_inverses(3 * torch.eye(2), torch.eye(1), damping=1.0, pi=False)
    >>> round(float(left), 6), right.diagonal().tolist()
    (0.5, [0.25, 0.25])
    """
    if not bool(A.isfinite().all() and G.isfinite().all()):
        raise DivergedError("K-FAC has moments that are not finite numbers; lower the learning rate.")
    on_a = on_g = damping
    if pi:
        mean_a, mean_g = (max(float(M.trace()) / len(M), 1e-30) for M in (A, G))
        ratio = math.sqrt(mean_a / mean_g)
        on_a, on_g = math.sqrt(damping) * ratio, math.sqrt(damping) / ratio
    pairs = ((G.double(), on_g), (A.double(), on_a))
    left, right = (torch.linalg.cholesky(M + extra * torch.eye(len(M), dtype=M.dtype)) for M, extra in pairs)
    return torch.cholesky_inverse(left), torch.cholesky_inverse(right)


def _moments(layer: nn.Linear, inputs: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """(E[a a^T], E[g g^T]) over the examples of a batch."""
    a, g = inputs.reshape(-1, inputs.shape[-1]), slopes.reshape(-1, slopes.shape[-1])
    if layer.bias is not None and layer.bias.requires_grad:
        a = torch.cat([a, a.new_ones(len(a), 1)], dim=1)
    return a.T @ a / len(a), g.T @ g / len(g)


def _parameters(layer: nn.Linear) -> list[Tensor]:
    return [p for p in (layer.weight, layer.bias) if p is not None and p.requires_grad]


def _refuse(lr: float, damping: float, decay: float, every: int, momentum: float, clip: float) -> None:
    for name, value in (("lr", lr), ("damping", damping)):
        if not (math.isfinite(value) and value > 0):
            raise TrueriskError(f"{name} is {value}, but must be a positive number; try {name}=0.01.")
    for name, value, usual in (("decay", decay, 0.95), ("momentum", momentum, 0.9)):
        if not 0 <= value < 1:
            raise TrueriskError(f"{name} is {value}, but must be at least 0 and less than 1; try {name}={usual}.")
    if every < 1 or not clip > 0:
        raise TrueriskError(f"every and clip are {every} and {clip}, but must be positive; try every=10, clip=1e-3.")
