"""Images of data sets as plain JSON, for the pictures of a lesson."""

from __future__ import annotations

import numpy as np


def pixels(image: np.ndarray, low: float | None = None, high: float | None = None) -> list:
    """An image (channels first, or without channels) as rows of gray values or [red, green, blue], 0 to 255.

    ``low`` and ``high`` are shown black and white; by default the image's own extremes.

    >>> pixels(np.array([[[0.0, 0.5], [1.0, 0.25]]]))
    [[0, 128], [255, 64]]
    """
    values = np.asarray(image, dtype=np.float64)
    if values.ndim == 3:
        values = values[0] if values.shape[0] == 1 else np.moveaxis(values, 0, -1)
    low, high = (values.min() if low is None else low), (values.max() if high is None else high)
    scaled = np.clip((values - low) / ((high - low) or 1.0), 0, 1)
    found: list = np.rint(255 * scaled).astype(int).tolist()
    return found
