"""A small residual network for images that learns much in few epochs on a CPU.

What makes it fast is known from the races for CIFAR-10 (D. Page, "How to train your ResNet", 2018; K. Jordan, "94% on
CIFAR-10 in 3.29 seconds on a single GPU", 2024, arXiv 2404.00498): a fixed whitening first layer, few and wide
convolutions, pooling as early as possible, batch norm, first weights that pass the image on, scaled-down logits, and
predictions averaged over an image and its mirror image. Two things differ. ReLU takes the place of GELU: it is faster
here, and rescaling understands it. And the first layer does not whiten with the covariances of the training images,
but with cosines: their products are close to the principal components of small patches of any photographs, so nothing
has to be computed from data but the scales, and batch norm does that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError

PATCH = 2  # pixels on a side of the patches that the first layer sees
NOISE = 5e-4  # added to the variance of each cosine's output, so that faint ones are not blown up
LOGITS = 0.125  # factor on the logits: the loss of the untrained network is that of guessing


def resnet(input_shape: Sequence[int], classes: int, widths: Sequence[int] = (64, 128, 256)) -> nn.Module:
    """Cosines of 2x2 patches, one block of two convolutions per width, the maximum over the image, a linear layer.

    Each block halves the image. Weights are kept with the channels last in memory, in which CPUs convolve faster.

    >>> sum(p.numel() for p in resnet((3, 32, 32), 10).parameters())
    1160960
    """
    return nn.Sequential(*_trunk(input_shape, widths), Shrunk(), nn.Linear(widths[-1], classes, bias=False))


def mirrored_resnet(input_shape: Sequence[int], classes: int, widths: Sequence[int] = (64, 128, 256)) -> nn.Module:
    """``resnet`` that predicts, in eval mode, by the mean of its logits on an image and on its mirror image.

    The last layer is linear, so that this is its answer to the mean of what enters it.
    """
    trunk = Mirrored(nn.Sequential(*_trunk(input_shape, widths)))
    return nn.Sequential(trunk, Shrunk(), nn.Linear(widths[-1], classes, bias=False))


def _trunk(input_shape: Sequence[int], widths: Sequence[int]) -> list[nn.Module]:
    """All layers but the last."""
    needed = PATCH - 1 + 2 ** len(widths)
    if len(input_shape) != 3 or min(input_shape[1:]) < needed:
        raise TrueriskError(
            f"the built-in resnet with {len(widths)} blocks needs images (channels, height, width) of at least "
            f"{needed} x {needed} pixels, but the inputs have shape {tuple(input_shape)}; use fewer blocks or mlp."
        )
    first = Cosines(input_shape[0])
    layers: list[nn.Module] = [first, nn.ReLU()]
    fan_in = first.channels
    for width in widths:
        layers.append(Block(fan_in, width))
        fan_in = width
    return [*layers, Maximum()]


class Cosines(nn.Module):
    """All products of cosines over a patch and over the colours, and their negatives, each scaled to variance 1.

    The basis of the discrete cosine transform (type 2) of patches with ``colours`` channels: orthonormal and fixed.
    """

    def __init__(self, colours: int) -> None:
        super().__init__()
        basis = cosine_patches(PATCH, colours).reshape(-1, colours, PATCH, PATCH)
        self.channels = 2 * len(basis)
        self.weight: Tensor
        self.register_buffer("weight", torch.cat([basis, -basis]))
        self.norm = nn.BatchNorm2d(self.channels, eps=NOISE, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(F.conv2d(x, self.weight))
        return out


class Block(nn.Module):
    """y = relu(norm(pool(conv(x)))), then y + relu(norm(conv(y))). Pooling comes first, to save work."""

    def __init__(self, fan_in: int, width: int) -> None:
        super().__init__()
        self.narrow = nn.Sequential(_convolution(fan_in, width), nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.ReLU())
        self.deepen = nn.Sequential(_convolution(width, width), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(x)
        return y + self.deepen(y)


class Maximum(nn.Module):
    """The maximum of each channel over the image."""

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=(2, 3))


class Shrunk(nn.Module):
    """Scales down what enters the last layer, and with it the logits."""

    def forward(self, x: Tensor) -> Tensor:
        return LOGITS * x


class Mirrored(nn.Module):
    """In eval mode the mean of what ``inner`` says of an image and of its mirror image; in training, ``inner``."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out if self.training else (out + self.inner(x.flip(-1))) / 2


def cosine_patches(side: int, colours: int) -> Tensor:
    """The products of cosines of (frequency down, across, over the colours) at (colour, row, column)."""
    space, colour = _cosines(side), _cosines(colours)
    return torch.einsum("ux,vy,wc->uvwcxy", space, space, colour)


def _cosines(n: int) -> Tensor:
    """Rows: the orthonormal cosine basis of n numbers."""
    k = torch.arange(n, dtype=torch.float64)
    basis = torch.cos(math.pi * k[:, None] * (k + 0.5) / n)
    return (basis / basis.norm(dim=1, keepdim=True)).float()


def _convolution(fan_in: int, fan_out: int) -> nn.Conv2d:
    """3x3, no bias; the first ``fan_in`` outputs start as copies of the inputs, the others at random."""
    layer = nn.Conv2d(fan_in, fan_out, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:fan_in])
        layer.weight.data = layer.weight.contiguous(memory_format=torch.channels_last)
    return layer
