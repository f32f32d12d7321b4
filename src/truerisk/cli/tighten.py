"""``truerisk tighten``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from truerisk import progress
from truerisk.cli.tighten_options import PAGE, Choice, Options, scale
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from torch import nn

    from truerisk.data import Data
    from truerisk.pacbayes import RescalingReport, Walked

FULL = 6  # networks that are told in full; of more, the table has the numbers


def tighten(options: Options, json: bool, quiet: bool) -> None:
    """Report on each network, write the page, print."""
    progress.enable(not quiet)
    options.check()
    choices = options.choices
    try:
        reports, commands = _reports(choices, options)
        page = _write(reports, commands, options)
    except KeyboardInterrupt:
        print("stopped; nothing was written.", file=sys.stderr)
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


def _reports(choices: list[Choice], options: Options) -> tuple[list[RescalingReport], list[list[str]]]:
    """The reports, and the commands that certify the same networks."""
    from truerisk.data import load
    from truerisk.pacbayes import rescaling_report

    data = load(options.data, options.data_dir)
    networks = [_network(choice, data) for choice in choices]  # a slip in any of them is told before the work
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
        options.certify(choice) if certifiable and not report.best.statistics else []
        for choice, (_, certifiable), report in zip(choices, networks, reports, strict=True)
    ]
    return reports, commands


def _network(choice: Choice, data: Data) -> tuple[nn.Module, bool]:
    """The network with the weights of its file, or with those that it comes with; and whether certify takes it.

    A factory that loads weights is nothing for certify, which must be able to build new networks.
    """
    from truerisk.nets import MODULE, architecture, load_weights
    from truerisk.nets.learnt import ignores_seed

    arch = architecture(choice.model, data.input_shape, data.classes, trust_factory=True)
    module = arch.template()
    if choice.weights is not None:
        load_weights(module, choice.weights)
    elif arch.kind != MODULE and not ignores_seed(module, arch.build(1)):
        raise TrueriskError(
            f"the model {choice.model} comes with random weights, not trained ones; give --weights FILE."
        )
    return module, choice.weights is not None or arch.kind == MODULE


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
