"""Augmentation: random crops (the one that Zhang et al. 2017 study on CIFAR-10), shifts, mirror images, rotations.

All random numbers come from torch's global generator, which the training loop seeds for each epoch.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.plan import augmentations
from truerisk.seeds import derive


def random_crop(images: Tensor, size: int) -> Tensor:
    """From each image (channels, height, width) a square of ``size`` pixels at a place of its own, drawn uniformly."""
    top, left = (torch.randint(side - size + 1, (len(images),)) for side in _sides(images, size))
    return _cut(images, top, left, size, size).contiguous()


def shift(images: Tensor, most: int) -> Tensor:
    """Each image moved by up to ``most`` pixels along both axes, drawn uniformly; its border is reflected."""
    height, width = _sides(images, most + 1)
    top, left = (torch.randint(2 * most + 1, (len(images),)) for _ in range(2))
    return _cut(F.pad(images, [most] * 4, mode="reflect"), top, left, height, width)


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Each image turned by up to ``degrees`` and stretched by up to ``degrees`` percent along both axes, uniformly.

    Between pixels it is interpolated linearly; what comes from outside is black.
    """
    _sides(images, 1)
    angle, *stretch = torch.empty(3, len(images)).uniform_(-1, 1) * degrees
    angle, across, along = angle.deg2rad(), 1 + stretch[0] / 100, 1 + stretch[1] / 100
    zero = torch.zeros_like(angle)
    first = torch.stack([angle.cos() * across, -angle.sin() * along, zero], dim=1)
    second = torch.stack([angle.sin() * across, angle.cos() * along, zero], dim=1)
    places = F.affine_grid(torch.stack([first, second], dim=1), list(images.shape), align_corners=False)
    return F.grid_sample(images, places.to(images.dtype), align_corners=False)


def mirror(images: Tensor, chosen: Tensor) -> Tensor:
    """The images, those that are ``chosen`` with left and right exchanged."""
    _sides(images, 1)
    return torch.where(chosen[:, None, None, None], images.flip(-1), images)


class Augment:
    """What training does to its batches, read from a text: any of ``rotate:10``, ``shift:2`` and ``flip``, in order.

    ``flip`` shows each of the ``n`` examples and its mirror image in turn, epoch by epoch, beginning with a coin of
    its own: no example is seen from one side only (K. Jordan 2024, arXiv 2404.00498).

    >>> Augment("shift:1")(torch.zeros(5, 3, 8, 8), torch.arange(5)).shape
    torch.Size([5, 3, 8, 8])
    """

    def __init__(self, text: str, n: int = 0, seed: int = 0) -> None:
        self.steps = augmentations(text)
        self.mirrored = torch.rand(n, generator=torch.Generator().manual_seed(derive(seed, "flip"))) < 0.5
        self.odd = False

    def start_epoch(self, epoch: int) -> None:
        """Be told which epoch begins, counted from 0."""
        self.odd = bool(epoch % 2)

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        """The batch ``images``, which are the examples ``rows``, augmented."""
        for kind, amount in self.steps:
            if kind == "flip":
                images = mirror(images, self.mirrored[rows] ^ self.odd)
            else:
                images = shift(images, int(amount)) if kind == "shift" else rotate(images, amount)
        return images


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


def _cut(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """The rectangle of each image whose corner is at its own (top, left); channels last in memory."""
    rows, columns = top[:, None] + torch.arange(height), left[:, None] + torch.arange(width)
    each = torch.arange(len(images))
    # Indices around a slice move the channels to the end.
    return images[each[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _sides(images: Tensor, size: int) -> tuple[int, int]:
    if images.ndim != 4 or not 1 <= size <= min(images.shape[2:]):
        raise TrueriskError(
            f"inputs of shape {tuple(images.shape[1:])} have no {size} x {size} crops; "
            "give images (channels, height, width) and a size that they have."
        )
    return images.shape[2], images.shape[3]
