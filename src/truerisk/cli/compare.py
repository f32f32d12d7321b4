"""``truerisk measure A B``: two networks side by side."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.atomic import write_atomically
from truerisk.cli.measured_network import Choice, load_network
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from truerisk.cli.measure import Options
    from truerisk.measures.compare import Comparison
    from truerisk.measures.trained import Network


def compare(choices: list[Choice], data: str | None, options: Options, json: bool, quiet: bool) -> None:
    """Measure both networks, write the files, print."""
    from truerisk.cli import show_compare
    from truerisk.data import load
    from truerisk.measures.compare import compare_measures
    from truerisk.measures.table import measure_network

    examples = load("digits" if data is None else data, options.data_dir)
    networks = [load_network(choice, examples, options, quiet) for choice in choices]
    settings: dict[str, Any] = {"rows": options.rows, "seed": options.seed}
    one, two = (measure_network(network, **settings, **options.asked) for network in networks)
    found = compare_measures(one, two, (choices[0].name, choices[1].name))
    facts = _facts(networks, found, options)
    report = _write(networks, found, facts, options, [choice.weights for choice in choices])
    if json:
        print(json_module.dumps({"about": facts} | found.record(), allow_nan=False))
    else:
        show_compare.comparison(found, options.full or bool(options.only), options.family, options.out, report)


def _facts(networks: list[Network], found: Comparison, options: Options) -> dict[str, str]:
    """How the numbers were made, in words."""
    one, data = networks[0], networks[0].data
    return {
        "A": f"{found.names[0]}. {networks[0].how}",
        "B": f"{found.names[1]}. {networks[1].how}",
        "Data": f"{data.name}: {len(data):,} examples, {data.classes} classes",
        "Held out": "no examples (--test)" if one.test is None else f"{one.test.name}: {len(one.test):,} examples",
        "Seed": str(options.seed),
    }


def _write(
    networks: list[Network], found: Comparison, facts: dict[str, str], options: Options, given: list[Path | None]
) -> Path | None:
    """comparison.csv, comparison.json, report.html and, of networks that were trained here, their weights."""
    from truerisk.cli.measure import remove_old, save_weights

    out = options.out
    remove_old(out, *given, options.init)
    for side, network in zip("ab", networks, strict=True):
        if network.trained_here:
            save_weights(out / f"{side}.safetensors", network.module)
    write_atomically(out / "comparison.csv", found.csv().encode())
    record = json_module.dumps({"about": facts} | found.record(), indent=1, allow_nan=False)
    write_atomically(out / "comparison.json", record.encode())
    try:
        from truerisk.report import write_comparison

        return write_comparison(out / "report.html", found, facts)
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None
