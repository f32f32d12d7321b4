"""Random crops: the one augmentation of data that Zhang et al. 2017 study on CIFAR-10."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError


def random_crop(images: Tensor, size: int) -> Tensor:
    """From each image (channels, height, width) a square of ``size`` pixels at a place of its own, drawn uniformly.

    The places come from torch's global generator, which the training loop seeds for each epoch.
    """
    top, left = (torch.randint(side - size + 1, (len(images),)) for side in _sides(images, size))
    rows, columns = top[:, None] + torch.arange(size), left[:, None] + torch.arange(size)
    each = torch.arange(len(images))
    # Indices around a slice move the channels to the end.
    return images[each[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The square of ``size`` pixels in the middle of each image."""
    top, left = ((side - size) // 2 for side in _sides(images, size))
    return images[:, :, top : top + size, left : left + size]


def whiten(images: Tensor) -> Tensor:
    """Each image minus its mean, divided by max(its standard deviation, 1/sqrt(N)) for N values per image."""
    flat = images.flatten(1)
    flat = flat - flat.mean(dim=1, keepdim=True)
    scale = flat.std(dim=1, keepdim=True, correction=0).clamp(min=1 / math.sqrt(flat.shape[1]))
    return (flat / scale).view(images.shape)


class View(nn.Module):
    """What a network is shown of an image: a crop of ``size`` pixels, whitened after cropping as published.

    In evaluation the crop is the middle; in training it is random if ``random``, else the middle as well. ``pad``
    black pixels are added on each side first: with ``pad`` = 1 and the size of the image itself, random crops are
    shifts by at most one pixel. A module, because only a module knows whether it is being trained.
    """

    def __init__(self, size: int, *, random: bool, pad: int = 0) -> None:
        super().__init__()
        self.size, self.random, self.pad = size, random, pad

    def forward(self, images: Tensor) -> Tensor:
        padded = F.pad(images, [self.pad] * 4) if self.pad else images
        crop = random_crop if self.random and self.training else centre_crop
        return whiten(crop(padded, self.size))


def _sides(images: Tensor, size: int) -> tuple[int, int]:
    if images.ndim != 4 or not 1 <= size <= min(images.shape[2:]):
        raise TrueriskError(
            f"inputs of shape {tuple(images.shape[1:])} have no {size} x {size} crops; "
            "give images (channels, height, width) and a size that they have."
        )
    return images.shape[2], images.shape[3]
