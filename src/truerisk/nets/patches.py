"""Random convolutional features: filters are random patches of training images (Coates and Ng 2012).

Zhang et al. (2017, Section 5) put one such layer with 32,000 filters before the kernel solve on CIFAR-10. Here a
patch has its mean removed and its contrast normalized, is whitened by the covariance of training patches, and is
compared with each filter; a filter's responses are rectified for both signs and averaged over a few regions of the
image. The kernel is the inner product of these features, scaled so that k(x, x) is 1 on average over some of
the examples that the filters came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.nets.triangle import Triangle

SAMPLED = 20_000  # patches that the whitening is computed from
CONTRAST = 10 / 255**2  # added to a patch's variance, as Coates and Ng do: flat patches stay small
WHITENING = 0.1  # added to the eigenvalues of the covariance of patches
THRESHOLD = 1.0  # a response counts by how far it exceeds this; responses have a deviation of about 1
AT_ONCE = 64  # filters whose features are held at a time
IMAGES = 500  # images convolved at a time
SCALED_BY = 1000  # images over which k(x, x) is 1 on average


@dataclass(frozen=True)
class PatchKernel:
    """k(x, x') = <features(x), features(x')> for fixed random filters."""

    filters: Tensor  # (number, channels, height, width): whitened and of unit length, for mean-free patches
    offsets: Tensor  # what the mean of the normalized patches would add to each response
    regions: tuple[int, int]
    scale: float  # features are divided by it

    def triangle(self, X: np.ndarray) -> Triangle:
        triangle = Triangle.zeros(len(X))
        for features in self.blocks(X):
            triangle.add_outer(features)
        return triangle

    def apply(self, A: np.ndarray, B: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        out = np.zeros((len(A), coefficients.shape[1]))
        for left, right in zip(self.blocks(A), self.blocks(B), strict=True):
            out += left @ (right.T @ coefficients)
        return out

    def blocks(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """The features of all images, some filters at a time, as float64 arrays (images, features)."""
        images = torch.from_numpy(as_images(X))
        for start in range(0, len(self.filters), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            parts = [self._features(images[at : at + IMAGES], some) for at in range(0, len(images), IMAGES)]
            features = torch.cat(parts).numpy().astype(np.float64)
            features /= self.scale
            yield features

    def _features(self, images: Tensor, some: slice) -> Tensor:
        filters = self.filters[some]
        variance = _patch_variance(images, filters.shape[2:])
        responses = F.conv2d(images, filters) / torch.sqrt(variance + CONTRAST) - self.offsets[some, None, None]
        both = torch.cat([responses, -responses], dim=1)
        return F.adaptive_avg_pool2d(F.relu(both - THRESHOLD), self.regions).flatten(1)


def patch_kernel(X: np.ndarray, filters: int, patch: int, seed: int) -> PatchKernel:
    """A kernel of ``filters`` random patches of these images, ``patch`` pixels wide."""
    images = as_images(X)
    height, width = min(patch, images.shape[2]), patch
    if width > images.shape[3]:
        raise TrueriskError(
            f"patches are {patch} pixels wide, but must fit images of width {images.shape[3]}; use smaller ones."
        )
    generator = np.random.default_rng(seed)
    patches = _normalized(_sample(images, (height, width), max(SAMPLED, filters), generator))
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(patches, rowvar=False))
    whitening = (vectors / np.sqrt(np.maximum(values, 0) + WHITENING)) @ vectors.T
    chosen = (patches[generator.permutation(len(patches))[:filters]] - mean) @ whitening
    chosen /= np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-12)  # a flat patch may be all mean
    chosen = chosen @ whitening
    offsets = chosen @ mean
    chosen -= chosen.mean(axis=1, keepdims=True)  # takes the mean of every patch that the filter meets
    shaped = chosen.reshape(filters, images.shape[1], height, width)
    regions = (2, 2) if images.shape[2] > 1 else (1, 4)
    bare = PatchKernel(torch.from_numpy(shaped).float(), torch.from_numpy(offsets).float(), regions, 1.0)
    some = X[:SCALED_BY]
    length = sum(float((block**2).sum()) for block in bare.blocks(some)) / len(some)
    return PatchKernel(bare.filters, bare.offsets, regions, length**0.5)


def as_images(X: np.ndarray) -> np.ndarray:
    """(n, channels, height, width) in float32; a signal is an image of height 1."""
    return np.ascontiguousarray(X if X.ndim == 4 else X.reshape(len(X), 1, 1, -1), dtype=np.float32)


def _sample(images: np.ndarray, size: tuple[int, int], number: int, generator: np.random.Generator) -> np.ndarray:
    """Patches at uniformly random places of uniformly random images, one per row."""
    windows = np.lib.stride_tricks.sliding_window_view(images, size, axis=(2, 3))
    which, top, left = (generator.integers(0, windows.shape[axis], number) for axis in (0, 2, 3))
    return windows[which, :, top, left].reshape(number, -1).astype(np.float64)


def _normalized(patches: np.ndarray) -> np.ndarray:
    centered = patches - patches.mean(axis=1, keepdims=True)
    return centered / np.sqrt(np.mean(centered**2, axis=1, keepdims=True) + CONTRAST)


def _patch_variance(images: Tensor, size: torch.Size) -> Tensor:
    """The variance of all values of the patch at each place, with one channel of output."""
    kernel = (int(size[0]), int(size[1]))
    mean = F.avg_pool2d(images.mean(dim=1, keepdim=True), kernel, stride=1)
    square = F.avg_pool2d((images**2).mean(dim=1, keepdim=True), kernel, stride=1)
    return torch.relu(square - mean**2)
