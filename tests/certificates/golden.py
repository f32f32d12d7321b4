"""Every method on a small scale, as it is told in JSON, in the terminal and on its page: kept, so that a digit that
changes is noticed.

``python -m certificates.golden`` in the folder of the tests writes the kept texts anew, for changes that are meant.
"""

from __future__ import annotations

import hashlib
import html
import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from certificates.networks import trained
from torch import nn

import truerisk
from truerisk import progress
from truerisk.certificates import Certificate
from truerisk.certificates.story import tell
from truerisk.cli import show
from truerisk.data import Data, load
from truerisk.nets import mlp
from truerisk.report.certificate import render

HERE = Path(__file__).parent
GOLDENS, KEPT = HERE / "goldens", HERE / "kept"
ROWS, UNSEEN = 600, 200
WIDTH = 120  # of the terminal
DIFFERENT = ("software", "version", "made")  # on another machine, or on another day
SECTIONS = ("record", "terminal", "page")


def data() -> Data:
    """600 digits in other shades: rows of no known set."""
    digits = load("digits")
    return Data("shades", np.sqrt(digits.X[:ROWS]), digits.y[:ROWS], digits.classes)


def parity() -> Data:
    """The same rows with two classes, and names for them."""
    digits = data()
    return Data("parity", digits.X, digits.y % 2, 2, class_names=("even", "odd"))


def unseen() -> np.ndarray:
    return np.sqrt(load("digits").X[ROWS : ROWS + UNSEEN])


def network() -> nn.Module:
    """What mlp:8 builds, from a seed of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return mlp((1, 8, 8), 10, hidden=(8,))


def own_fit(module: nn.Module, dataset: Any) -> None:
    """A user's own training: one step of plain gradient descent."""
    X, y = dataset.tensors
    nn.functional.cross_entropy(module(X), y).backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= 0.5 * p.grad


def _given() -> dict[str, Any]:
    return {"weights": trained(data(), 8, 200, 0.01).state_dict()}


def _disagreement(epochs: int = 60, **options: Any) -> dict[str, Any]:
    given = {"unlabelled": unseen(), **_given()}
    return {"method": "disagreement", "epochs": epochs, "lr": 0.02, "options": options, **given}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "pac-bayes-kl": lambda: {"method": "pac-bayes-kl", "epochs": 20},
    "pac-bayes-kl-last": lambda: {"method": "pac-bayes-kl", "options": {"random": "last", "warmup": 0.5}},
    "pac-bayes-kl-grid": lambda: {"method": "pac-bayes-kl", "prior": "init", "options": {"scales": "grid"}},
    "pac-bayes-kl-two-sided": lambda: {"method": "pac-bayes-kl", "epochs": 20, "two_sided": True},
    "single-draw": lambda: {"method": "single-draw", "epochs": 20},
    "progressive": lambda: {"method": "progressive", "epochs": 10},
    "progressive-expect": lambda: {"method": "progressive", "options": {"blocks": 3, "expect": 0.4}},
    "pick-to-learn": lambda: {"method": "pick-to-learn", "options": {"rounds": 4}},
    "pick-to-learn-init": lambda: {"method": "pick-to-learn", "prior": "init", "options": {"batch": 20, "rounds": 3}},
    "recursive": lambda: {"method": "recursive"},
    "recursive-split": lambda: {
        "method": "recursive",
        "prior": "split:.5",
        "epochs": 20,
        "options": {"steps": 2, "gamma": 0.25},
    },
    "description-length": lambda: {"method": "description-length", "epochs": 10},
    "description-length-given": lambda: {"method": "description-length", "options": {"price": 2.0}, **_given()},
    "hold-out": lambda: {"method": "hold-out", "prior": "split:0.8", "tried": 3, "delta": 0.1, "epochs": 40},
    "default": lambda: {"epochs": 20},
    "hold-out-two-sided": lambda: {"epochs": 40, "two_sided": True},
    "fresh-trained-on": lambda: {
        "fresh": data().take(np.arange(300, ROWS)),
        "trained_on": data().take(np.arange(300)),
        "two_sided": True,
        **_given(),
    },
    "fresh": lambda: {"fresh": data(), "trained_on": np.arange(300), **_given()},
    "pac-bayes-around": lambda: {"method": "pac-bayes-around", **_given()},
    "single-draw-around": lambda: {"epochs": 10, "method": "single-draw-around", "prior": "init", **_given()},
    "disagreement": lambda: _disagreement(),
    "disagreement-recursive": lambda: _disagreement(surrogate="recursive", steps=2),
    "disagreement-single-draw": lambda: _disagreement(surrogate="single-draw"),
    "own-training": lambda: {"method": "pac-bayes-kl", "fit": own_fit},
    "one-logit": lambda: {
        "data": parity(),
        "method": "pac-bayes-kl",
        "epochs": 20,
        "options": {"draws": 5000},
    },
    "all": lambda: {"method": "all", "predictor": "deterministic", "options": {"rounds": 3}},
}
STORED = ("pac-bayes-kl-grid", "recursive-split", "disagreement-single-draw")  # whole folders, for verify
MODELS = {
    "own-training": lambda: lambda: mlp((1, 8, 8), 10, hidden=(8,)),
    "one-logit": lambda: lambda: mlp((1, 8, 8), 1, hidden=(8,)),
}


def certificate(name: str) -> Certificate:
    """The certificate of a case."""
    given = {"epochs": 1, **CASES[name]()}
    if "fresh" in given:
        given.pop("epochs")
    else:
        given.setdefault("data", data())
    return truerisk.certify(MODELS.get(name, lambda: "mlp:8")(), **given)


def told(made: Certificate) -> dict[str, Any]:
    """A certificate's record, terminal text and page."""
    record = {key: value for key, value in made.to_json().items() if key not in DIFFERENT}
    return {"record": record, "terminal": _terminal(made), "page": _page(made)}


def _terminal(made: Certificate) -> list[str]:
    out, others = io.StringIO(), [tell(other.record) for other in made.others]
    with patch.dict("os.environ", {"COLUMNS": str(WIDTH)}), redirect_stdout(out):
        show.certificate(tell(made.record, made.commands("out")), others, Path("out/report.html"))
    return out.getvalue().splitlines()


def _page(made: Certificate) -> list[str]:
    """The text of the page, a line for each block: no style, no figure; versions and dates differ."""
    page = render(made.record, [other.record for other in made.others])
    page = re.sub(r"<(style|svg|title)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</(p|h1|h2|tr|li|dd|dt|pre|figcaption)>", "\n", page)
    lines = (" ".join(html.unescape(re.sub(r"<[^>]*>", " ", line)).split()) for line in page.splitlines())
    return [line for line in lines if line and "torch" not in line and not line.startswith("Made ")]


def arithmetic() -> str:
    """A fingerprint of how this processor and these libraries round and draw: other ones train other networks."""
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(200, 64, generator=generator)
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X.reshape(-1, 1, 8, 8)), torch.arange(200) % 10).backward()
        optimizer.step()
    # What posteriors, draws and bounds use besides: float64, other functions and NumPy's streams.
    other = (
        torch.special.ndtri(torch.rand(100, generator=generator, dtype=torch.float64)).exp() @ torch.ones(100).double()
    )
    mine = [p.detach().numpy().tobytes() for p in net.parameters()]
    mine += [other.numpy().tobytes(), np.exp(np.random.default_rng(3).standard_normal(64)).tobytes()]
    # The optimal rescaling uses NumPy's linear algebra, whose kernels differ between processors with the same torch.
    square = np.random.default_rng(4).standard_normal((60, 60))
    mine += [each.tobytes() for each in (square @ square, square @ square[0], np.linalg.solve(square, square[0]))]
    return hashlib.sha256(b"".join(mine)).hexdigest()


def write() -> None:
    """Keep all cases as they are now."""
    progress.enable(False)
    torch.set_num_threads(1)
    for name in CASES:
        made = certificate(name)
        (GOLDENS / f"{name}.json").write_text(json.dumps(told(made), indent=1) + "\n")
        print(name, made.risk_bound, flush=True)
    (GOLDENS / "arithmetic.txt").write_text(arithmetic() + "\n")


def store() -> None:
    """Whole folders: what this version of the format looks like on disk, for verify of later versions."""
    for name in STORED:
        certificate(name).save(KEPT / name, force=True)


if __name__ == "__main__":
    write()
