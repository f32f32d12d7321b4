"""A network as a file of bytes: ``encode``, ``decode`` and ``bits``.

The language, fixed before any data is seen: the start network (architecture and seed), the grid of steps, the
backgrounds, the model of the numbers. For each trainable tensor, in the order of the module: is it anything but its
background 0? If not, is it that of the start network? If it is: the background, the step (5 fair bits), the numbers.
All of it goes through one arithmetic coder, so `coder` says why 2^-bits sums to at most 1 over all networks.
"""

from __future__ import annotations

import copy

import numpy as np
from torch import Tensor, nn

from truerisk.codes.coder import Coder, Fair, Odds, Reader, Writer
from truerisk.codes.integers import code_integers
from truerisk.codes.quantize import STEP_BITS, Rounded, coded, exactly
from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import identical


def encode(network: nn.Module, start: nn.Module) -> bytes:
    """The code of a network whose weights are all on the grid (``quantize`` or ``decode`` makes such networks)."""
    refuse_other(network, start)
    origin, numbers = coded(start), {}
    for name, weights in coded(network).items():
        found = exactly(weights, origin[name])
        if found is None:
            raise TrueriskError(f"the weights {name} are not multiples of one step of the grid; quantize them first.")
        numbers[name] = found
    return encode_numbers(numbers)


def encode_numbers(numbers: dict[str, Rounded]) -> bytes:
    """The code of rounded tensors, in the order of the module's parameters."""
    writer = Writer()
    head = _Head()
    for tensor in numbers.values():
        head.code(writer, tensor.numbers.shape, tensor)
    return writer.finish()


def decode(code: bytes, start: nn.Module) -> nn.Module:
    """The network that ``code`` stands for: a copy of ``start`` with the weights replaced, in eval mode."""
    reader, head = Reader(code), _Head()
    twin = copy.deepcopy(start).eval()
    numbers = {name: head.code(reader, tuple(t.shape)) for name, t in coded(twin).items()}
    if encode_numbers(numbers) != code:  # cut, extended, or never written by `encode`
        raise TrueriskError("this is not the code of a network of this architecture; restore the file.")
    for name, tensor in coded(twin).items():
        tensor.copy_(numbers[name].weights(tensor))
    return twin


def bits(code: bytes) -> int:
    """The length of a code: all that is stored.

    >>> bits(b"abc")
    24
    """
    return 8 * len(code)


def refuse_other(network: nn.Module, start: nn.Module) -> None:
    """A code tells about trainable parameters only, so everything else must be that of the start network."""
    shapes = [{name: t.shape for name, t in coded(module).items()} for module in (network, start)]
    if shapes[0] != shapes[1]:
        raise TrueriskError("the network has not the architecture of the start network; build both the same way.")
    mine, theirs = _fixed(network), _fixed(start)
    moved = [name for name, t in mine.items() if name not in theirs or not identical(t, theirs[name])]
    if moved or len(mine) != len(theirs):
        raise TrueriskError(
            f"{', '.join(moved[:5]) or 'the buffers'} of the network differ from the start network, and a code holds "
            "trainable weights only; fold batch norm into the weights (truerisk.fold_batch_norm; affine=True for norms "
            "that it leaves), or do without."
        )


class _Head:
    """What is told about each tensor before its numbers; the odds of the flags are learnt over the tensors."""

    def __init__(self) -> None:
        self._used, self._on_start, self._fair = Odds(), Odds(), Fair()

    def code(self, coder: Coder, shape: tuple[int, ...], tensor: Rounded | None = None) -> Rounded:
        """Write ``tensor``, or read one of this shape."""
        numbers = None if tensor is None else tensor.numbers
        on_start = coder.decide(self._on_start, tensor is not None and tensor.on_start)
        if not coder.decide(self._used, numbers is not None and bool(numbers.any())):
            return Rounded(0, on_start, np.zeros(shape, np.int64))
        step = 0
        for place in range(STEP_BITS):
            step = 2 * step + coder.decide(
                self._fair, tensor is not None and bool(tensor.step >> (STEP_BITS - 1 - place) & 1)
            )
        return Rounded(step, on_start, code_integers(coder, shape, numbers))


def _fixed(module: nn.Module) -> dict[str, Tensor]:
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    return frozen | dict(module.named_buffers())
