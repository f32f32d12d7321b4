"""Write the reference zoo of ``truerisk measure`` from stored runs: ``python -m benchmarks.zoo RUNS``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

import truerisk.measures
from truerisk.atomic import write_atomically
from truerisk.engine import Grid, Store, stored
from truerisk.lab.catalogue import load
from truerisk.lab.experiments.predictiveness import CLEAR, HYPER, predictions
from truerisk.lab.rows import Rows
from truerisk.measures import measure
from truerisk.measures.prediction import Score, power, rank
from truerisk.measures.zoo import significant

SCALE = "quick"
FILE = Path(truerisk.measures.__file__).parent / "zoo.json"
Networks = list[dict[str, Any]]


def write(runs: str, scale: str = SCALE) -> tuple[Path, int]:
    """The file, and how many networks it holds."""
    experiment = load("predictiveness")
    grid = Grid(experiment.name, experiment.task, experiment.settings(scale), experiment.version, experiment.cost)
    found = [{**done.setting, **done.record} for done in stored(grid, Store(runs))]
    networks = predictions(Rows(found))
    content = {"about": about(networks, len(found), scale, found[0]), "measures": measures(networks)}
    text = json.dumps(content, separators=(",", ":")).replace('},"', '},\n"')
    write_atomically(FILE, f"{text}\n".encode())
    return FILE, len(networks)


def about(networks: Networks, trained: int, scale: str, first: dict[str, Any]) -> dict[str, Any]:
    """What the zoo is, and how far its gaps lie apart."""
    gaps = [one["gap"] for one in networks]
    tells = [power(zoo) for zoo in _zoos(networks)]
    return {
        "experiment": "predictiveness",
        "scale": scale,
        "networks": len(networks),
        "trained": trained,
        "zoos": len(tells),
        "data": first["data"],
        "examples": first["n"],
        "hyper": {name: sorted({one["hyper"][name] for one in networks}) for name in HYPER},
        "gap": [significant(min(gaps)), significant(max(gaps))],
        "gap_sd": significant(float(np.std(gaps, ddof=1))),
        "noise": significant(float(np.mean([known.noise for known in tells if known.noise is not None]))),
        "moves": {name: significant(float(np.mean([known.moves[name] for known in tells]))) for name in HYPER},
        "clear": sum(known.tells(CLEAR) for known in tells),
    }


def measures(networks: Networks) -> dict[str, dict[str, Any]]:
    """Of each measure its sorted values, and granulated tau with its 95% interval over zoos (Student's t)."""
    logarithms = _logarithms()
    scores: dict[str, list[Score]] = {}
    for zoo in _zoos(networks):
        for score in rank(zoo):
            scores.setdefault(score.name, []).append(score)
    return {name: {"log": name in logarithms} | _one(name, networks, some) for name, some in sorted(scores.items())}


def _logarithms() -> set[str]:
    """The measures whose logarithm is stored: those that are computed as one."""
    found = [measure(f"mlp:{hidden}", "digits", rows=50).values for hidden in ("128", "64-64-64")]
    return {name for values in found for name, value in values.items() if value.log is not None}


def _one(name: str, networks: Networks, scores: Sequence[Score]) -> dict[str, Any]:
    values = sorted(significant(v) for one in networks if (v := one["measures"].get(name)) is not None)
    found: dict[str, Any] = {"values": values, "missing": len(networks) - len(values)}
    taus = [score.granulated for score in scores if score.granulated is not None]
    if len(taus) < 2:
        return found
    mean, half = float(np.mean(taus)), float(t.ppf(0.975, len(taus) - 1) * np.std(taus, ddof=1) / math.sqrt(len(taus)))
    ends = {"tau": round(mean, 3), "low": round(mean - half, 3), "high": round(mean + half, 3)}
    return found | ends | {"steady": _steady(scores, math.copysign(1.0, mean))}


def _steady(scores: Sequence[Score], sign: float) -> bool:
    """Whether tau has this sign for every hyperparameter that varies, on average over zoos."""
    each = [[score.psi.get(name) for score in scores] for name in HYPER]
    return all(all(v is not None for v in values) and sign * np.mean(values) > 0 for values in each)  # type: ignore[arg-type]


def _zoos(networks: Networks) -> list[Networks]:
    """The networks of each seed."""
    return [[one for one in networks if one["seed"] == seed] for seed in sorted({one["seed"] for one in networks})]


if __name__ == "__main__":
    path, count = write(sys.argv[1] if len(sys.argv) > 1 else "runs")
    print(f"{path}: {count} networks, {path.stat().st_size:,} bytes")
