"""Two small records, one for each kind of certificate."""

from typing import Any

import pytest


def shared() -> dict[str, Any]:
    return {
        "format": 1,
        "delta": 0.05,
        "n_certify": 900,
        "n_prior": 897,
        "floor": 0.0512884547306824,
        "floor_detail": {
            "errors": 35,
            "n": 900,
            "what": "the prior's mean network, tested on the certifying examples",
        },
        "data": {
            "name": "digits",
            "source": "digits",
            "n": 1797,
            "classes": 3,
            "input_shape": [1, 8, 8],
            "counts": [600, 600, 597],
            "sha256": "ad" * 32,
        },
        "seed": 7,
        "assumptions": ["The 900 certifying examples are independent draws.", "No examples are near copies."],
        "warnings": [],
        "model": {"name": "mlp:16", "kind": "built-in"},
        "settings": {
            "prior": "split:0.5",
            "delta": 0.05,
            "seed": 7,
            "tried": 16,
            "own_training": False,
            "prior_std": 0.1,
            "plans": {"prior": {"epochs": 100, "optimizer": "adam", "lr": 0.001}},
        },
        "files": {"split.safetensors": "11" * 32, "network.safetensors": "48" * 32},
        "software": {"torch": "2.13.0", "numpy": "2.4.6", "machine": "x86_64"},
        "version": "0.1.0",
    }


@pytest.fixture
def pac_bayes() -> dict[str, Any]:
    return shared() | {
        "method": "pac-bayes-kl",
        "predictor": "stochastic",
        "risk_bound": 0.07612676990910476,
        "empirical_risk": 0.03871320069056115,
        "empirical_risk_upper": 0.03958886681613277,
        "kl": 12.345,
        "kl_unrescaled": 1234.5678,
        "draws": {
            "n": 900,
            "groups": 900,
            "size": 1,
            "passes": 884,
            "chunk": 2000,
            "precision": "float64",
            "layered": True,
            "errors": 30766,
        },
        "breakdown": [
            {"part": "errors of the drawn networks", "value": 0.03871320069056115},
            {"part": "Monte Carlo", "value": 0.0008756661255716197},
            {"part": "confidence (delta)", "value": 0.035999541355375184},
            {"part": "KL(posterior, prior)", "value": 0.0005383617375968042},
        ],
        "ledger": [
            {"event": "PAC-Bayes-kl inequality: the certifying examples are misleading", "delta": 0.0028125},
            {"event": "Monte Carlo: the drawn networks erred less often", "delta": 0.0003125},
            {"event": "the same for 15 other configurations", "delta": 0.046875},
        ],
        "other_forms": {"McAllester": 0.11497392075276315, "quadratic": 0.08303428349032146, "Thiemann": 1.0},
        "warnings": ["The certificate was made for a test."],
        "sentence": "With 95 % confidence, this network, with its weights drawn anew for each prediction, is "
        "wrong on at most 7.7 % of unseen examples.",
    }


@pytest.fixture
def hold_out() -> dict[str, Any]:
    return shared() | {
        "method": "hold-out",
        "predictor": "deterministic",
        "risk_bound": 0.0575,
        "empirical_risk": 35 / 900,
        "empirical_risk_upper": 35 / 900,
        "kl": None,
        "kl_unrescaled": None,
        "draws": None,
        "breakdown": [
            {"part": "errors on the tested examples", "value": 35 / 900},
            {"part": "confidence (delta)", "value": 0.0575 - 35 / 900},
        ],
        "ledger": [
            {"event": "Clopper-Pearson: the tested examples are misleading", "delta": 0.003125},
            {"event": "the same for 15 other configurations", "delta": 0.046875},
        ],
        "sentence": "With 95 % confidence, this network is wrong on at most 5.8 % of unseen examples.",
    }
