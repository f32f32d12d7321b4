"""What the commands do once their options are parsed."""

from __future__ import annotations

import json as json_module
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress, words
from truerisk.atomic import write_atomically
from truerisk.cli import show
from truerisk.errors import TrueriskError, VerificationError

if TYPE_CHECKING:
    from truerisk.certificates import Certificate


def certify(asked: dict[str, Any], out: Path, json: bool, quiet: bool) -> None:
    """Certify, save, report, print. ``asked``: the fields of a request."""
    from truerisk.certificates.request import Request

    progress.enable(not quiet)
    if out.exists() and not out.is_dir():
        raise TrueriskError(f"--out {out} is a file, but must be a folder; give another path.")
    work = out / ".work"
    request = Request(**asked, work=work)  # bad options end here, before anything is loaded

    from truerisk.certificates.pipeline import run
    from truerisk.certificates.story import tell

    try:
        certificate = run(request)
    except KeyboardInterrupt:
        print("stopped; run the same command again to resume.", file=sys.stderr)
        sys.exit(130)
    certificate.save(out)
    shutil.rmtree(work, ignore_errors=True)
    report = _write_report(certificate, out)
    if json:
        table = {"methods": certificate.table} if certificate.others else {}
        print(json_module.dumps(certificate.to_json() | table, allow_nan=False))
    else:
        show.certificate(tell(certificate.record), [tell(each.record) for each in certificate.others], out, report)


def _write_report(certificate: Certificate, out: Path) -> Path | None:
    """The HTML page, or a note where the extra that draws it is not installed."""
    try:
        from truerisk.report import write_report

        return write_report(certificate.record, out / "report.html", [each.record for each in certificate.others])
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


def verify(folder: Path, data: str | None, model: str | None, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Verify and print what was checked; a failure leaves as VerificationError."""
    from truerisk.certificates import verify as check

    progress.enable(not quiet)
    try:
        result = check(folder, data, model, **options)
    except VerificationError as error:
        if json:
            print(json_module.dumps({"holds": False, **error.told, "problem": str(error)}))
        raise
    if json:
        print(json_module.dumps({"holds": True, "verdict": "confirmed", **vars(result)}))
    else:
        show.verification(result)


def predict(
    folder: Path, data: str, model: str | None, out: Path | None, seed: int, data_dir: Path | None, json: bool
) -> None:
    """Labels to standard output or a file; the error rate too where the data has labels."""
    from truerisk.certificates import Certificate
    from truerisk.data import load_inputs

    X, y, _ = load_inputs(data, data_dir)
    labels = Certificate.load(folder, model).predictor(X, seed=seed)
    rate = None if y is None else float((labels != y).mean())
    if json:
        print(json_module.dumps({"predictions": labels.tolist(), "error_rate": rate}))
        return
    text = "".join(f"{label}\n" for label in labels)
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomically(out, text.encode())
        print(f"wrote {len(labels):,} labels to {out}", file=sys.stderr)
    if rate is not None:
        print(f"observed error on these {len(labels):,} labeled examples: {words.seen(rate)}", file=sys.stderr)


def data_list(data_dir: Path | None, json: bool) -> None:
    """The catalogue and the folders that are searched for files."""
    from truerisk.data import catalogue, folders

    rows, places = catalogue(data_dir), [str(folder) for folder in folders(data_dir)]
    if json:
        print(json_module.dumps({"data": rows, "folders": places}, default=str))
    else:
        show.catalogue(rows, places)


def data_get(name: str, data_dir: Path | None) -> None:
    """Fetch and say where it is."""
    from truerisk.data import fetch

    print(fetch(name, data_dir))
