"""What may change the last digit of a float, or the stream of random numbers."""

from __future__ import annotations

import platform

import numpy as np
import torch


def software() -> dict[str, str | int]:
    """Versions, machine and threads, for the certificate."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
