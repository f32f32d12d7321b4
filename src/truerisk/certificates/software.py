"""What may change the last digit of a float, or the stream of random numbers."""

from __future__ import annotations

import platform

import numpy as np
import torch

from truerisk.training.device import CPU, device


def software() -> dict[str, str | int]:
    """Versions, machine and threads, for the certificate; and where networks were trained, if not on the CPU."""
    found: dict[str, str | int] = {
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
    place = str(device())
    return found if place == CPU else found | {"device": place}
