"""Commands and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from truerisk._version import __version__

app = typer.Typer(
    name="truerisk",
    help="What a neural network will really do on unseen data. Start with: truerisk certify",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Data sets: what is here, what can be fetched.", no_args_is_help=True)
app.add_typer(data_app, name="data")
lab_app = typer.Typer(help="Classic experiments on memorization and generalization.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")

Model = Annotated[
    str | None,
    typer.Option(
        help="mlp, mlp:600-600, convnet, file.py:factory or package.module:factory.",
        show_default="convnet or mlp, by input",
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Look for data files here first.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Required = Annotated[
    str, typer.Option("--model", help="file.py:factory, package.module:factory, mlp or convnet.", show_default=False)
]
Shape = Annotated[str, typer.Option("--input", help="Shape of an input, batch first: 1,3,32,32.", show_default=False)]
Weights = Annotated[
    Path | None, typer.Option(help="Trained weights (safetensors or .pt state dict).", show_default=False)
]
Integers = Annotated[
    int | None,
    typer.Option(help="The input holds whole numbers below this: the size of a vocabulary.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that certify wrote.")]


def _version(show: bool) -> None:
    if show:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """What a neural network will really do on unseen data. Start with: truerisk certify"""


class _Certify(TyperCommand):
    """Its help ends with the list of methods. Knowing them takes torch, so they are asked for only when help is."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from truerisk.certificates.methods import METHODS

        rows = [(name, f"{method.summary} [{method.predictor}]") for name, method in METHODS.items()]
        with formatter.section("Methods"):
            formatter.write_dl(
                [("all", "every method that applies, each with its part of delta; the best is kept"), *rows]
            )


@app.command(cls=_Certify)
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
    seed: Annotated[int, typer.Option(help="The same seed gives the same certificate.")] = 0,
    tried: Annotated[
        int | None,
        typer.Option(
            help="Configurations compared on this data, this one included.",
            show_default="1",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.", show_default="by data size")] = None,
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
    surrogate: Annotated[
        str | None, typer.Option(help="Method of disagreement's certified network.", show_default="hold-out")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or auto.")] = "cpu",
    trust_factory: Annotated[
        bool, typer.Option("--trust-factory", help="Vouch that the factory's weights never saw this data.")
    ] = False,
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
        "surrogate": surrogate,
    }
    options = {
        "prior": prior,
        "method": method,
        "predictor": kind,
        "unlabelled": unlabelled,
        "device": device,
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
        "data_dir": data_dir,
    }
    commands.certify(model, data, out, options, json, quiet)


@app.command()
def search(
    data: Annotated[str | None, typer.Option(help="As for certify: a name or a path.", show_default="digits")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A network, as for certify; once for each.", show_default="convnet or mlp, by input"),
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(help="A peak learning rate; once for each.", show_default="the usual one times 0.3, 1 and 3"),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(help="split:FRACTION; once for each.", show_default="split:0.5, split:0.8 and split:0.9"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Of the certificate to come.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the certificate to come: its certifying rows are not looked at.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.", show_default="by data size")] = None,
    device: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or auto.")] = "cpu",
    trust_factory: Annotated[
        bool, typer.Option("--trust-factory", help="Vouch that the factory's weights never saw this data.")
    ] = False,
    work: Annotated[Path, typer.Option(help="Folder for checkpoints, which are removed at the end.")] = Path(
        "truerisk-search"
    ),
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find a network, a learning rate and a split for a certificate, on rows that never certify.

    Examples: truerisk search --data mnist --model mlp --model convnet
    | truerisk search --model net.py:build --lr 0.001 --lr 0.01 --prior split:0.8
    """
    from truerisk.cli import search as command

    options = {
        "lrs": lr,
        "delta": delta,
        "seed": seed,
        "epochs": epochs,
        "trust_factory": trust_factory,
        "device": device,
        "data_dir": data_dir,
    }
    command.search(model, data, prior, work, options, json, quiet)


@app.command()
def verify(
    folder: Folder,
    data: Annotated[str | None, typer.Option(help="The certified data, if it is your own.", show_default=False)] = None,
    model: Model = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train the prior again from its seed.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Re-derive every number of a certificate; exit code 1 if one does not hold.

    Example: truerisk verify truerisk-out
    """
    from truerisk.cli import commands

    commands.verify(folder, data, model, retrain, data_dir, json)


@app.command()
def predict(
    folder: Folder,
    data: Annotated[str, typer.Option(help="Inputs: a name, a folder, .npz (X) or .npy.", show_default=False)],
    model: Model = None,
    out: Annotated[Path | None, typer.Option(help="Write the labels here, one a line.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of a stochastic predictor's draws.")] = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Predictions of exactly the predictor that was certified, one label a line.

    Example: truerisk predict truerisk-out --data mnist:test --out labels.txt
    """
    from truerisk.cli import commands

    commands.predict(folder, data, model, out, seed, data_dir, json)


@app.command()
def symmetry(
    model: Required,
    shape: Shape,
    weights: Weights = None,
    integers: Integers = None,
    json: Json = False,
) -> None:
    """What of a network can be rescaled without a change of its function, what is held, and why.

    Example: truerisk symmetry --model net.py:build --input 1,3,32,32
    """
    from truerisk.cli import orbit

    orbit.symmetry(model, weights, shape, integers, json)


@app.command()
def rescale(
    model: Required,
    shape: Shape,
    weights: Weights = None,
    integers: Integers = None,
    to: Annotated[
        str, typer.Option(help="balanced (smallest sum of squares) or unit (incoming norms 1).")
    ] = "balanced",
    out: Annotated[Path, typer.Option(help="Where to write the weights.")] = Path("rescaled.safetensors"),
    json: Json = False,
) -> None:
    """Write a canonical form of a network's weights: other numbers, the same function.

    Example: truerisk rescale --model net.py:build --weights w.pt --input 1,3,32,32 --to balanced
    """
    from truerisk.cli import orbit

    orbit.rescale(model, weights, shape, integers, to, out, json)


@app.command()
def measure(
    data: Annotated[
        str | None,
        typer.Option(help="What it was trained on: a name or a path, as for certify.", show_default="digits"),
    ] = None,
    model: Model = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Trained weights (safetensors or .pt state dict).", show_default="the network is trained first"
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Its weights before training: a file, or seed:N to build the network again with torch's seed N.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="JSON file: what is known of its training.", show_default=False)
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Names, joined by commas: see --list.", show_default="all that train nothing")
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Also what trains networks of its own.")] = False,
    delta: Annotated[float, typer.Option(help="Probability with which each single bound may fail.")] = 0.05,
    rows: Annotated[int, typer.Option(help="Examples for what takes gradients or many passes.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    layers: Annotated[bool, typer.Option("--layers", help="Also what each layer contributes.")] = False,
    every: Annotated[bool, typer.Option("--list", help="Only say which measures and bounds there are.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Rescale the network at random: which measures are fooled?")
    ] = False,
    times: Annotated[int, typer.Option(help="Rescalings of --audit.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for measures.csv, measures.json and report.html.")] = Path(
        "truerisk-measures"
    ),
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Every complexity measure and classical bound of a network, and whether a rescaling fools it.

    Examples: truerisk measure
    | truerisk measure --list
    | truerisk measure --model net.py:build --weights w.safetensors --init seed:0 --data train.npz
    | truerisk measure --audit
    """
    from truerisk.cli import measure as command

    if every:
        command.show_list(json)
        return
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    options = command.Options(
        weights=weights,
        init=init,
        record=record,
        only=names,
        train=train,
        delta=delta,
        rows=rows,
        seed=seed,
        layers=layers,
        times=times if audit else None,
        out=out,
        data_dir=data_dir,
    )
    command.measure(model, data, options, json, quiet)


@data_app.command("list")
def data_list(data_dir: DataDir = None, json: Json = False) -> None:
    """What is here, what can be fetched, and where files are looked for. Example: truerisk data list"""
    from truerisk.cli import commands

    commands.data_list(data_dir, json)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar-10.")], data_dir: DataDir = None
) -> None:
    """Fetch a data set into the first folder of 'data list'. Example: truerisk data get mnist"""
    from truerisk.cli import commands

    commands.data_get(name, data_dir)


@lab_app.command("list")
def lab_list(json: Json = False) -> None:
    """The experiments, what they show, and the scales they run at. Example: truerisk lab list"""
    from truerisk.cli import lab

    lab.show_list(json)


@lab_app.command("run")
def lab_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Experiments, or Python files with one.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all experiments that come with truerisk.")] = False,
    scale: Annotated[str, typer.Option(help="smoke, quick, medium or paper: see 'lab list'.")] = "quick",
    engine: Annotated[
        str, typer.Option(help="local (processes), inline, or a Dask scheduler: tcp://host:port.")
    ] = "local",
    out: Annotated[str, typer.Option(help="Folder (or any fsspec path) for records and pages.")] = "runs",
    workers: Annotated[int | None, typer.Option(help="Local processes.", show_default="as many as cores")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run experiments, check their published claims, write a page for each and an index.

    Finished runs are kept in --out and found again: a command that was interrupted goes on where it was.

    Examples: truerisk lab run random-labels
    | truerisk lab run --all
    | truerisk lab run rademacher memorizer --engine tcp://127.0.0.1:8786
    """
    from truerisk.cli import lab

    try:
        lab.run(names or [], every, scale, engine, out, workers, json, quiet)
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept, and the same command goes on from there", file=sys.stderr)
        raise typer.Exit(130) from None
