"""Which layer feeds which batch norm: the calls of a network's modules, from one of two tracers.

``by_export`` follows the operations of one example input with ``torch.export``, which knows every shape. ``by_fx``
needs no input, and gives up on a forward that asks for the size of its batch, as in ``x.reshape(len(x), -1)``.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.errors import TrueriskError
from truerisk.nets.graph import Graph, capture, operation, shape_of

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)
NORMALIZE = {"batch_norm", "_native_batch_norm_legit_no_training"}
ELSE = ""  # stands for everything that is not a call of a module


@dataclass(frozen=True)
class Calls:
    """Modules by their first names.

    ``before``: for each batch norm that is called, the one layer whose output enters all its calls, if there is one.
    ``after``: for each layer, the batch norms that take its output, and ``ELSE`` if anything else takes it.
    ``read``: modules whose tensors are used without calling the module.
    ``tokens``: linear layers whose output has more axes than batch and features.
    """

    before: dict[str, str | None]
    after: dict[str, frozenset[str]]
    read: frozenset[str]
    tokens: frozenset[str] = frozenset()


def hooked(module: nn.Module) -> bool:
    """Whether more happens in a call than the module's own forward."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def by_export(network: nn.Module, example_input: Tensor | tuple[Tensor, ...]) -> Calls:
    """The calls that an input of this shape leads to."""
    return _Operations(network, capture(network, example_input)).calls()


class _Operations:
    """Reads a graph of operations as calls of layers and norms.

    The tensors that an operation takes say which layer or norm it is. The module stack that ``torch.export`` keeps for
    each operation says whether the module itself was called; alone it is not enough, since it may name a neighbor.
    """

    def __init__(self, network: nn.Module, graph: Graph) -> None:
        self.network, self.graph = network, graph
        first = {id(module): name for name, module in network.named_modules()}
        every = network.named_modules(remove_duplicate=False)
        self.steps = {path: first[id(m)] for path, m in every if path and isinstance(m, (_BatchNorm, *LAYERS))}
        self.tensors = graph.parameters | graph.buffers

    def calls(self) -> Calls:
        norms = {node: name for node in self.graph.nodes if (name := self.norm(node)) is not None}
        layers = {node: name for node in self.graph.nodes if (name := self.layer(node)) is not None}
        sources: dict[str, set[str | None]] = {}
        for node, name in norms.items():
            entering = node.args[0]
            sources.setdefault(name, set()).add(self.source(entering) if isinstance(entering, fx.Node) else None)
        after: dict[str, set[str]] = {}
        for node, name in layers.items():
            takers = {norms.get(user, ELSE) if user.args[:1] == (node,) else ELSE for user in node.users}
            after.setdefault(name, set()).update(takers, {ELSE} if node in self.graph.outputs else ())
        return Calls(
            before={name: found.pop() if len(found) == 1 else None for name, found in sources.items()},
            after={name: frozenset(found) for name, found in after.items()},
            read=frozenset(self.read(norms | layers)),
            tokens=frozenset(
                n for node, n in layers.items() if operation(node) == "linear" and len(shape_of(node)) > 2
            ),
        )

    def inside(self, node: fx.Node) -> str | None:
        """The layer or norm in whose call an operation runs."""
        stack = node.meta.get("nn_module_stack", {}).values()
        return next((self.steps[path] for path, _ in stack if path in self.steps), None)

    def norm(self, node: fx.Node) -> str | None:
        """The batch norm that an operation is, called as a module with its own statistics."""
        name = self.inside(node) if operation(node) in NORMALIZE else None
        if name is None or not isinstance(self.network.get_submodule(name), _BatchNorm):
            return None
        mean = node.args[3]
        return name if not isinstance(mean, fx.Node) or self.tensors.get(mean) == f"{name}.running_mean" else None

    def layer(self, node: fx.Node) -> str | None:
        """The layer that an operation is, called as a module with its own weights."""
        if operation(node).startswith(("linear", "conv")) and len(node.args) > 1:
            name, weight = self.inside(node), node.args[1]
            if name is not None and isinstance(weight, fx.Node) and self.tensors.get(weight) == f"{name}.weight":
                return name
        return None

    def source(self, node: fx.Node) -> str | None:
        """The layer whose result a node is; also one that does more than its class in torch."""
        name = self.inside(node)
        if name is None or not isinstance(module := self.network.get_submodule(name), LAYERS):
            return None
        computed = type(module) not in LAYERS or hooked(module)
        return name if computed or self.layer(node) == name else None

    def read(self, own: dict[fx.Node, str]) -> set[str]:
        owners = {node: tensor.rpartition(".")[0] for node, tensor in self.tensors.items()}
        return {owner for node, owner in owners.items() if any(own.get(user) != owner for user in node.users)}


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # a buffer that is read shows up in the graph, as a parameter does

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """A user's own kind of norm or layer is one step, too: the checks inside torch's can't be followed."""
        return isinstance(m, (_BatchNorm, *LAYERS)) or super().is_leaf_module(m, module_qualified_name)


def by_fx(network: nn.Module) -> Calls:
    """The calls for any input, with the defaults of whatever else the forward takes."""
    parameters = inspect.signature(network.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    try:
        graph = _Tracer().trace(network, concrete_args=defaults)
    except Exception as error:  # whatever the network's own forward may raise on values that are not there
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrueriskError(
            f"torch.fx could not follow the network ({reason}), so batch norm cannot be folded; give "
            "example_input=, or write the forward without a path that depends on the input."
        ) from error
    names = {node: str(node.target) for node in graph.nodes if node.op == "call_module"}
    norms = {node: name for node, name in names.items() if isinstance(network.get_submodule(name), _BatchNorm)}
    sources: dict[str, set[str | None]] = {}
    for node, name in norms.items():
        entering = node.args[0] if node.args else node.kwargs.get("input")
        sources.setdefault(name, set()).add(names.get(entering) if isinstance(entering, fx.Node) else None)
    after: dict[str, set[str]] = {}
    for node, name in names.items():
        after.setdefault(name, set()).update(norms.get(user, ELSE) for user in node.users)
    return Calls(
        before={name: found.pop() if len(found) == 1 else None for name, found in sources.items()},
        after={name: frozenset(found) for name, found in after.items()},
        read=frozenset(str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"),
    )
