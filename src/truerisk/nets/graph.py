"""A network as a graph of tensor operations: the one module that knows ``torch.export``.

The graph is functional (no in-place operation is left), static (shapes are those of the example input)
and in float64. It names every parameter and buffer as the module does, a parameter used twice by its first
name.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from truerisk.errors import TrueriskError
from truerisk.nets.tokens import integers_sentence, wants_integers


@dataclass(frozen=True)
class Graph:
    """Operations in the order in which they run, and what enters and leaves them.

    Nodes are those of ``torch.fx``; the dictionaries say what a placeholder node stands for.
    """

    module: nn.Module  # the float64 copy, in eval mode, that was captured
    example: tuple[Tensor, ...]
    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    parameters: dict[fx.Node, str]
    buffers: dict[fx.Node, str]
    constants: dict[fx.Node, Tensor]
    outputs: tuple[fx.Node, ...]

    def walk(self, entering: Mapping[fx.Node, Any], apply: Callable[[fx.Node, Any, Any], Any]) -> dict[fx.Node, Any]:
        """Run the graph on values of any kind: ``apply(node, args, kwargs)`` gives the value of a node."""
        values = dict(entering)
        for node in self.nodes:
            args: Any = fx.map_arg(node.args, values.__getitem__)
            kwargs: Any = fx.map_arg(node.kwargs, values.__getitem__)
            values[node] = args[0][args[1]] if node.target is operator.getitem else apply(node, args, kwargs)
        return values

    def run(self, tensors: Mapping[str, Tensor], inputs: tuple[Tensor, ...]) -> dict[fx.Node, Any]:
        """The value of each node for these parameters and buffers, given by name."""
        named = {node: tensors[name] for node, name in (self.parameters | self.buffers).items()}
        entering = named | self.constants | dict(zip(self.inputs, inputs, strict=True))
        with torch.no_grad():
            return self.walk(entering, compute)


Model = nn.Module | Callable[[], nn.Module]


def capture(model: Model, example_input: Tensor | tuple[Tensor, ...]) -> Graph:
    """The graph of a copy of ``model`` (or of what a factory builds) on the CPU, in eval mode and float64."""
    example = example_input if isinstance(example_input, tuple) else (example_input,)
    if not example or not all(isinstance(x, Tensor) for x in example):
        raise TrueriskError("example_input must be a tensor that the network takes, such as torch.zeros(1, 3, 32, 32).")
    module = _copied(model).cpu().eval()
    first_buffer = {id(b): name for name, b in module.named_buffers()}  # a shared buffer: its first name, too
    every_buffer = {name: first_buffer[id(b)] for name, b in module.named_buffers(remove_duplicate=False)}
    _share(module.double(), every_buffer)
    example = tuple((x.double() if x.is_floating_point() else x).detach().cpu().clone() for x in example)
    whole = _returning_plainly(module, example)
    program = _export(whole, example)
    signature = program.graph_signature
    if any(spec.kind is OutputKind.BUFFER_MUTATION for spec in signature.output_specs):
        raise TrueriskError("the network writes to its own buffers in eval mode, so it is not one fixed function.")
    first = {id(p): name for name, p in module.named_parameters()}  # a shared parameter: its first name
    every = {name: first[id(p)] for name, p in module.named_parameters(remove_duplicate=False)}
    if whole is not module:
        every, every_buffer = ({f"{INSIDE}{name}": own for name, own in each.items()} for each in (every, every_buffer))
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    placed: dict[InputKind, dict[fx.Node, Any]] = {kind: {} for kind in InputKind}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            placed[specs[node.name].kind][node] = specs[node.name].target
    foreign = [name for name in placed[InputKind.CONSTANT_TENSOR].values() if name not in program.constants]
    if foreign or placed[InputKind.CUSTOM_OBJ] or placed[InputKind.TOKEN]:
        raise TrueriskError("the network holds something that is no tensor (a generator?), so it can't be followed.")
    output = next(node for node in program.graph.nodes if node.op == "output")
    return Graph(
        module=module,
        example=example,
        nodes=tuple(node for node in program.graph.nodes if node.op == "call_function"),
        inputs=tuple(placed[InputKind.USER_INPUT]),
        parameters={node: every[name] for node, name in placed[InputKind.PARAMETER].items()},
        buffers={node: every_buffer[name] for node, name in placed[InputKind.BUFFER].items()},
        constants={n: program.constants[name].detach() for n, name in placed[InputKind.CONSTANT_TENSOR].items()},
        outputs=tuple(_nodes(_returned(output, signature.output_specs))),
    )


def _copied(model: Model) -> nn.Module:
    module = model if isinstance(model, nn.Module) or not callable(model) else model()
    if not isinstance(module, nn.Module):
        raise TrueriskError(f"a torch module (or a function that builds one) is needed, not a {type(module).__name__}.")
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        raise TrueriskError(f"the network can't be copied: {str(error).splitlines()[0]}") from error


class _Plain(nn.Module):
    """Returns the tensors of an object that ``torch.export`` does not know (a ModelOutput, a dataclass) as a list."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return list(flat(self.network(*inputs)))


LOUD = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")  # graphs and tracebacks
INSIDE = "network."  # what the names of tensors inside ``_Plain`` begin with


def _returning_plainly(module: nn.Module, example: tuple[Tensor, ...]) -> nn.Module:
    """The module itself, unless it returns an object that holds tensors."""
    try:
        with torch.no_grad():
            out = module(*example)
    except Exception:  # export says what is wrong
        return module
    own = (isinstance(out, Mapping) and type(out) is not dict) or is_dataclass(out)
    return _Plain(module) if own else module


def _share(module: nn.Module, names: Mapping[str, str]) -> None:
    """Buffers that were one tensor are one again; ``double`` makes copies of them."""
    for name, first in names.items():
        if name != first:
            place, _, last = name.rpartition(".")
            setattr(module.get_submodule(place), last, module.get_buffer(first))


def _export(module: nn.Module, example: tuple[Tensor, ...]) -> Any:
    """Export, and make it functional where an operation works in place."""
    try:
        with _silence(), torch.no_grad():
            program = torch.export.export(module, example, strict=False)
            if any(_mutates(node) for node in program.graph.nodes):
                program = program.run_decompositions({})
    except Exception as error:  # anything the network's own forward may raise, and all of torch's ways to refuse
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].split("  (")[0].rstrip(". ")
        shapes = ", ".join(str(tuple(x.shape)) for x in example)
        if wants_integers(error) and all(x.is_floating_point() for x in example):
            raise TrueriskError(integers_sentence(module)) from error
        raise TrueriskError(
            f"torch.export could not follow the network on an input of shape {shapes} ({reason}); check that shape, "
            "and write the forward without a path that depends on the values of the data."
        ) from error
    for node in program.graph.nodes:
        sizes = [size for value in flat(node.meta.get("val")) for size in value.shape]
        if not all(type(size) is int for size in sizes):
            raise TrueriskError(
                f"{spoken(node)} (at {where(node)}) makes a tensor whose size depends on the data, so the network "
                "can't be followed."
            )
    strange = [node for node in program.graph.nodes if node.op not in ("placeholder", "call_function", "output")]
    if strange:
        raise TrueriskError(
            f"the network contains {strange[0].target} (a branch, a loop or a block under torch.no_grad), which is "
            "not followed; write the forward without it."
        )
    return program


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Without torch's deprecations, advice for other uses of export, and what it prints when it gives up."""
    logs = [logging.getLogger(name) for name in LOUD]
    before = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, disabled in zip(logs, before, strict=True):
            log.disabled = disabled


def compute(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """What an operation does, on real tensors."""
    assert callable(node.target)
    return node.target(*args, **kwargs)


def operation(node: fx.Node) -> str:
    """The plain name of what a node does: ``linear``, ``conv2d``, ``add``."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return str(getattr(node.target, "__name__", node.target))
    return str(schema.name).removeprefix("aten::")


def spoken(node: fx.Node) -> str:
    """The name of an operation as people say it."""
    return operation(node).removeprefix("_native_").removesuffix("_legit_no_training").lstrip("_")


def where(node: fx.Node) -> str:
    """The path of the submodule in which an operation runs."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return (stack[-1][0] if stack else "") or "forward"


def shape_of(node: fx.Node) -> Any:
    """The shape of a node's value; a list of shapes where there are several; None for what is no tensor."""
    return fx.node.map_aggregate(node.meta.get("val"), lambda v: torch.Size(v.shape) if isinstance(v, Tensor) else None)


def flat(value: Any) -> Iterator[Tensor]:
    """All tensors in what a network or an operation returns, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from flat(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from flat(part)
    elif is_dataclass(value):
        yield from flat(vars(value))


def _mutates(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def _returned(output: fx.Node, specs: list[Any]) -> list[Any]:
    """What the network returns; an input that it changed in place comes as a further output, and is none."""
    results: Any = output.args[0]
    return [node for node, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT]


def _nodes(args: Any) -> Iterator[fx.Node]:
    if isinstance(args, fx.Node):
        yield args
    elif isinstance(args, dict):
        yield from _nodes(list(args.values()))
    elif isinstance(args, list | tuple):
        for arg in args:
            yield from _nodes(arg)
