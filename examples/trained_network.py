"""Certify a network that is already trained, on examples that it never saw.

What one learns:

* ``fresh=`` certifies the network exactly as it is: no noise on the weights, no KL, an exact binomial bound.
* ``trained_on=`` names the rows that the network was trained on, and they are left out. If it is data of its own,
  ``ids=`` and ``trained_on_ids=`` tell which rows are one draw, and a draw that is in both sets is refused.
* That nothing else about the fresh examples was used (to stop, to tune, to choose a network) is your word. The
  certificate prints it as an assumption.

The same from the command line, with the two files that this script writes::

    truerisk certify --model examples/trained_network.py:build --weights truerisk-out/trained/network.safetensors \\
        --fresh digits --trained-on truerisk-out/trained/rows.npy --out truerisk-out/trained/certificate
    truerisk verify truerisk-out/trained/certificate --model examples/trained_network.py:build

Run it with ``python examples/trained_network.py [FOLDER]`` (default: ``truerisk-out/trained``); it takes a few seconds.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import truerisk
from truerisk.data import load
from truerisk.words import bound, seen


def build() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))


def train(X: np.ndarray, y: np.ndarray) -> nn.Module:
    """A plain training loop: nothing of truerisk in it."""
    torch.manual_seed(0)
    model, inputs, labels = build(), torch.from_numpy(X), torch.from_numpy(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.randperm(len(inputs)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digits = load("digits")
    rows = np.random.default_rng(0).permutation(len(digits))[:900]
    model = train(digits.X[rows], digits.y[rows])
    save_file(model.state_dict(), folder / "network.safetensors")
    np.save(folder / "rows.npy", rows)

    cert = truerisk.certify(build, fresh="digits", weights=folder / "network.safetensors", trained_on=rows)
    print(cert.sentence)
    errors, n = cert.record["floor_detail"]["errors"], cert.record["n_certify"]
    observed, certified = seen(cert.empirical_risk), bound(cert.risk_bound)
    print(f"{errors} errors on {n} fresh examples: observed {observed}, certified {certified}")
    for line in cert.assumptions:
        print(f"  - {line}")
    cert.save(folder / "certificate", force=True)  # replaces that of an earlier run
    print(f"verified: at most {bound(truerisk.verify(folder / 'certificate', model=build).risk_bound)}")

    try:  # the last five rows given as fresh were trained on as well
        mixed = np.concatenate([np.setdiff1d(np.arange(len(digits)), rows), rows[-5:]])
        truerisk.certify(model, fresh=digits.take(mixed), ids=mixed, trained_on=digits.take(rows), trained_on_ids=rows)
    except truerisk.TrueriskError as error:
        print(f"refused, as it should be: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "truerisk-out/trained"))
