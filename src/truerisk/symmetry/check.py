"""Is the group right? Rescale at random and compare, operation by operation.

Two points are tried: the network's own weights, and random ones (weights that are 0 hide mistakes). In float64
the results agree to about 1e-13; a wrong rule is off by a factor like e.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, fx, nn

from truerisk.errors import TrueriskError
from truerisk.nets.graph import Graph, flat, spoken, where
from truerisk.seeds import derive
from truerisk.symmetry.tracer import Flow

if TYPE_CHECKING:
    from truerisk.symmetry.group import Symmetry

# Relative differences that rounding explains, by the least precise numbers that a network casts to on its way.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.1}
LARGE = 10.0  # inputs this large, too: many functions look linear near 0 (ReLU6, say)


def check_symmetry(
    graph: Graph, symmetry: Symmetry, values: Mapping[fx.Node, Any], advance: Callable[[], None] = lambda: None
) -> None:
    """Raise an error that names the first operation whose result is not what its rule says."""
    try:
        _check(graph, symmetry, values, advance)
    except TrueriskError:
        raise
    except Exception as error:  # whatever the network's own operations raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrueriskError(
            f"the network fails on an input like the example ({reason}); give an example of the right kind, with whole "
            "numbers in the range that it takes."
        ) from error


def _check(graph: Graph, symmetry: Symmetry, values: Mapping[fx.Node, Any], advance: Callable[[], None]) -> None:
    log_scales = symmetry.random(std=0.5, seed=1)
    factors = symmetry.factors(log_scales)
    of_label = torch.from_numpy(symmetry.solution.basis @ log_scales.numpy())
    tolerance = _tolerance(graph)
    own = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers())
    own = {name: t.detach() for name, t in own.items()}
    for tensors in (own, _randomized(graph, own)):
        size = 1.0 if tensors is own else LARGE
        inputs = tuple(_random_input(x, number, size) for number, x in enumerate(graph.example))
        moved = {name: t * factors[name] if name in factors else t for name, t in tensors.items()}
        before = graph.run(tensors, inputs)
        advance()
        after = graph.run(moved, inputs)
        advance()
        for node in graph.nodes:
            for flow, old, new in _tensors(values[node], before[node], after[node]):
                expected = old * of_label[flow.labels].exp()
                if not _same(expected, new, tolerance):
                    _blame(node, graph.run(tensors, inputs)[node], before[node])
        if tensors is own:
            _check_module(graph, symmetry.rescale(graph.module, log_scales), inputs, before, tolerance)


def _blame(node: fx.Node, again: Any, before: Any) -> NoReturn:
    """Name the operation; one that gives something else each time is none of a rule's making."""
    pairs = zip(flat(before), flat(again), strict=True)
    if not all(torch.equal(old.nan_to_num(), new.nan_to_num()) for old, new in pairs):
        raise TrueriskError(
            f"{spoken(node)} (at {where(node)}) gives something else each time: it draws random numbers in eval mode "
            "too, so the network is not one function and has no symmetry to find."
        )
    raise TrueriskError(
        f"the rule for {spoken(node)} (at {where(node)}) is wrong: under a random rescaling its result is not what the "
        "rule says. Please report this network; find_symmetry(..., check=False) would give a group that changes the "
        "function."
    )


def _same(expected: Tensor, found: Tensor, tolerance: float) -> bool:
    expected, found = expected.double(), found.double()
    scale = float(expected.abs().nan_to_num(posinf=0.0).max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def _tolerance(graph: Graph) -> float:
    seen = {value.dtype for node in graph.nodes for value in flat(node.meta.get("val"))}
    return max(TOLERANCE.get(dtype, 0.0) for dtype in seen | {torch.float64})


def _check_module(graph: Graph, twin: nn.Module, inputs: Any, before: Mapping[fx.Node, Any], tolerance: float) -> None:
    """The module itself and its rescaled twin, not the graph: was the graph the whole story?"""
    expected = [before[node] for node in graph.outputs]
    with torch.no_grad():
        # Twice, to see whether it is the same again; on copies, for it may work in place on its input.
        calls = [module(*(x.clone() for x in inputs)) for module in (graph.module, graph.module, twin)]
    for found in (list(flat(result)) for result in calls):
        if len(found) != len(expected) or not all(_same(a, b, tolerance) for a, b in zip(expected, found, strict=True)):
            raise TrueriskError(
                "the network computes something that its captured graph does not show (random numbers, values kept "
                "between calls?), so its symmetry can't be told."
            )


def _tensors(flow: Any, old: Any, new: Any) -> Iterator[tuple[Flow, Tensor, Tensor]]:
    """Activations with real numbers in them, one by one."""
    if isinstance(flow, list | tuple):
        for parts in zip(flow, old, new, strict=True):
            yield from _tensors(*parts)
    elif isinstance(flow, Flow) and isinstance(old, Tensor) and old.is_floating_point() and old.numel():
        yield flow, old, new


def _randomized(graph: Graph, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Random parameters (about as large as initial ones) and random batch-norm means; all else as it is."""
    generator = torch.Generator().manual_seed(derive(0, "check"))
    parameters = set(graph.parameters.values())
    result = dict(own)
    for name, tensor in own.items():
        if name in parameters or name.endswith("running_mean"):
            noise = torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)
            fan_in = tensor[0].numel() if tensor.ndim > 1 else 1
            result[name] = noise / max(fan_in, 1) ** 0.5
    return result


def _random_input(example: Tensor, number: int, size: float) -> Tensor:
    """Normal numbers; for whole numbers (tokens), the example itself: any others might be out of range."""
    if not example.is_floating_point():
        return example
    generator = torch.Generator().manual_seed(derive(number, "check input"))
    return size * torch.randn(example.shape, dtype=example.dtype, generator=generator)
