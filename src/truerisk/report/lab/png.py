"""Small images as PNG files inside a page: rows of gray values or of [red, green, blue]."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.errors import TrueriskError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, COLOR = 0, 2  # of PNG's kinds of images


def png(pixels: Sequence[Sequence[Any]]) -> bytes:
    """The PNG file (ISO/IEC 15948) of an image with values from 0 to 255.

    >>> png([[0, 255], [128, 64]])[:8] == SIGNATURE
    True
    """
    try:
        values = np.asarray(pixels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TrueriskError("an image has rows of different lengths, or text; give rows of numbers.") from error
    if values.size == 0 or not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 3)):
        raise TrueriskError(f"an image has shape {values.shape}; give rows of gray values, or of [red, green, blue].")
    if not np.isfinite(values).all():
        raise TrueriskError("an image has a pixel that is not finite, but needs 0 to 255; use lab.images.pixels.")
    rows, columns = values.shape[:2]
    lines = np.rint(np.clip(values, 0, 255)).astype(np.uint8).reshape(rows, -1)
    filtered = np.concatenate([np.zeros((rows, 1), np.uint8), lines], axis=1)  # each line begins with filter 0: none
    header = struct.pack(">IIBBBBB", columns, rows, 8, COLOR if values.ndim == 3 else GRAY, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in parts)


def data_uri(pixels: Sequence[Sequence[Any]]) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
