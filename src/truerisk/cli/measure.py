"""``truerisk measure``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress, words
from truerisk.atomic import write_atomically
from truerisk.certificates.folder import refuse_certificate
from truerisk.cli.measured_network import Choice, load_network
from truerisk.errors import TrueriskError
from truerisk.names import OUTPUTS

if TYPE_CHECKING:
    from torch import nn

    from truerisk.measures import Measures, Subject
    from truerisk.measures.audit import Audit
    from truerisk.measures.trained import Network

TABLES = ("measures.csv", "measures.json", "comparison.csv", "comparison.json", "report.html")
RANDOM = "random-labels.safetensors"
OWN = ("compute", "key")  # of an entry, for the program alone


@dataclass(frozen=True)
class Options:
    """What was asked for, besides network and data."""

    init: str | None
    record: Path | None
    only: list[str] | None
    train: bool
    delta: float
    rows: int
    seed: int
    layers: bool
    times: int | None  # rescalings of an audit; None: no audit
    out: Path
    data_dir: Path | None
    outputs: str | None = None
    test: str | None = None  # held-out examples: data, or a share
    calibrate: bool = False
    full: bool = False  # print everything
    family: str | None = None  # print this family
    std: float = 1.0  # of the normal logarithms of an audit's factors

    @property
    def asked(self) -> dict[str, Any]:
        """The numbers to compute."""
        return {"only": self.only, "train": self.train, "delta": self.delta}


def show_list(json: bool) -> None:
    """All measures and bounds; no network and no data are needed."""
    from truerisk.cli import show_measures
    from truerisk.measures import BOUNDS, MEASURES

    if not json:
        show_measures.catalogue()
        return
    measures, bounds = (
        [
            {key: sorted(value) if key == "needs" else value for key, value in vars(entry).items() if key not in OWN}
            for entry in registry.values()
        ]
        for registry in (MEASURES, BOUNDS)
    )
    print(json_module.dumps({"measures": measures, "bounds": bounds}))


def measure(choices: list[Choice], data: str | None, options: Options, json: bool, quiet: bool) -> None:
    """Measure one network (or audit it), or compare two; write the files, print."""
    progress.enable(not quiet)
    _check(options, len(choices))
    try:
        options = _named(options)
        if len(choices) == 2:
            from truerisk.cli.compare import compare

            compare(choices, data, options, json, quiet)
        else:
            _measure(choices[0], data, options, json, quiet)
    except KeyboardInterrupt:
        print("stopped; nothing was written.", file=sys.stderr)
        sys.exit(130)


def _measure(choice: Choice, data: str | None, options: Options, json: bool, quiet: bool) -> None:
    from truerisk.cli import show_measures
    from truerisk.data import load
    from truerisk.measures.table import calibrated, costly, measure_network, subject_of

    network = load_network(choice, load("digits" if data is None else data, options.data_dir), options, quiet)
    settings: dict[str, Any] = {"rows": options.rows, "seed": options.seed}
    subject = subject_of(network, **settings)
    if not quiet and costly(options.only, options.train):
        _tell_cost(subject, runs=1 + (options.times or 0) + options.calibrate)
    audited = _audit(network, options) if options.times else None
    found = audited.before if audited else measure_network(network, subject=subject, **settings, **options.asked)
    found = calibrated(found, network, **settings, **options.asked) if options.calibrate else found
    facts = _facts(network, found, options)
    report = _write(network, subject, found, audited, facts, options, choice.weights)
    if json:
        print(json_module.dumps(_record(found, audited, facts), allow_nan=False))
    elif audited:
        show_measures.audit(audited, network.how, options.out, report, full=options.full or bool(options.only))
    else:
        shown = show_measures.Shown(options.delta, options.layers, options.full or bool(options.only), options.family)
        show_measures.measures(found, network.how, shown, options.out, report)


def _check(options: Options, networks: int) -> None:
    if not 0 < options.delta < 1:
        raise TrueriskError(f"delta is {options.delta}, but must be above 0 and below 1 (--delta).")
    if options.rows < 1:
        raise TrueriskError(f"--rows is {options.rows}, but must be at least 1.")
    if options.times is not None and options.times < 1:
        raise TrueriskError(f"--times is {options.times}, but must be at least 1; give the number of rescalings.")
    if not 0 < options.std < math.inf:
        raise TrueriskError(f"--std is {options.std:g}, but must be a positive number; try --std 1.")
    if options.std != 1 and options.times is None:
        raise TrueriskError(f"--std is {options.std:g}, but nothing is rescaled; add --audit.")
    if options.seed < 0:
        raise TrueriskError(f"the seed is {options.seed}, but must be an integer of at least 0; try --seed 0.")
    if options.out.exists() and not options.out.is_dir():
        raise TrueriskError(f"--out {options.out} is a file; give a folder.")
    if options.outputs not in (None, *OUTPUTS):
        raise TrueriskError(f"--outputs is {options.outputs}, but must be {' or '.join(OUTPUTS)}; choose one.")
    refuse_certificate(options.out, "give another --out")
    if options.calibrate and options.times is not None:
        raise TrueriskError("--calibrate and --audit are two questions; ask them one after the other.")
    if networks == 2 and (options.calibrate or options.times is not None):
        option = "--calibrate" if options.calibrate else "--audit"
        raise TrueriskError(f"{option} is about one network, but two are given; measure each of them alone.")
    if options.only == []:
        raise TrueriskError("--only is empty, but must name measures or bounds; try --only path-norm-l1.")
    if options.family is not None:
        _check_family(options.family)


def _named(options: Options) -> Options:
    """With today's names of the measures; a slip in a name is told before anything is trained."""
    from truerisk.measures.table import current, wanted

    if options.only is None:
        return options
    wanted(options.only, options.train)
    return replace(options, only=current(options.only))


def _check_family(family: str) -> None:
    from truerisk.measures import MEASURES

    if family not in {entry.family for entry in MEASURES.values()}:
        raise TrueriskError(f"there is no family {family}; truerisk measure --list shows all families.")


def _tell_cost(subject: Subject, runs: int) -> None:
    """One line, if it will take long; ``runs``: how often everything is measured."""
    from truerisk.measures.estimate import estimate

    found = estimate(subject)
    found = replace(found, seconds=runs * found.seconds)
    if found.seconds > progress.PATIENCE:
        print(found.sentence, file=sys.stderr)


def _audit(network: Network, options: Options) -> Audit:
    from truerisk.measures.audit import audit
    from truerisk.measures.observed import observe

    found = audit(
        network.module,
        network.data,
        network.init,
        record=network.record,
        times=options.times or 1,
        std=options.std,
        rows=options.rows,
        seed=options.seed,
        outputs=options.outputs,
        **options.asked,
    )
    observed = observe(network.module, network.data, network.test)
    return replace(found, before=replace(found.before, observed=observed))


def _facts(network: Network, found: Measures, options: Options) -> dict[str, str]:
    """How the numbers were made, in words."""
    data, test = network.data, network.test
    init = "given" if network.init is not None else "not given: nothing is measured from where training began"
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = any(isinstance(layer, _BatchNorm) for layer in network.module.modules())
    folded = "folded into the layers before it where that is possible; weights and counts are those of the result"
    return {
        "Network": network.name,
        "Weights": network.how,
        **({"Batch norm": folded} if norms else {}),
        "Initial weights": "kept from before the training" if network.trained_here else init,
        "Data": f"{data.name}: {len(data):,} examples, {data.classes} classes",
        "Held out": "no examples (--test)" if test is None else f"{test.name}: {len(test):,} examples",
        **({} if found.reference is None else {"Reference": found.reference.note}),
        "Sample": f"{min(options.rows, len(data)):,} examples, for what takes gradients or many passes",
        "Seed": str(options.seed),
        "delta": f"{words.delta(options.delta)}: the failure probability of each bound",
        "Precision": "float64, for the audit" if options.times else "the network's own; weights are read in float64",
        "Counts": f"{len(found.values)} measures, {len(found.bounds)} bounds, {len(found.skipped)} skipped",
    }


def _write(
    network: Network,
    subject: Subject,
    found: Measures,
    audited: Audit | None,
    facts: dict[str, str],
    options: Options,
    weights: Path | None,
) -> Path | None:
    """measures.csv, measures.json, report.html and, of networks that were trained here, their weights."""
    out = options.out
    remove_old(out, weights, options.init)
    if network.trained_here:
        assert network.init is not None
        save_weights(out / "network.safetensors", network.module)
        save_weights(out / "init.safetensors", network.init)
    if found.reference is not None:
        save_weights(out / RANDOM, found.reference.network.module)
    write_atomically(out / "measures.csv", found.csv().encode())
    record = json_module.dumps(_record(found, audited, facts), indent=1, allow_nan=False)
    write_atomically(out / "measures.json", record.encode())
    try:
        from truerisk.report import write_measures

        return write_measures(out / "report.html", found, subject, facts, audit=audited)
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


def remove_old(out: Path, *inputs: Path | str | None) -> None:
    """Remove the tables of an earlier run, and the random-label network that they are about unless it is an input.

    Other weights stay: they may be the user's own.
    """
    record = out / "measures.json"
    if '"random_labels": {' in (record.read_text(errors="replace") if record.is_file() else "") and not any(
        given is not None and Path(given).resolve() == (out / RANDOM).resolve() for given in inputs
    ):
        (out / RANDOM).unlink(missing_ok=True)
    for name in TABLES:
        (out / name).unlink(missing_ok=True)


def save_weights(path: Path, module: nn.Module) -> None:
    """Write the weights of a network."""
    from safetensors.torch import save

    state = {key: tensor.contiguous().clone() for key, tensor in module.state_dict().items()}
    write_atomically(path, save(state))


def _record(found: Measures, audited: Audit | None, facts: dict[str, str]) -> dict[str, Any]:
    return {"about": facts} | found.record() | ({} if audited is None else {"audit": audited.record()})
