"""``truerisk tighten``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from truerisk import progress
from truerisk.cli.tighten_options import PAGE, Choice, Options, scale
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from torch import nn

    from truerisk.data import Data
    from truerisk.nets import Architecture
    from truerisk.pacbayes import RescalingReport, Walked

NONE = Path()  # in place of a file: certify does not take the network
FULL = 6  # networks that are told in full; of more, the table has the numbers


def tighten(options: Options, json: bool, quiet: bool) -> None:
    """Report on each network, write the page, print."""
    progress.enable(not quiet)
    options.check()
    choices = options.choices
    try:
        with _options_as_typed():
            reports, commands = _reports(choices, options)
        page = _write(reports, commands, options)
    except KeyboardInterrupt:
        print("stopped; no page was written.", file=sys.stderr)  # weights of a trained network may be there
        sys.exit(130)
    if json:
        networks = [
            {**report.to_json(), "certify": " ".join(command) or None}
            for report, command in zip(reports, commands, strict=True)
        ]
        print(json_module.dumps({"networks": networks}, allow_nan=False))
        return
    from truerisk.cli.show_tighten import lines

    ordered = sorted(zip(reports, commands, strict=True), key=lambda each: each[0].weights)
    print("\n".join(lines([r for r, _ in ordered], [c for _, c in ordered], page, FULL)))


@contextmanager
def _options_as_typed() -> Iterator[None]:
    """Errors of the library about standard deviations, in the words of the command line."""
    try:
        yield
    except TrueriskError as error:
        told = re.sub(r"^sigma_([qp]) ", r"--sigma-\1 ", str(error))
        raise TrueriskError(told.replace('the entry "" for all the rest', "=S for all the rest")) from error


def _reports(choices: list[Choice], options: Options) -> tuple[list[RescalingReport], list[list[str]]]:
    """The reports, and the commands that certify the same networks."""
    from truerisk.data import load
    from truerisk.pacbayes import rescaling_report

    data = load(options.data, options.data_dir)
    networks = [_network(choice, data, options) for choice in choices]  # a slip in any of them is told before the work
    reports = [
        rescaling_report(
            network,
            data,
            scale(options.sigma_q, "--sigma-q"),
            scale(options.sigma_p, "--sigma-p"),
            delta=options.delta,
            form=options.form,
            draws=options.draws,
            lifted=options.lifted,
            seed=options.seed,
            name=choice.name,
            outputs=options.outputs,
        )
        for choice, (network, _) in zip(choices, networks, strict=True)
    ]
    commands = [
        options.certify(choice, weights) if weights != NONE and not report.best.statistics else []
        for choice, (_, weights), report in zip(choices, networks, reports, strict=True)
    ]
    return reports, commands


def _network(choice: Choice, data: Data, options: Options) -> tuple[nn.Module, Path | None]:
    """The trained network, and the file with its weights for certify: None if it needs none, NONE if it takes none.

    A built-in network without weights is trained first. A factory that loads weights is nothing for certify, which must
    be able to build new networks.
    """
    from truerisk.nets import BUILTIN, MODULE, architecture, load_weights
    from truerisk.nets.learnt import ignores_seed

    arch = architecture(choice.model, data.input_shape, data.classes, trust_factory=True)
    module = arch.template()
    if choice.weights is not None:
        load_weights(module, choice.weights)
        return module, choice.weights
    if arch.kind == BUILTIN:
        return _trained(arch, data, options, options.out / f"weights-{options.slug(choice)}.safetensors")
    if arch.kind != MODULE and not ignores_seed(module, arch.build(1)):
        raise TrueriskError(
            f"the model {choice.model} comes with random weights, not trained ones; give --weights FILE."
        )
    return module, None if arch.kind == MODULE else NONE


def _trained(arch: Architecture, data: Data, options: Options, file: Path) -> tuple[nn.Module, Path]:
    """A built-in network, trained on all examples; its weights are written, so that they can be certified."""
    from safetensors.torch import save

    from truerisk.atomic import write_atomically
    from truerisk.measures.trained import training_plan
    from truerisk.threads import limited, threads_for
    from truerisk.training import fit

    plan = training_plan(arch.name, data, options.seed)
    progress.note(f"no --weights: {arch.name} is trained first; its weights go to {file}.")
    module = arch.build(plan.seed)
    with limited(threads_for(module, data.X)):
        fit(module, data, plan)
    write_atomically(file, save({name: tensor.contiguous() for name, tensor in module.state_dict().items()}))
    return module, file


def _walk(report: RescalingReport, seed: int) -> Walked:
    """The walk; an empty one with a note where its rescalings leave the range of floats."""
    from truerisk.pacbayes import Walked

    try:
        return report.walk(seed)
    except TrueriskError as error:
        progress.note(f"the page has no walk for {report.name}: {error}")
        return Walked((), ())


def _write(reports: list[RescalingReport], commands: list[list[str]], options: Options) -> Path | None:
    """The page, or a note where the extra that draws it is not installed."""
    from truerisk.report.extra import extra

    try:
        extra("jinja2")
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None
    from truerisk.report import write_tighten
    from truerisk.report.tighten import Shown

    order = sorted(range(len(reports)), key=lambda number: reports[number].weights)
    shown = [
        Shown(
            reports[number], " ".join(commands[number]), _walk(reports[number], options.seed) if place < FULL else None
        )
        for place, number in enumerate(order)
    ]
    return write_tighten(options.out / PAGE, shown, options.command)
