"""``truerisk symmetry`` and ``truerisk rescale``: what they do once their options are parsed."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk.atomic import write_atomically
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from truerisk.symmetry import Symmetry

FORMS = ("balanced", "unit")  # those of ``symmetry.canonical``, without torch


def symmetry(model: str, weights: Path | None, shape: str, integers: int | None, json: bool) -> None:
    """Find the group and print it."""
    _, found = _find(model, weights, shape, integers)
    if json:
        print(json_module.dumps(_record(found)))
    else:
        _show(found)


def rescale(model: str, weights: Path | None, shape: str, integers: int | None, to: str, out: Path, json: bool) -> None:
    """Write the weights of a canonical form: another file, the same function."""
    if to not in FORMS:
        raise TrueriskError(f"--to is {to!r}, but must be one of {', '.join(FORMS)}; choose one.")
    _sizes(shape, integers)
    from safetensors.torch import save

    from truerisk.symmetry import canonical

    network, found = _find(model, weights, shape, integers)
    log_scales = canonical(network, found, to)
    twin = found.rescale(network, log_scales)
    state = {name: tensor.contiguous().clone() for name, tensor in twin.state_dict().items()}
    write_atomically(out, save(state))
    before, after = _squares(network), _squares(twin)
    told = {
        "form": to,
        "file": str(out),
        "dim": found.dim,
        "largest_factor": float(log_scales.abs().max().exp()) if found.dim else 1.0,
        "squares_before": before,
        "squares_after": after,
    }
    if json:
        print(json_module.dumps(told))
        return
    print(f"{out}: the same function, with {found.dim:,} channels rescaled to the form {to!r}.")
    print(f"The sum of squared weights went from {before:.6g} to {after:.6g}.")


def _squares(module: nn.Module) -> float:
    return sum(float(p.detach().double().square().sum()) for p in module.parameters())


def _find(model: str, weights: Path | None, shape: str, integers: int | None) -> tuple[nn.Module, Symmetry]:
    sizes = _sizes(shape, integers)  # before torch is loaded
    from truerisk.nets import architecture, load_weights
    from truerisk.nets.tokens import refuse_wrong_tokens
    from truerisk.symmetry import find_symmetry

    example = _example(sizes, integers)
    network = architecture(model, tuple(example.shape[1:]), 10, trust_factory=True).template().eval()
    if weights is not None:
        load_weights(network, weights)
    refuse_wrong_tokens(network, example)
    return network, find_symmetry(network, example)


def _sizes(shape: str, integers: int | None) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in shape.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise TrueriskError(f"--input {shape!r} is no shape; give sizes with the batch first, such as 1,3,32,32.")
    if integers is not None and integers < 1:
        raise TrueriskError("--integers must be at least 1: the number of different tokens.")
    return sizes


def _example(sizes: tuple[int, ...], integers: int | None) -> Tensor:
    import torch

    generator = torch.Generator().manual_seed(0)
    if integers is None:
        return torch.randn(sizes, generator=generator)
    return torch.randint(integers, sizes, generator=generator)


def _record(found: Symmetry) -> dict[str, Any]:
    groups = [{"name": g.name, "size": g.size, "moves": list(g.moves)} for g in found.groups]
    pinned: list[dict[str, Any]] = [
        {"name": pin.where, "kind": "pinned", "operation": pin.operation, "why": pin.why, "count": None}
        for pin in found.pins
    ]
    pinned += [
        {"name": held.where, "kind": "held in tighten", "operation": None, "why": held.why, "count": held.count}
        for held in found.held_in_tighten
    ]
    return {"dim": found.dim, "pinned": pinned, "groups": groups}


def _show(found: Symmetry) -> None:
    console = Console(highlight=False)
    console.print(f"\n[bold]{escape(found.headline)}[/bold]\n", soft_wrap=True)
    if found.groups:
        console.print(_table("What can be rescaled", ("made by", "channels", "moves"), _rows(found)))
    if found.pins:
        rows = [(pin.where, pin.operation, pin.why) for pin in found.pins]
        console.print(_table("\nWhat is held at scale 1, and why", ("where", "operation", "why"), rows))
    if found.held_in_tighten:
        rows = [(held.where, f"{held.count:,}", held.why) for held in found.held_in_tighten]
        console.print(_table("\nHeld in tighten", ("made by", "channels", "why"), rows))


def _rows(found: Symmetry) -> list[tuple[str, ...]]:
    return [(group.name, f"{group.size:,}", ", ".join(group.moves)) for group in found.groups]


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if head == "channels" else "left", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table
