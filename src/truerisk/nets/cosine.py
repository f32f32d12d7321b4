"""A small network for photographs whose first layer is known before any data is seen.

What a first layer learns from photographs is much the same whatever they show: waves of some frequency, direction and
colour. Whoever pays for each weight (in bits of a file, or in nats of a KL) does better to take such waves as given:
they cost nothing, because no example had a say in them. Here they are cosines, as in JPEG, scaled by what is known of
photographs in general: amplitudes fall as 1/frequency (Field 1987, J. Opt. Soc. Am. A 4), and colours differ less from
one another than light does from shade.

There are no norm layers: their statistics would have to come from examples that never certify.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.residual import Mirrored, cosine_patches

PATCH, STRIDE, MARGIN = 4, 2, 1  # pixels: the side of a patch, from one to the next, and what is added at the border
GREY = 0.5  # pixels are numbers from 0 to 1
SLOPE, COLOUR = 2.0, 3.0  # a wave of frequency f is made 1 + SLOPE f times larger, one of colours COLOUR times


def cosnet(input_shape: Sequence[int], classes: int, widths: Sequence[int] = (16, 24, 32)) -> nn.Module:
    """Fixed cosines of 4x4 patches, a 1x1 convolution, 3x3 convolutions that halve the image, their mean, linear.

    >>> sum(p.numel() for p in cosnet((3, 32, 32), 10).parameters())
    11538
    """
    return nn.Sequential(*_trunk(input_shape, widths), nn.Linear(widths[-1], classes))


def mirrored_cosnet(input_shape: Sequence[int], classes: int, widths: Sequence[int] = (16, 24, 32)) -> nn.Module:
    """``cosnet`` that predicts, in eval mode, by the mean of its logits on an image and on its mirror image."""
    return nn.Sequential(Mirrored(nn.Sequential(*_trunk(input_shape, widths))), nn.Linear(widths[-1], classes))


class Waves(nn.Module):
    """All products of cosines over a patch and over the colours, for patches that overlap; nothing is learnt.

    The basis of the discrete cosine transform (type 2), each wave scaled to about the same amplitude in photographs.
    """

    def __init__(self, colours: int) -> None:
        super().__init__()
        steps = torch.arange(PATCH)
        frequency = (steps[:, None].square() + steps.square()).sqrt()
        hue = torch.where(torch.arange(colours) > 0, COLOUR, 1.0)
        size = (1 + SLOPE * frequency)[..., None] * hue / PATCH
        weight = (cosine_patches(PATCH, colours) * size[..., None, None, None]).reshape(-1, colours, PATCH, PATCH)
        self.channels = len(weight)
        self.weight: Tensor
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x - GREY, (MARGIN,) * 4, mode="replicate"), self.weight, stride=STRIDE)


def _trunk(input_shape: Sequence[int], widths: Sequence[int]) -> list[nn.Module]:
    """All layers but the last."""
    needed = STRIDE * 2 ** (len(widths) - 1)
    if len(input_shape) != 3 or min(input_shape[1:]) < needed:
        raise TrueriskError(
            f"the built-in cosnet with {len(widths)} widths needs images (channels, height, width) of at least "
            f"{needed} x {needed} pixels, but the inputs have shape {tuple(input_shape)}; use fewer widths or mlp."
        )
    waves = Waves(input_shape[0])
    layers: list[nn.Module] = [waves, nn.Conv2d(waves.channels, widths[0], 1), nn.ReLU()]
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
