"""What a tour is about: a network, data, and the few choices that are open. Plain values, for workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.certificates.schema import settle, within
from truerisk.certificates.settings import LARGEST_SEED
from truerisk.names import OUTPUTS

if TYPE_CHECKING:
    from truerisk.data import Data
    from truerisk.nets import Architecture

# The network of the built-in tour. One layer of 64 filters has room for the random labels of 898 digits and still
# learns the true ones well, in some four seconds.
MODEL, LR = "convnet:64", 5e-3
DATA = "digits"
PRIOR = "split:0.5"  # half of the examples train, the other half test


@dataclass(frozen=True)
class Asked:
    """The choices behind one tour."""

    model: object = None
    data: object = None
    seed: int = within(0, low=0, high=LARGEST_SEED)
    delta: float = within(0.05, above=0, below=1, hint="0.05 is usual")
    minutes: float = within(10.0, above=0)
    data_dir: str | Path | None = None
    outputs: str | None = within(None, among=OUTPUTS)

    def __post_init__(self) -> None:
        settle(self)

    @property
    def builtin(self) -> bool:
        """Whether this is the tour that comes with the library."""
        return self.model is None and self.data is None

    @property
    def network(self) -> object:
        return MODEL if self.builtin else self.model

    @property
    def lr(self) -> float | None:
        """The learning rate of the built-in tour; None: the usual one for the network."""
        return LR if self.builtin else None

    def material(self) -> tuple[Architecture, Data]:
        """The network without its weights, and the data as it takes them."""
        from truerisk.data import load
        from truerisk.nets import architecture, fitted

        data = load(DATA if self.data is None else self.data, self.data_dir)
        return fitted(architecture(self.network, data.input_shape, data.classes), data, self.outputs)

    def load(self) -> Data:
        return self.material()[1]

    def certify(self, data: Data, work: Path, **more: Any) -> Any:
        """``truerisk.certify`` with these choices, in one thread and without progress of its own."""
        from truerisk import progress
        from truerisk.certificates import certify

        choices: dict[str, Any] = {"delta": self.delta, "seed": self.seed, "lr": self.lr, "threads": 1, "work": work}
        choices["outputs"] = self.outputs
        with progress.silent():
            return certify(self.network, data, **(choices | more))
