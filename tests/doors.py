"""Networks and data as new users have them, for tests of every command that takes a network."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

VOCABULARY, LENGTH = 50, 12


class ModelOutput(OrderedDict):
    """In the style of Hugging Face: a mapping whose entries are attributes, and whose first items come by number."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


@dataclass
class Answer:
    logits: Tensor
    hidden: Tensor

    def __iter__(self):
        return (getattr(self, each.name) for each in fields(self))


class Base(nn.Module):
    """What all of them compute: one hidden layer on digits."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 16)
        self.head = nn.Linear(16, 10)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x.flatten(1)).relu()
        return self.head(hidden), hidden


class Plain(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.both(x)[0]


class HuggingFace(Base):
    def forward(self, x: Tensor) -> ModelOutput:
        return ModelOutput(logits=self.both(x)[0])


class WithHidden(Base):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits, hidden = self.both(x)
        return {"hidden_states": hidden, "logits": logits}


class Lone(Base):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.both(x)[0]}


class Pair(Base):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.both(x)


class DataClass(Base):
    def forward(self, x: Tensor) -> Answer:
        return Answer(*self.both(x))


class OneLogit(nn.Module):
    """A binary classifier with one output per example: [N, 1], or [N] if ``flat``."""

    def __init__(self, flat: bool = False, sigmoid: bool = False) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(30, 16), nn.Linear(16, 1)
        self.flat, self.sigmoid = flat, sigmoid

    def forward(self, x: Tensor) -> Tensor:
        z = self.head(self.body(x).relu())
        z = z.sigmoid() if self.sigmoid else z
        return z[:, 0] if self.flat else z


class TwoLogits(nn.Module):
    """The same function as a one-logit network, with the zero that it is compared with as an output of its own."""

    def __init__(self, one: OneLogit) -> None:
        super().__init__()
        self.body, self.head = one.body, nn.Linear(16, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.cat([torch.zeros(1, 16), one.head.weight]))
            self.head.bias.copy_(torch.cat([torch.zeros(1), one.head.bias]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())


class Bag(nn.Module):
    """A text classifier: the mean of word vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(VOCABULARY, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids))


class Tokens(nn.Module):
    """A text classifier with a hidden layer for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.body(self.words(ids)).relu().mean(1))


def tumors() -> tuple[np.ndarray, np.ndarray]:
    """Two classes, 30 features of very different sizes: standardized, which is fine for tests of form."""
    X, y = load_breast_cancer(return_X_y=True)
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32), y


def sentences(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Token ids, and whether several of five words occur."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (n, LENGTH))
    return ids, (np.isin(ids, [3, 7, 11, 20, 30]).sum(1) > 1).astype(np.int64)
