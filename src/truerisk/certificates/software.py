"""What may change the last digit of a float, or the stream of random numbers."""

from __future__ import annotations

import platform

import numpy as np
import torch

from truerisk.training.device import CPU, device


def software() -> dict[str, str]:
    """Versions and machine, for people who compare certificates; and where networks were trained, if not on the CPU.

    No verdict of ``verify`` depends on them.
    """
    found = {
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    place = str(device())
    return found if place == CPU else found | {"device": place}
