"""``truerisk measure``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress, words
from truerisk.atomic import write_atomically
from truerisk.certificates.folder import refuse_certificate
from truerisk.errors import TrueriskError
from truerisk.names import OUTPUTS

if TYPE_CHECKING:
    from torch import nn

    from truerisk.data import Data
    from truerisk.measures import Measures, Subject
    from truerisk.measures.audit import Audit
    from truerisk.measures.trained import Network
    from truerisk.nets import Architecture


@dataclass(frozen=True)
class Options:
    """What was asked for, besides network and data."""

    weights: Path | None
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


def show_list(json: bool) -> None:
    """All measures and bounds; no network and no data are needed."""
    from truerisk.cli import show_measures
    from truerisk.measures import BOUNDS, MEASURES

    if not json:
        show_measures.catalogue()
        return
    measures, bounds = (
        [
            {key: sorted(value) if key == "needs" else value for key, value in vars(entry).items() if key != "compute"}
            for entry in registry.values()
        ]
        for registry in (MEASURES, BOUNDS)
    )
    print(json_module.dumps({"measures": measures, "bounds": bounds}))


def measure(model: str | None, data: str | None, options: Options, json: bool, quiet: bool) -> None:
    """Measure (or audit), write the files, print."""
    progress.enable(not quiet)
    _check(options)
    try:
        _measure(model, data, options, json, quiet)
    except KeyboardInterrupt:
        print("stopped; nothing was written.", file=sys.stderr)
        sys.exit(130)


def _measure(model: str | None, data: str | None, options: Options, json: bool, quiet: bool) -> None:
    from truerisk.cli import show_measures
    from truerisk.data import load
    from truerisk.measures import Subject
    from truerisk.measures.table import costly, measure_subject, wanted

    wanted(options.only, options.train)  # a slip in a name is told before anything is trained
    network = _network(model, load("digits" if data is None else data, options.data_dir), options, quiet)
    loaded = network.data
    settings: dict[str, Any] = {"record": network.record, "rows": options.rows, "seed": options.seed}
    subject = Subject(network.module, loaded, network.init, **settings)
    if not quiet and costly(options.only, options.train):
        _tell_cost(subject, runs=1 + (options.times or 0))
    audited = _audit(network, loaded, options, settings) if options.times else None
    found = audited.before if audited else measure_subject(
        subject, only=options.only, train=options.train, delta=options.delta
    )  # fmt: skip
    facts = _facts(network, loaded, found, options)
    report = _write(network, subject, found, audited, facts, options)
    if json:
        print(json_module.dumps(_record(found, audited, facts), allow_nan=False))
    elif audited:
        show_measures.audit(audited, network.how, options.out, report)
    else:
        show_measures.measures(found, network.how, options.delta, options.layers, options.out, report)


def _check(options: Options) -> None:
    if not 0 < options.delta < 1:
        raise TrueriskError(f"delta is {options.delta}, but must be above 0 and below 1 (--delta).")
    if options.rows < 1:
        raise TrueriskError(f"--rows is {options.rows}, but must be at least 1.")
    if options.times is not None and options.times < 1:
        raise TrueriskError(f"--times is {options.times}, but must be at least 1.")
    if options.seed < 0:
        raise TrueriskError(f"the seed is {options.seed}, but must be a whole number that is not negative.")
    if options.out.exists() and not options.out.is_dir():
        raise TrueriskError(f"--out {options.out} is a file; give a folder.")
    if options.outputs not in (None, *OUTPUTS):
        raise TrueriskError(f"--outputs is {options.outputs}, but must be {' or '.join(OUTPUTS)}; choose one.")
    refuse_certificate(options.out, "give another --out")
    if options.init is not None and options.weights is None:
        raise TrueriskError("--init says where the training of --weights began: give --weights FILE too.")


def _network(model: str | None, data: Data, options: Options, quiet: bool) -> Network:
    """The network with its weights from a file, or as the module came, or trained now."""
    from truerisk.measures.trained import as_it_came, train, training_plan
    from truerisk.nets import MODULE, architecture, fitted, load_weights

    arch = architecture(model, data.input_shape, data.classes, trust_factory=True)
    record = {} if options.record is None else _read_record(options.record)
    if options.weights is not None:
        module = arch.template()
        load_weights(module, options.weights)
        init = None if options.init is None else _initial(arch, options.init)
        how = f"Its weights are those of {options.weights}."
        return as_it_came(arch.name, module, data, init, record, options.outputs, how)
    if arch.kind == MODULE:
        return as_it_came(arch.name, arch.template(), data, None, record, options.outputs)
    arch, data = fitted(arch, data, options.outputs)
    plan = training_plan(arch, data, options.seed)
    if not quiet:
        print(f"no --weights: {arch.name} is trained first, for up to {plan.epochs} epochs", file=sys.stderr)
    return train(arch, data, plan, record=record, rows=options.rows)


def _initial(arch: Architecture, init: str) -> nn.Module:
    """The network as it was before training: from a file, or built again from a seed ("seed:7")."""
    from truerisk.nets import load_weights

    kind, _, seed = init.partition(":")
    if kind == "seed":
        if not seed.isdecimal():
            raise TrueriskError(f"--init {init} is no seed; give seed:N with a whole number, or a file of weights.")
        return arch.build(int(seed))
    module = arch.template()
    load_weights(module, init)
    return module


def _read_record(path: Path) -> dict[str, Any]:
    try:
        content = json_module.loads(path.read_text())
    except OSError as error:
        raise TrueriskError(f"the record {path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise TrueriskError(f"the record {path} is no JSON file ({error}).") from error
    if not isinstance(content, dict):
        raise TrueriskError(f"the record {path} holds no JSON object; docs/measures says which names it may have.")
    return content


def _tell_cost(subject: Subject, runs: int) -> None:
    """One line, if it will take long; ``runs``: how often everything is measured."""
    from truerisk.measures.estimate import estimate

    found = estimate(subject)
    found = replace(found, seconds=runs * found.seconds)
    if found.seconds > progress.PATIENCE:
        print(found.sentence, file=sys.stderr)


def _audit(network: Network, data: Data, options: Options, settings: dict[str, Any]) -> Audit:
    from truerisk.measures.audit import audit

    return audit(
        network.module,
        data,
        network.init,
        times=options.times or 1,
        only=options.only,
        train=options.train,
        delta=options.delta,
        outputs=options.outputs,
        **settings,
    )


def _facts(network: Network, data: Data, found: Measures, options: Options) -> dict[str, str]:
    """How the numbers were made, in words."""
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
        "Sample": f"{min(options.rows, len(data)):,} examples, for what takes gradients or many passes",
        "Seed": str(options.seed),
        "delta": f"{words.delta(options.delta)}: the probability with which each single bound may fail",
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
) -> Path | None:
    """measures.csv, measures.json, report.html and, of a network that was trained here, its weights."""
    out = options.out
    if network.trained_here:
        from safetensors.torch import save

        assert network.init is not None
        for name, module in (("network", network.module), ("init", network.init)):
            state = {key: tensor.contiguous().clone() for key, tensor in module.state_dict().items()}
            write_atomically(out / f"{name}.safetensors", save(state))
    write_atomically(out / "measures.csv", found.csv().encode())
    record = json_module.dumps(_record(found, audited, facts), indent=1, allow_nan=False)
    write_atomically(out / "measures.json", record.encode())
    try:
        from truerisk.report import write_measures

        return write_measures(out / "report.html", found, subject, facts, audit=audited)
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


def _record(found: Measures, audited: Audit | None, facts: dict[str, str]) -> dict[str, Any]:
    return {"about": facts} | found.record() | ({} if audited is None else {"audit": audited.record()})
