"""Certify your own network, trained by your own function.

What one learns:

* ``build`` is a function that returns a new ``nn.Module``. It is called with torch's generator seeded, so the
  weights that it starts from come from the seed and not from the data.
* ``fit(module, dataset)`` trains the network. It is given half of the examples and never sees the other half, so
  whatever it does with them (stopping early here) uses no delta.
* The certificate is about the network that ``fit`` returned, tested on the other half. ``two_sided=True`` bounds its
  risk from below too, and ``cert.fit`` says how much worse it does on unseen examples than on its own.
* ``verify`` needs the function that builds the network again, because code that only a certificate names is never
  run. With ``retrain=True`` it also repeats the training.

Run it with ``python examples/own_network.py``; it takes about twenty seconds on one core.
"""

import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

import truerisk
from truerisk.words import bound, delta, lower, seen


class Residual(nn.Module):
    """Two hidden layers with a skip connection around the second one."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x.flatten(1)).relu()
        return self.last(h + self.second(h).relu())


def build(classes: int) -> nn.Module:
    """A new network; truerisk passes ``classes`` and ``input_shape`` to a factory that asks for them."""
    return Residual(64, 60, classes)


def fit(module: nn.Module, dataset: Dataset) -> nn.Module:
    """SGD that keeps the weights which did best on a tenth of its own examples."""
    train, watch = random_split(dataset, [0.9, 0.1])
    X, y = (torch.stack(column) for column in zip(*watch, strict=True))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    best, fewest = None, len(y) + 1
    for _ in range(40):
        for inputs, labels in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(inputs), labels).backward()
            optimizer.step()
        with torch.no_grad():
            errors = int((module(X).argmax(dim=1) != y).sum())
        if errors < fewest:
            best, fewest = {name: value.clone() for name, value in module.state_dict().items()}, errors
    module.load_state_dict(best)
    return module


def main() -> None:
    cert = truerisk.certify(build, "digits", fit=fit, two_sided=True, seed=0)
    print(cert.sentence)
    # Upper ends are rounded up, lower ends down, observed rates to the nearest.
    print(f"at most {bound(cert.risk_bound)}, at least {lower(cert.risk_lower)}, observed {seen(cert.empirical_risk)}")
    print(f"training error {seen(cert.fit.training_error)}: {cert.fit.diagnosis}")
    for entry in cert.ledger:
        print(f"  {delta(entry['delta']):<10} {entry['event']}")
    for line in cert.assumptions:
        print(f"  - {line}")
    with tempfile.TemporaryDirectory() as folder:
        cert.save(folder)
        result = truerisk.verify(folder, model=build, retrain=True, fit=fit)
    for line in result.checked:
        print(f"  ok: {line}")


if __name__ == "__main__":
    main()
