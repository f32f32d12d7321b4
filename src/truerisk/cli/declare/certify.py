"""``truerisk certify``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from truerisk.cli.options import DataDir, Device, Epochs, Json, Model, Quiet, TrustFactory


class CertifyCommand(TyperCommand):
    """Its help ends with the list of methods. Knowing them takes torch, so they are asked for only when help is."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from truerisk.certificates.methods import METHODS

        rows = [(name, f"{method.summary} [{method.predictor}]") for name, method in METHODS.items()]
        with formatter.section("Methods"):
            formatter.write_dl(
                [("all", "every method that applies, each with its part of delta; the best is kept"), *rows]
            )


def certify(
    data: Annotated[
        str | None,
        typer.Option(help="Name (digits, mnist, openml:iris) or path (.npz, folder).", show_default="digits"),
    ] = None,
    model: Model = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Trained weights (safetensors or .pt state dict), with --fresh or with the data they saw as --data.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        str | None, typer.Option(help="Labelled data that the trained network never saw.", show_default=False)
    ] = None,
    trained_on: Annotated[
        str | None,
        typer.Option(help="What it was trained on: row numbers (.npy .txt .json) or data.", show_default=False),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(help="Inputs that the trained network never saw; labels are ignored.", show_default=False),
    ] = None,
    repeats_are_draws: Annotated[
        bool, typer.Option("--repeats-are-draws", help="Vouch that rows with equal values are separate draws.")
    ] = False,
    ids: Annotated[
        str | None,
        typer.Option(help="Identities of the fresh or unlabelled rows (.npy .txt .json).", show_default=False),
    ] = None,
    trained_on_ids: Annotated[
        str | None,
        typer.Option(help="Identities of the rows that it was trained on.", show_default=False),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(help="zero, init or split:FRACTION.", show_default="split:0.5; zero with --weights"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="all, or one of the methods below.", show_default="pac-bayes-kl; all with --weights"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--for", help="Kind of predictor: stochastic, single-draw or deterministic.", show_default=False),
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Same seed, threads and software: same certificate.")] = 0,
    tried: Annotated[
        int | None,
        typer.Option(
            help="Configurations compared on this data, this one included.",
            show_default="1",
        ),
    ] = None,
    epochs: Epochs = None,
    lr: Annotated[
        float | None, typer.Option(help="Peak learning rate of the network's training.", show_default="by network")
    ] = None,
    prior_std: Annotated[
        float | None,
        typer.Option(help="Width of the prior in units of 1/sqrt(fan_in).", show_default="by prior"),
    ] = None,
    objective: Annotated[str, typer.Option(help="tempered, quadratic, lambda or kl.")] = "tempered",
    scales: Annotated[
        str | None,
        typer.Option(
            help="Prior widths: fixed, or grid (one for each layer, paid for in the ledger), or grid:K (K widths).",
            show_default="fixed; grid with --weights",
        ),
    ] = None,
    random: Annotated[
        str | None, typer.Option(help="Random layers of a posterior: all or last.", show_default="all")
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            help="Share of the posterior's training over which the weight of the KL rises from 0 to 1.",
            show_default="0",
        ),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Blocks of progressive.", show_default="5")] = None,
    expect: Annotated[
        float | None, typer.Option(help="Error rate that progressive expects; 0: find out.", show_default="0")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Picks of pick-to-learn in a round.", show_default="10")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of pick-to-learn, at most.", show_default="100")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of recursive.", show_default="3")] = None,
    gamma: Annotated[
        float | None, typer.Option(help="Weight of the step before in recursive's excess loss.", show_default="0.5")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            help="Nats of training loss, over all examples, that description-length gives for a bit less.",
            show_default="6",
        ),
    ] = None,
    surrogate: Annotated[
        str | None, typer.Option(help="Method of disagreement's certified network.", show_default="hold-out")
    ] = None,
    device: Device = "cpu",
    threads: Annotated[
        int | None, typer.Option(help="Threads that compute.", show_default="1, or 2 for a large network")
    ] = None,
    trust_factory: TrustFactory = False,
    out: Annotated[Path, typer.Option(help="Folder for certificate.json, weights and report.html.")] = Path(
        "truerisk-out"
    ),
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Certify how wrong a network can be on data it has never seen.

    Examples: truerisk certify
    | truerisk certify --data mnist --prior init
    | truerisk certify --method all --for deterministic
    | truerisk certify --model net.py:build --weights w.safetensors --fresh test.npz
    | truerisk certify --model net.py:build --weights w.safetensors --data train.npz --unlabelled new.npy
    """
    from truerisk.cli import commands

    own = {
        "scales": scales,
        "random": random,
        "warmup": warmup,
        "blocks": blocks,
        "expect": expect,
        "batch": batch,
        "rounds": rounds,
        "steps": steps,
        "gamma": gamma,
        "price": price,
        "surrogate": surrogate,
    }
    options = {
        "prior": prior,
        "method": method,
        "predictor": kind,
        "unlabelled": unlabelled,
        "device": device,
        "threads": threads,
        "options": {name: value for name, value in own.items() if value is not None},
        "delta": delta,
        "seed": seed,
        "tried": tried,
        "epochs": epochs,
        "lr": lr,
        "prior_std": prior_std,
        "objective": objective,
        "trust_factory": trust_factory,
        "weights": weights,
        "fresh": fresh,
        "trained_on": trained_on,
        "repeats_are_draws": repeats_are_draws,
        "ids": ids,
        "trained_on_ids": trained_on_ids,
        "data_dir": data_dir,
    }
    commands.certify(model, data, out, options, json, quiet)
