"""Training and test examples of Arpit et al. 2017: real ones, and ones whose inputs or labels are noise.

randX replaces an example's input by Gaussian numbers with the mean and variance of the data, and keeps its label;
randY keeps the input and draws the label uniformly. The noise level is the share of examples that are treated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerisk.data import Data, centre_crop, corrupt_labels, gaussian_pixels, shuffle, whiten_images
from truerisk.errors import TrueriskError
from truerisk.lab.samples import samples
from truerisk.seeds import derive

REAL, RAND_X, RAND_Y = "real", "randX", "randY"
NAMES = {REAL: "real data", RAND_X: "random inputs", RAND_Y: "random labels"}  # for readers, in the order of figures
CROP = {"cifar-10": 28}  # the published networks crop CIFAR-10 by two pixels on each side


def noisy_samples(
    name: str, n: int, n_test: int, noise: str, level: float, seed: int, pool: int = 1
) -> tuple[Data, Data]:
    """``n`` whitened training examples, treated, and ``n_test`` whitened test examples as they are.

    Each image is whitened on its own, so that real and Gaussian inputs have the same mean and variance. ``pool``
    averages blocks of pixels: 2 turns MNIST into 14 x 14 images.
    """
    train, test = (_prepared(part, pool, CROP.get(name)) for part in samples(name, n, n_test, seed))
    return treat(train, noise, level, derive(seed, "noise")), test


def treat(data: Data, noise: str, level: float, seed: int) -> Data:
    """The data with a share ``level`` of the inputs (randX) or of the labels (randY) replaced by noise."""
    if noise == RAND_Y:
        return corrupt_labels(data, level, seed)
    if noise == RAND_X:
        rows = np.sort(shuffle(len(data), seed)[: round(level * len(data))])
        X = data.X.copy()
        X[rows] = gaussian_pixels(data, seed).X[rows]
        return replace(data, name=f"{data.name} with Gaussian inputs at {level}", X=X, source=None)
    if noise == REAL:
        return data
    raise TrueriskError(f"there is no noise {noise!r}; choose {REAL}, {RAND_X}, or {RAND_Y}.")


def pool_pixels(data: Data, block: int) -> Data:
    """The means over blocks of ``block`` x ``block`` pixels."""
    if len(data.input_shape) != 3 or data.input_shape[1] % block or data.input_shape[2] % block:
        raise TrueriskError(
            f"{data.name}: inputs of shape {data.input_shape} do not divide into blocks of {block} x {block} pixels; "
            "choose a block that divides both sides."
        )
    colors, height, width = data.input_shape
    blocks = data.X.reshape(len(data), colors, height // block, block, width // block, block)
    return replace(data, name=f"{data.name} in blocks of {block}", X=blocks.mean(axis=(3, 5)), source=None)


def _prepared(data: Data, pool: int, crop: int | None) -> Data:
    data = data if crop is None else centre_crop(data, crop)
    return whiten_images(data if pool == 1 else pool_pixels(data, pool))
