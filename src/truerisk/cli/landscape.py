"""``truerisk landscape``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import math
import os
import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress
from truerisk.atomic import write_atomically
from truerisk.certificates.folder import refuse_certificate
from truerisk.certificates.given import quoted
from truerisk.errors import TrueriskError
from truerisk.names import OUTPUTS
from truerisk.progress import printable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from truerisk.data import Data
    from truerisk.landscape import Landscape, Reading
    from truerisk.nets import Architecture

KINDS = ("random", "line", "hessian", "pca")
DIRECTIONS = ("filter", "filter-weights", "elementwise", "none")
DEMO = {"digits": "mlp:64-64"}  # two hidden layers: rows and columns are rescaled
PAGE, RECORD, WEIGHTS = "landscape.html", "landscape.json", "network.safetensors"
WORK = ".work"
MOST_CHECKPOINTS = 60  # that are kept of a training
LEAST, MOST = 60, 100  # letters of a line in the terminal


@dataclass(frozen=True)
class Options:
    """The options as given; `check` refuses bad ones before torch is loaded."""

    data: str | None
    model: str | None
    weights: Path | None
    plane: str
    planes: int
    size: int
    reach: float | None
    directions: str
    trajectory: tuple[Path, ...]
    std: float
    rows: int
    workers: int | None
    seed: int
    out: Path
    outputs: str | None
    data_dir: Path | None

    def check(self) -> None:
        if self.plane not in KINDS:
            raise TrueriskError(f"--plane is {self.plane!r}, but must be one of {', '.join(KINDS)}; choose one.")
        if self.directions not in DIRECTIONS:
            raise TrueriskError(f"--directions is {self.directions!r}, but must be one of {', '.join(DIRECTIONS)}.")
        if not 1 <= self.planes <= 50:
            raise TrueriskError(f"--planes is {self.planes}, but must be from 1 to 50; try --planes 3.")
        if not 3 <= self.size <= 301 or self.size % 2 == 0:
            raise TrueriskError(f"--size is {self.size}, but must be an odd number from 3 to 301; try --size 51.")
        if self.reach is not None and not 0 < self.reach < math.inf:
            raise TrueriskError(f"--reach is {self.reach:g}, but must be a positive number; try --reach 1.")
        if not 0 < self.std < math.inf:
            raise TrueriskError(f"--std is {self.std:g}, but must be a positive number; try --std 1.")
        if self.rows < 1:
            raise TrueriskError(f"--rows is {self.rows}, but must be at least 1; try --rows 500.")
        if self.workers is not None and self.workers < 1:
            raise TrueriskError(f"--workers is {self.workers}, but must be at least 1; leave it out for all cores.")
        if self.seed < 0:
            raise TrueriskError(f"the seed is {self.seed}, but must be an integer of at least 0; try --seed 0.")
        if self.outputs not in (None, *OUTPUTS):
            raise TrueriskError(f"--outputs is {self.outputs}, but must be {' or '.join(OUTPUTS)}; choose one.")
        self._check_files()

    def _check_files(self) -> None:
        if self.out.exists() and not self.out.is_dir():
            raise TrueriskError(f"--out {self.out} is a file, but must be a folder; give another path.")
        above = next((each for each in (self.out, *self.out.parents) if each.exists()), Path())
        if not (above.is_dir() and os.access(above, os.W_OK)):  # before the work, which can take minutes
            raise TrueriskError(f"--out {self.out} cannot be made, because {above} is read-only; give another path.")
        refuse_certificate(self.out, "give another --out")
        given = [*self.trajectory, *([] if self.weights is None else [self.weights])]
        missing = next((each for each in given if not each.is_file()), None)
        if missing is not None:
            raise TrueriskError(f"the weights file {missing} does not exist; check the path.")
        if self.trajectory and self.plane != "pca":
            raise TrueriskError("--trajectory is the path of a pca plane; add --plane pca.")
        if self.plane == "pca" and len(self.trajectory) < 2 and (self.trajectory or self.weights is not None):
            raise TrueriskError(f"--trajectory names {len(self.trajectory)} checkpoints, but must name at least 2.")

    @property
    def command(self) -> str:
        """The command that makes the page again."""
        given: dict[str, Any] = {
            "--data": self.data, "--model": self.model, "--weights": self.weights,
            "--plane": self.plane if self.plane != "random" else None,
            "--planes": self.planes if self.planes != 3 else None, "--size": self.size if self.size != 51 else None,
            "--reach": self.reach, "--directions": self.directions if self.directions != "filter" else None,
            "--std": self.std if self.std != 1 else None, "--rows": self.rows if self.rows != 500 else None,
            "--seed": self.seed or None, "--outputs": self.outputs, "--data-dir": self.data_dir,
        }  # fmt: skip
        words = ["truerisk", "landscape"]
        words += [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        words += [word for file in self.trajectory for word in ("--trajectory", str(file))]
        return " ".join(map(quoted, words))


def landscape(options: Options, json: bool, quiet: bool) -> None:
    """Compute the surfaces, write the files, print."""
    progress.enable(not quiet)
    options.check()
    try:
        found, facts = _explored(options)
    except KeyboardInterrupt:
        print("stopped; run the same command again to resume.", file=sys.stderr)
        sys.exit(130)
    record = {"about": facts, **found.record()}
    write_atomically(options.out / RECORD, json_module.dumps(record, allow_nan=False).encode())
    shutil.rmtree(options.out / WORK, ignore_errors=True)
    page = _page(found, facts, options)
    if json:
        print(json_module.dumps(record, allow_nan=False))
    else:
        print("\n".join(_lines(found, facts, page)))


def _explored(options: Options) -> tuple[Landscape, dict[str, str]]:
    from truerisk.data import load
    from truerisk.landscape import explore
    from truerisk.nets import adapted, architecture

    data = load(options.data or "digits", options.data_dir)
    arch = architecture(options.model or DEMO.get(data.name), data.input_shape, data.classes, trust_factory=True)
    module, path, how = _network(arch, data, options)
    own, taken = adapted(module, data, options.outputs)
    found = explore(
        own, taken, plane=options.plane, planes=options.planes, size=options.size, reach=options.reach,
        directions=options.directions, trajectory=_named(path, module, own), rows=options.rows, std=options.std,
        seed=options.seed, workers=options.workers, store=options.out / WORK,
    )  # fmt: skip
    facts = {
        "Network": arch.name,
        "Weights": how,
        "Data": f"{data.name}: {len(data):,} examples, {data.classes} classes; the loss is computed on "
        f"{found.examples:,} of them",
        "Plane": options.plane,
        "Directions": options.directions if options.plane in ("random", "line") else "of the plane itself",
        "Grid": " x ".join(f"{len(side):,}" for side in (found.pairs[0].network.x, found.pairs[0].network.y)),
        "Seed": str(options.seed),
    }
    return found, facts


def _network(arch: Architecture, data: Data, options: Options) -> tuple[nn.Module, list[dict[str, Tensor]], str]:
    """(the network, its path of checkpoints, a sentence about its weights)."""
    from truerisk.nets import MODULE, load_weights
    from truerisk.nets.learnt import ignores_seed

    if options.weights is not None or arch.kind == MODULE:
        module = arch.template()
        if options.weights is not None:
            load_weights(module, options.weights)
        how = "as the module came" if options.weights is None else f"from {printable(str(options.weights))}"
        return module, [_checkpoint(arch, file) for file in options.trajectory], how
    if options.trajectory:
        raise TrueriskError("--trajectory names checkpoints, but no --weights at their end; give --weights FILE.")
    if arch.kind != MODULE and ignores_seed(arch.template(), arch.build(1)):
        return arch.template(), [], "as the factory gave them"
    return _trained(arch, data, options)


def _checkpoint(arch: Architecture, file: Path) -> dict[str, Tensor]:
    from truerisk.nets import load_weights

    module = arch.template()
    load_weights(module, file)
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def _trained(arch: Architecture, data: Data, options: Options) -> tuple[nn.Module, list[dict[str, Tensor]], str]:
    """Trained on all examples, with checkpoints at even distances; its weights are written."""
    from safetensors.torch import save

    from truerisk.measures.trained import training_plan
    from truerisk.nets import fitted
    from truerisk.threads import limited, threads_for
    from truerisk.training import fit

    arch, data = fitted(arch, data, options.outputs)
    plan = training_plan(arch.name, data, options.seed)
    module = arch.build(plan.seed)
    path: list[dict[str, Tensor]] = []
    every = 1

    def keep(epochs: int) -> bool:
        nonlocal path, every
        if epochs % every == 0:
            path.append({name: p.detach().cpu().clone() for name, p in module.named_parameters()})
        if len(path) > MOST_CHECKPOINTS:
            path, every = path[::2], 2 * every
        return False

    file = options.out / WEIGHTS
    progress.note(f"no --weights: {arch.name} is trained first; its weights go to {file}.")
    keep(0)
    with limited(threads_for(module, data.X)):
        history = fit(module, data, plan, after_epoch=keep)
    write_atomically(file, save({name: tensor.contiguous() for name, tensor in module.state_dict().items()}))
    how = f"trained here for {history.epochs} epochs, to a training loss of {history.losses[-1]:.2g}"
    return module, path[:-1] if len(path) > 2 else path, how


def _named(path: list[dict[str, Tensor]], module: nn.Module, own: nn.Module) -> list[dict[str, Tensor]]:
    """Checkpoints with the names that the network has in the form in which it is evaluated."""
    names = {id(p): name for name, p in own.named_parameters()}
    renamed = {name: names.get(id(p), name) for name, p in module.named_parameters()}
    return [{renamed[name]: w for name, w in each.items() if name in renamed} for each in path]


def _page(found: Landscape, facts: dict[str, str], options: Options) -> Path | None:
    """The page, or a note where the extra that draws it is not installed."""
    try:
        from truerisk.report import write_landscape

        return write_landscape(options.out / PAGE, found, facts, options.command)
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


def _lines(found: Landscape, facts: dict[str, str], page: Path | None) -> list[str]:
    from truerisk.landscape.words import headline, meanings

    wide = min(max(shutil.get_terminal_size((LEAST, 24)).columns, LEAST), MOST)
    heads = ("plane", "doubles at", "twin", "not convex", "twin", "largest loss", "twin")
    body: list[tuple[str, ...]] = [heads]
    for pair in found.pairs:
        cells = [("-", "-", "-") if each is None else _cells(each, max(pair.plane.reach)) for each in pair.readings]
        body.append((pair.plane.name, *(cell[k] for k in range(3) for cell in cells)))
    sizes = [max(len(row[k]) for row in body) for k in range(len(heads))]
    table = [
        "  ".join(
            [f"{row[0]:<{sizes[0]}}", *(f"{cell:>{size}}" for cell, size in zip(row[1:], sizes[1:], strict=True))]
        )
        for row in body
    ]
    told = [headline(found), "", f"{printable(facts['Network'])}, {facts['Weights']}.", "", *table, ""]
    told += [*meanings(found), *([f"Report  {printable(str(page))}"] if page else [])]
    return [part for text in told for part in (textwrap.wrap(text, wide) if text not in table else [text]) or [""]]


def _cells(reading: Reading, reach: float) -> tuple[str, str, str]:
    from truerisk.landscape.words import distance, loss

    share = "none" if math.isnan(reading.nonconvex) else f"{100 * reading.nonconvex:.0f}%"
    return distance(reading.doubling, reach), share, loss(reading.highest)
