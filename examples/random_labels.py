"""Why a certificate can be trusted: where there is nothing to learn, it says so.

What one learns:

* On labels drawn uniformly from ten classes every classifier has true risk 0.9. A certificate below that would be
  false, so this is the simplest test that a method of certifying can fail.
* A network can still get most of such labels right in training: training error alone says nothing.
* A data-free prior, a learnt prior and the hold-out bound all certify at least 0.9 here, and less on true labels.

Run it with ``python examples/random_labels.py``; it takes about half a minute on one core.
"""

import torch
from torch import nn

import truerisk
from truerisk.data import Data, load, random_labels
from truerisk.words import bound, seen

NETWORK, EPOCHS = "mlp:50", 30


def memorize(data: Data) -> float:
    """Training error of a network that is trained to the end on all examples."""
    torch.manual_seed(0)
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        for batch in torch.randperm(len(X)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return float((model(X).argmax(dim=1) != y).float().mean())


def main() -> None:
    digits = load("digits")
    labels = {"true labels": digits, "random labels": random_labels(digits, seed=0)}
    print(f"{'':24}" + "".join(f"{name:>15}" for name in labels))
    print(f"{'training error':24}" + "".join(f"{seen(memorize(data), 3):>15}" for data in labels.values()))
    settings = [("pac-bayes-kl", "init"), ("pac-bayes-kl", "split:0.5"), ("hold-out", "split:0.5")]
    for method, prior in settings:
        bounds = [
            truerisk.certify(NETWORK, data, prior=prior, method=method, epochs=EPOCHS).risk_bound
            for data in labels.values()
        ]
        print(f"{f'{method}, {prior}':24}" + "".join(f"{bound(each, 3):>15}" for each in bounds))
        assert bounds[1] >= 0.9, "a certificate below chance on random labels is false"
    print("\nOn random labels the true risk of every classifier is 0.900, and no certificate is below it.")


if __name__ == "__main__":
    main()
