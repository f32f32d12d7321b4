"""A step of winsorized SGD: against plain SGD, against all per-example gradients by ``vmap``, and medians of means."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.timing import Row, in_turns
from truerisk.nets import mlp
from truerisk.training import MedianOfMeansSGD, WinsorizedSGD

BATCH, C = 100, 2
SHAPES = {"64-64-10": (64, (64,)), "784-256-256-256-10": (784, (256, 256, 256))}


def rows() -> list[Row]:
    torch.manual_seed(0)
    return [row for name, (inputs, hidden) in SHAPES.items() for row in _compare(name, inputs, hidden)]


def _compare(name: str, inputs: int, hidden: tuple[int, ...]) -> list[Row]:
    net = mlp((inputs,), 10, hidden)
    x, y = torch.randn(BATCH, inputs), torch.arange(BATCH) % 10
    count = sum(p.numel() for p in net.parameters())
    own = WinsorizedSGD(copy.deepcopy(net), lr=0.01, c=C)
    plain = copy.deepcopy(net)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.01)

    def step() -> None:
        sgd.zero_grad()
        F.cross_entropy(plain(x), y).backward()
        sgd.step()

    other = copy.deepcopy(net)
    wanted = copy.deepcopy(net)
    _by_vmap(wanted, x, y)
    twin = copy.deepcopy(net)
    WinsorizedSGD(twin, lr=0.01, c=C).step(x, y)
    apart = max(
        float((p - q).detach().abs().max()) for p, q in zip(twin.parameters(), wanted.parameters(), strict=True)
    )
    running = MedianOfMeansSGD(copy.deepcopy(net), lr=0.01, running=True)
    what, size = f"a winsorized step, {name}, batch {BATCH}", f"{count:,} weights, c = {C}"
    return [
        Row(what, "plain SGD", *in_turns(lambda: own.step(x, y), step, repeats=5), note=size),
        Row(
            what,
            "all per-example gradients by vmap, torch.sort",
            *in_turns(lambda: own.step(x, y), lambda: _by_vmap(other, x, y), repeats=3),
            note=f"{size}; the opponent holds {4e-6 * BATCH * count:,.0f} MB; steps differ by {apart:.0e}",
        ),
        Row(f"a step of RM3, {name}", "plain SGD", *in_turns(lambda: running.step(x, y), step, repeats=5), note=size),
    ]


def _by_vmap(net: nn.Module, x: Tensor, y: Tensor) -> None:
    """The same step with one tensor of examples x weights."""
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(own: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, own, (one[None],)), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    for name, p in net.named_parameters():
        ordered = each[name].sort(dim=0).values
        with torch.no_grad():
            p -= 0.01 * each[name].clamp(ordered[C], ordered[BATCH - C - 1]).mean(0)
