"""Write ``benchmarks/certificates.md`` from the records: ``python -m benchmarks.certificates_table``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.certificates import DELTA
from truerisk.atomic import write_atomically
from truerisk.bounds import clopper_pearson
from truerisk.engine import Grid, Store, stored
from truerisk.lab.catalogue import load
from truerisk.words import bound, nats, seen

HERE = Path(__file__).parent
HEAD = """# Certificates

Made by `make certificates` from the records in `records/` (settings and numbers, no weights); running it again computes
only what is missing. Every certificate stands alone at delta 0.05 in total, all seeds are shown. A reader who picks the
smallest number of a row after the fact must pay for the choice, as `certify --method all` does. Bounds and KLs are
rounded up, test errors to the nearest.

* **floor**: the hold-out bound (Clopper-Pearson) of the network trained on the prior's rows, tested on the certifying
  rows, at the split that was fixed beforehand; for data-free priors, a network trained on four fifths of the data.
* **best of splits**: for each seed the smallest hold-out bound of all splits that were tried, here 0.8 and 0.96 (the
  last network of progressive validation saw four fifths of the certifying rows and was tested on the last fifth):
  optimistic, because the choice is not paid for.
* **test**: the error of exactly the certified predictor on the official test set, which nothing here was chosen on. A
  certificate speaks of new rows from where the certifying ones came from. The test set of Fashion-MNIST seems to be a
  little harder: a nearest-neighbour classifier of 50,000 training rows, which has nothing to do with this project, is
  wrong on 14.5 % of the 10,000 others and on 15.2 % of the test set, and all three networks here err more on the test
  set than on the certifying rows (one of them more than its certificate says).
* **No data set aside**: the networks were chosen among fewer than 32 with a look at the same data, and each of these
  certificates pays for 32 choices; a short file also for 64 codes. The convnets were trained for 40 epochs (files at
  the usual price of a bit), `mirrored-cosnet` for 40 at half that price, `cosnet` for 12. The best of splits stands
  for all networks that were tried on the data, the residual ones of the first table included.
* **To be made again**: the records of PAC-Bayes and of single draws are of format 2, in which the seed alone decided
  the draws; the floors of the second table use the full delta where the certificates share it among 32.
* **KL** in nats, after rescaling; none for methods without a prior.
"""
PARTS = {
    "split": "Networks trained on 80 % of the data",
    "data-free": "No data set aside (data-free prior)",
}


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(all records that are there, flat: one row for each certificate; the settings that were not run yet)."""
    experiment = load(str(HERE / "certificates.py"))
    settings = experiment.settings("paper")
    grid = Grid(experiment.name, experiment.task, settings, experiment.version, experiment.cost)
    found = stored(grid, Store(HERE / "records"))
    done = [each.setting for each in found]
    flat = [{**each.setting, **entry} for each in found for entry in each.record["certificates"]]
    return flat, [setting for setting in settings if setting not in done]


def write() -> Path:
    """The whole file."""
    everything, missing = rows()
    text = [HEAD, *_missing(missing)]
    for part, title in PARTS.items():
        text.append(f"## {title}\n")
        text += _part(everything, part)
    text.append("## Progressive validation against the hold-out, paired by seed\n")
    text += _paired([row for row in everything if row["part"] in ("paired", "split")])
    path = HERE / "certificates.md"
    write_atomically(path, ("\n".join(text) + "\n").encode())
    return path


def _missing(settings: list[dict[str, Any]]) -> list[str]:
    """What a reader must know is not there."""
    if not settings:
        return []
    groups = [f"{part} {data} ({len(group)})" for (part, data), group in _groups(settings, "part", "data")]
    return [f"**Not run yet** (part, data, number of seeds): {', '.join(groups)}.\n"]


def hold_outs(rows: list[dict[str, Any]], like: dict[str, Any]) -> list[float]:
    """The hold-out bounds of a network at all splits; the last one of progressive validation is at one, too.

    A certificate without data set aside has no splits of its own: its rivals are all networks on the same data.
    """
    same = ("data", "n", "seed") if like["part"] == "data-free" else ("data", "n", "seed", "model")
    rows = [r for r in rows if all(r[name] == like[name] for name in same)]
    found = [r["risk_bound"] for r in rows if r["method"] == "hold-out"]
    for row in rows:
        if row["method"] == "progressive":
            blocks = sum(name.startswith("block") for name in row["counts"])
            found.append(clopper_pearson(row["counts"][f"block {blocks}"], row["n_certify"] // blocks, DELTA))
    return found


def _part(everything: list[dict[str, Any]], part: str) -> list[str]:
    lines = [
        "| data | network | method | certificate, each seed | mean ± spread | floor | best of splits | test | KL |",
        "|" + "---|" * 9,
    ]
    found = [row for row in everything if row["part"] == part]
    for (data, model, method), group in _groups(found, "data", "model", "method"):
        bounds = [row["risk_bound"] for row in group]
        cells = (
            data,
            model,
            f"{method} ({group[0]['predictor']})",
            " ".join(map(bound, bounds)),
            _spread(bounds),
            _mean(bound, (row["floor"] for row in group)),
            _mean(bound, (min(hold_outs(everything, row), default=None) for row in group)),
            _mean(seen, (row["test_error"] for row in group)),
            _mean(nats, (row["kl"] for row in group)),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _paired(part: list[dict[str, Any]]) -> list[str]:
    """Progressive minus hold-out for the same first network; the best split of the hold-out is an optimistic rival."""
    lines = [
        "Difference of the bounds (progressive minus hold-out from the same first network), mean over seeds with its "
        "standard error; below 0 progressive validation wins. The last column compares with the best of splits for "
        "each seed (0.5, 0.8 and the last networks of progressive validation, 0.9 and 0.96, as far as they were "
        "run): optimistic, because that choice is not paid for.\n",
        "| data | n | split | seeds | hold-out | progressive | difference | wins | against the best split |",
        "|" + "---|" * 9,
    ]
    for (data, n, prior), group in _groups(part, "data", "n", "prior"):
        bounds = {
            m: {r["seed"]: r["risk_bound"] for r in group if r["method"] == m} for m in ("hold-out", "progressive")
        }
        seeds = sorted(bounds["hold-out"].keys() & bounds["progressive"].keys())
        if not seeds:
            continue
        hold, ours = ([bounds[m][s] for s in seeds] for m in ("hold-out", "progressive"))
        best = [min(hold_outs(part, row)) for row in group if row["method"] == "hold-out" and row["seed"] in seeds]
        gaps = [a - b for a, b in zip(ours, hold, strict=True)]
        cells = (
            data,
            "all" if n is None else f"{n:,}",
            prior,
            str(len(seeds)),
            _spread(hold),
            _spread(ours),
            _difference(gaps),
            f"{sum(g < 0 for g in gaps)} of {len(gaps)}",
            _difference([a - b for a, b in zip(ours, best, strict=True)]),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _groups(part: list[dict[str, Any]], *names: str) -> Iterable[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in part:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return ((key, sorted(group, key=lambda r: r["seed"])) for key, group in groups.items())


def _mean(text: Callable[[float], str], values: Iterable[float | None]) -> str:
    known = [v for v in values if v is not None]
    return text(statistics.mean(known)) if known else ""


def _spread(values: list[float]) -> str:
    """Mean (rounded up: of bounds) and standard deviation over seeds."""
    return bound(statistics.mean(values)) + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def _difference(values: list[float]) -> str:
    """Mean and its standard error."""
    error = f" ± {statistics.stdev(values) / math.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):+.4f}{error}"


if __name__ == "__main__":
    print(write())
