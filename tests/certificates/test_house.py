"""The house: who knows what. Each test names one thing that must be known in one place only."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from certificates import golden

import truerisk
from truerisk import names
from truerisk.certificates import certify
from truerisk.certificates.checking.reading import record_of
from truerisk.certificates.methods import METHODS, pac_bayes
from truerisk.certificates.request import Request
from truerisk.certificates.schema import flags
from truerisk.codes import PRICE
from truerisk.pacbayes import OBJECTIVES, layer_scales

SRC = Path(truerisk.__file__).parent
CERTIFICATES = SRC / "certificates"
OUTSIDE = [
    path
    for folder in ("certificates", "cli", "report")
    for path in sorted((SRC / folder).rglob("*.py"))
    if path.parent != CERTIFICATES / "methods"
]
SOFTWARE = {"torch": "2", "numpy": "2", "machine": "any"}
MADE = {"software": SOFTWARE, "version": "0", "made": "2026-11-17T21:14:12Z"}


def names_of(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(SRC)) for path in paths]


def calls(path: Path, function: str) -> bool:
    """Whether a file calls something of this name."""
    found = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return any(getattr(node, "attr", getattr(node, "id", None)) == function for node in found)


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_no_method_is_named_outside_its_folder():
    """A kind of predictor may have a method's name, but it comes from there as well."""
    found = {}
    for path in OUTSIDE:
        texts = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        found[path] = sorted(METHODS.keys() & {text for text in texts if isinstance(text, str)})
    assert {path: named for path, named in found.items() if named} == {}


def test_terminal_and_pages_look_nothing_up_in_a_record():
    paths = [path for path in OUTSIDE if path.is_relative_to(SRC / "cli") or path.is_relative_to(SRC / "report")]
    assert names_of([path for path in paths if "record[" in path.read_text()]) == []


def test_the_pipeline_fits_a_screen_and_is_the_only_one_that_knows_the_order():
    pipeline = CERTIFICATES / "pipeline.py"
    assert len(pipeline.read_text().splitlines()) < 120
    for step in ("produce", "freeze"):
        assert names_of([path for path in OUTSIDE if calls(path, step)]) == ["certificates/pipeline.py"], step
    callers = [path for path in OUTSIDE if calls(path, "conclude")]
    assert names_of(callers) == ["certificates/checking/verification.py", "certificates/pipeline.py"]


def test_methods_can_not_read_what_a_certificate_claims():
    """Neither methods nor what computes for them, not even inside a function."""
    paths = [*(CERTIFICATES / "methods").glob("*.py"), *(CERTIFICATES / "workshop").glob("*.py")]
    assert len(paths) > 15
    read = {
        path: [name for name in imports(path) if name.startswith("truerisk.certificates.checking")] for path in paths
    }
    assert {path: found for path, found in read.items() if found} == {}


def test_declarations_import_no_torch():
    """At the top of a file; inside functions that compute they may."""
    light = [*(CERTIFICATES / "methods").glob("*.py"), *(CERTIFICATES / f"{n}.py" for n in LIGHT)]
    for path in light:
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        found = {name for node in top for name in imports_of(node)}
        assert not {name for name in found if name.split(".")[0] == "torch"}, path


LIGHT = (
    "schema",
    "request",
    "settings",
    "prior",
    "counts",
    "record",
    "story",
    "sentences",
    "ledger",
    "entry",
    "choose",
)


def imports_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]


# ---- without torch -------------------------------------------------------------------------------------------------

BLOCKED = "import sys; sys.modules['torch'] = None; "


def without_torch(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, cwd=folder)


def command(*arguments: str) -> str:
    return f"sys.argv = ['truerisk', *{list(arguments)!r}]; from truerisk.cli import main; main()"


def test_help_needs_no_torch(tmp_path):
    done = without_torch(command("certify", "--help"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in METHODS)
    assert all(f"--{flag.name.replace('_', '-')}" in done.stdout for m in METHODS.values() for flag in flags(m))


REFUSED = [
    (["--method", "magic"], "there is no method 'magic'"),
    (["--method", "progressive", "--blocks", "0"], "blocks is 0, but must be at least 1 and at most 99"),
    (["--method", "all", "--blocks", "0"], "blocks is 0"),
    (["--blocks", "3"], "the method hold-out has no option blocks"),
    (["--prior", "half"], "the prior is 'half', but must be zero, init, or split:FRACTION"),
    (["--method", "hold-out", "--prior", "init"], "needs examples to train on first"),
    (["--method", "disagreement", "--surrogate", "magic"], "the surrogate is 'magic'"),
    (["--scales", "grid"], "name one that does: --method pac-bayes-kl or"),
    (["--method", "pac-bayes-kl", "--scales", "grid"], "needs a data-free prior"),
    (["--prior", "init", "--scales", "grid:9"], "grid:K with K from 1 to 8"),
    (["--delta", "2"], "delta is 2.0"),
    (["--tried", "0"], "tried is 0"),
    (["--seed", "-1"], "seed is -1, but must be at least 0"),
    (["--for", "magic"], "predictor is 'magic', but must be one of stochastic, single-draw, deterministic"),
    (["--device", "abacus"], "device is 'abacus'"),
    (["--objective", "magic"], "objective is 'magic'"),
    (["--prior-std", "0"], "prior_std is 0"),
    (["--fresh", "a.npz", "--data", "b.npz"], "exclude each other"),
    (["--trained-on", "a.npz"], "give fresh data too"),
    (["--threads", "0"], "threads is 0"),
]

ALL_REFUSED = """
import contextlib, io, json
from truerisk.cli import main
told = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, out, err = ["truerisk", "certify", *arguments], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def test_bad_options_are_told_before_torch_is_loaded(tmp_path):
    asked = json.dumps([arguments for arguments, _ in REFUSED])
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + ALL_REFUSED, asked], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for (arguments, told), (code, out, err) in zip(REFUSED, json.loads(done.stdout), strict=True):
        assert (code, out) == (2, ""), arguments
        assert told in err, arguments
        assert err.count("\n") == 1, arguments
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", golden.STORED)
def test_the_page_of_a_certificate_needs_no_torch(name, tmp_path):
    code = (
        "from truerisk.certificates.checking.reading import read_record; from truerisk.report import write_report; "
        f"print(write_report(read_record({str(golden.KEPT / name)!r}), 'page.html'))"
    )
    done = without_torch(code, tmp_path)
    assert done.returncode == 0, done.stderr
    kept = json.loads((golden.KEPT / name / "certificate.json").read_text())
    assert kept["sentence"].split(",")[0] in (tmp_path / "page.html").read_text()


# ---- one list of everything ----------------------------------------------------------------------------------------


def test_certify_and_a_request_have_the_same_options():
    asked = {"build" if each.name == "model" else each.name for each in fields(Request)}
    assert asked == set(inspect.signature(certify).parameters)
    for each in fields(Request):
        name = "build" if each.name == "model" else each.name
        given = inspect.signature(certify).parameters[name].default
        assert each.name == "options" or given == each.default, name


def test_what_is_declared_without_torch_is_what_computes():
    assert set(names.OBJECTIVES) == set(OBJECTIVES)
    assert METHODS["description-length"]().price == PRICE
    assert (pac_bayes.POINTS, pac_bayes.MOST_LAYERS) == (layer_scales.POINTS, layer_scales.MOST_LAYERS)


@pytest.mark.parametrize("name", golden.CASES)
def test_a_record_is_read_as_it_was_written(name):
    kept = json.loads((golden.GOLDENS / f"{name}.json").read_text())["record"] | MADE
    assert json.dumps(record_of(kept).to_json(), sort_keys=True) == json.dumps(kept, sort_keys=True)


def test_the_cases_of_the_goldens_are_all_methods():
    kept = {json.loads((golden.GOLDENS / f"{name}.json").read_text())["record"]["method"] for name in golden.CASES}
    assert kept == METHODS.keys()


def test_no_module_of_certificates_is_long():
    long = [path for path in CERTIFICATES.rglob("*.py") if len(path.read_text().splitlines()) > 300]
    assert names_of(long) == []
