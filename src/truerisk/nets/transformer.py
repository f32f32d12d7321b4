"""A small transformer that reads the rows of an image as tokens; layer norm, batch norm, or none before each part.

Pre-norm blocks (x + attention(norm(x)), then x + mlp(norm(x))), learned positions, the mean over tokens, a linear map.
Batch norm normalizes each channel over the batch and all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError

NORMS = ("none", "layer", "batch")


class Tokens(nn.Module):
    """Batch norm of (examples, tokens, channels) over examples and tokens."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return out


class Attention(nn.Module):
    """Softmax attention with several heads, each token to all tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        parts = self.into(x).view(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(n, tokens, width))
        return out


class Encoder(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)) with a hidden layer of twice the width."""

    def __init__(self, width: int, heads: int, norm: str) -> None:
        super().__init__()
        self.first, self.second = _norm(norm, width), _norm(norm, width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        out: Tensor = x + self.mlp(self.second(x))
        return out


class RowTransformer(nn.Module):
    """Rows of an image (all its channels) as tokens, ``blocks`` encoder blocks, the mean over tokens, a linear map.

    >>> net = RowTransformer((1, 8, 8), 10)
    >>> net(torch.zeros(5, 1, 8, 8)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([5, 10]), 18026)
    """

    def __init__(
        self, shape: Sequence[int], classes: int, width: int = 32, blocks: int = 2, heads: int = 4, norm: str = "layer"
    ) -> None:
        super().__init__()
        if len(shape) != 3:
            raise TrueriskError(f"inputs have shape {tuple(shape)}, but must be images; use an mlp for tables.")
        if norm not in NORMS:
            raise TrueriskError(f"the norm is {norm!r}, but must be one of {', '.join(NORMS)}.")
        if width % heads:
            raise TrueriskError(f"{width} channels cannot be divided among {heads} heads; give a multiple of {heads}.")
        self.embed = nn.Linear(shape[0] * shape[2], width)
        self.places = nn.Parameter(0.02 * torch.randn(shape[1], width))
        self.blocks = nn.Sequential(*(Encoder(width, heads, norm) for _ in range(blocks)))
        self.final, self.last = _norm(norm, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.permute(0, 2, 1, 3).flatten(2)
        tokens = self.blocks(self.embed(rows) + self.places)
        logits: Tensor = self.last(self.final(tokens).mean(dim=1))
        return logits


def _norm(kind: str, width: int) -> nn.Module:
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(width) if kind == "layer" else Tokens(width)
