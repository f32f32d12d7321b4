"""What a certificate costs on top of training: ``certify`` on digits against training the same network."""

from __future__ import annotations

import torch

import truerisk
from benchmarks.timing import Row, in_turns
from truerisk.data import load
from truerisk.nets import mlp
from truerisk.training import Plan, fit


def rows() -> list[Row]:
    data = load("digits")

    def certify() -> None:
        certificates.append(truerisk.certify("mlp", data))

    def train() -> None:
        """All examples, with the epochs, batches and steps that the prior gets on half of them."""
        torch.manual_seed(0)
        plan = Plan(**certificates[-1].record["settings"]["plans"]["prior"])
        fit(mlp(data.input_shape, data.classes), data, plan)

    certificates: list[truerisk.Certificate] = []
    times = in_turns(certify, train, repeats=2)
    cert = certificates[-1]
    trials = cert.record["draws"]["passes"] * cert.record["n_certify"]
    note = (
        f"certifying takes {times[0] / times[1]:.1f} times the training; it trains the prior on half of the examples, "
        f"a posterior on the other half, and makes {trials:,} draws"
    )
    return [Row("certify on digits, 64-100-10, all defaults", "training it on all examples", *times, note=note)]
