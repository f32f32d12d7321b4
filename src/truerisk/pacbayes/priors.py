"""How wide a prior is, layer by layer, before any data is seen."""

from __future__ import annotations

from torch import nn

WITHOUT_FAN_IN = 0.1  # for gains and shifts of norm layers, and other parameters without inputs


def fan_in_std(module: nn.Module, factor: float = 1.0) -> dict[str, float]:
    """``factor / sqrt(fan_in)`` for the weights and biases of each layer; 0.1 * ``factor`` elsewhere.

    The scale at which a layer's output neither grows nor shrinks; its bias shares it.

    >>> fan_in_std(nn.Linear(4, 3))
    {'weight': 0.5, 'bias': 0.5}
    """
    scale: dict[str, float] = {}
    for prefix, layer in module.named_modules():
        own = dict(layer.named_parameters(prefix=prefix, recurse=False))
        fans = [p[0].numel() for p in own.values() if p.ndim >= 2]
        std = factor * (fans[0] ** -0.5 if fans else WITHOUT_FAN_IN)
        for name in own:
            scale.setdefault(name, std)
    return scale
