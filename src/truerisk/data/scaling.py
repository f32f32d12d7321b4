"""Inputs in the size and the scale that a network takes: smaller images, whitened images, standardized columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerisk.data.dataset import Data
from truerisk.data.treatments import centre_crop, whiten_images


def is_images(data: Data) -> bool:
    """Whether inputs are images: channels, height, width."""
    return len(data.input_shape) == 3


def shrink_images(data: Data, side: int) -> Data:
    """Images of at most ``side`` x ``side`` pixels; smaller images, and inputs that are not images, stay as they are.

    With k the largest integer for which k x ``side`` pixels fit into the image, the result is the middle of that many
    pixels, averaged over blocks of k x k. For k = 1 (28 of the 32 pixels of CIFAR-10) it is a crop.
    """
    if not is_images(data) or min(data.input_shape[1:]) <= side:
        return data
    block = min(data.input_shape[1:]) // side
    middle = centre_crop(data, block * side)
    if block == 1:
        return middle
    blocks = middle.X.reshape(len(data), -1, side, block, side, block)
    return replace(middle, X=blocks.mean(axis=(3, 5), dtype=np.float64).astype(np.float32))


def normalize(train: Data, test: Data) -> tuple[Data, Data]:
    """Whiten images one by one; of other inputs, standardize each column by its mean and deviation in the training set.

    Whitening would mix the columns of a table, whose units differ. A column of one value becomes 0.
    """
    if is_images(train):
        return whiten_images(train), whiten_images(test)
    mean, deviation = train.X.mean(axis=0, dtype=np.float64), train.X.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0, deviation, 1.0)
    note = "columns standardized by the training examples"

    def standardized(data: Data) -> Data:
        X = ((data.X - mean) / scale).astype(np.float32)
        return replace(data, X=X, note=f"{data.note}; {note}" if data.note else note, source=None)

    return standardized(train), standardized(test)
