"""Certificates of least-norm readouts of random features, by several methods, and the risk that they are about.

All of them are made by `truerisk.certify` from the same n examples, each with ``DELTA`` of its own. The features come
from a seed and are fixed: they have seen no data, so priors and decoders know them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from truerisk.certificates import Certificate, certify
from truerisk.certificates.methods import Around, DescriptionLength, HoldOut, PacBayesKL, Progressive
from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets import predict_labels
from truerisk.nets.random_network import RandomNetwork, fit_least_norm, random_network
from truerisk.seeds import derive

MODEL = "model"  # the readout of all n examples, measured and not certified
AROUND, CODE = "pac-bayes-around", "description-length"  # these start from the readout of all n examples
DELTA = 0.05
PRICES = (3.0, 0.7)  # of a bit; the bound holds for the codes of both prices at once, so the better one may be kept


def task(setting: Setting) -> Record:
    """Certify one predictor by one method, and measure its risk; or measure the readout of all examples."""
    s = setting
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    X, y = train.X.astype(np.float32), train.y
    build = random_network(round(s["ratio"] * s["n"]), derive(s["seed"], "features"))

    def solved() -> RandomNetwork:
        network = build(X.shape[1:], int(y.max()) + 1)
        return fit_least_norm(network, TensorDataset(torch.from_numpy(X), torch.from_numpy(y)))

    if s["method"] == MODEL:
        model = solved()
        wrong = [float(np.mean(predict_labels(model, part.X.astype(np.float32)) != part.y)) for part in (train, test)]
        return {"training": wrong[0], "risk": wrong[1], "norm": float(model.readout.weight.detach().norm())}
    how: dict[str, Any] = {"fit": fit_least_norm, "trust_factory": True, "threads": 1, "delta": DELTA}
    how |= {"seed": derive(s["seed"], "certificate"), "epochs": s.get("epochs")}
    asked = partial(certify, build, (X, y), **how)
    weights = solved().state_dict() if s["method"] in (AROUND, CODE) else {}
    return measured(_certified(s, asked, weights), test, derive(s["seed"], "predictions"))


def _certified(s: Setting, asked: partial[Certificate], weights: dict[str, Any]) -> Certificate:
    if s["method"] == "hold-out":
        return asked(method=HoldOut(), prior="split:0.5")
    if s["method"] == "progressive":
        return asked(method=Progressive(blocks=5), prior="split:0.5")
    if s["method"] == "pac-bayes-split":
        return asked(method=PacBayesKL(draws=s["draws"]), prior="split:0.5")
    if s["method"] == "pac-bayes-zero":
        return asked(method=PacBayesKL(draws=s["draws"]), prior="zero")
    if s["method"] == AROUND:
        return asked(method=Around(draws=s["draws"]), prior="zero", weights=weights)
    found = [asked(method=DescriptionLength(price=price), prior="init", weights=weights) for price in PRICES]
    return min(found, key=lambda certificate: certificate.risk_bound)


def measured(certificate: Certificate, test: Data, seed: int) -> Record:
    """The numbers of a certificate, and the errors of the predictor that it certifies on new examples."""
    stored = certificate.to_json()
    wrong = int(np.sum(certificate.predictor(test.X.astype(np.float32), seed) != test.y))
    return {
        "bound": certificate.risk_bound,
        "baseline": certificate.floor,
        "observed": certificate.empirical_risk,
        "wrong": wrong,
        "risk": wrong / len(test),
        "n_certify": certificate.record.n_certify,
        "kl": certificate.kl,
        "bits": stored.get("bits"),
        "blocks": [block["errors"] / block["n"] for block in stored.get("progressive", {}).get("blocks", [])],
    }
