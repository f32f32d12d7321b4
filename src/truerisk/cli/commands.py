"""What the commands do once their options are parsed."""

from __future__ import annotations

import json as json_module
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress, words
from truerisk.atomic import write_atomically
from truerisk.certificates.folder import REPORT
from truerisk.cli import show
from truerisk.errors import TrueriskError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from truerisk.certificates import Certificate
    from truerisk.certificates.record import DataCard


def certify(asked: dict[str, Any], out: Path, force: bool, json: bool, quiet: bool) -> None:
    """Certify, save, report, print. ``asked``: the fields of a request."""
    from truerisk.certificates import folder
    from truerisk.certificates.request import Request

    progress.enable(not quiet)
    if out.exists() and not out.is_dir():
        raise TrueriskError(f"--out {out} is a file, but must be a folder; give another path.")
    folder.refuse_measures(out)
    if not force:
        folder.refuse_certificate(out, "give another --out, or replace it with --force")
    work = out / ".work"
    request = Request(**asked, work=work)  # bad options end here, before anything is loaded

    from truerisk.certificates.pipeline import run
    from truerisk.certificates.story import tell

    try:
        certificate = run(request)
    except KeyboardInterrupt:
        print("stopped; run the same command again to resume.", file=sys.stderr)
        sys.exit(130)
    certificate.save(out, force)
    shutil.rmtree(work, ignore_errors=True)
    report = _write_report(certificate, out)
    if json:
        table = {"methods": certificate.rows()} if certificate.others else {}
        print(json_module.dumps(certificate.to_json() | table, allow_nan=False))
    else:
        story = tell(certificate.record, certificate.commands(out))
        show.certificate(story, [tell(each.record) for each in certificate.others], report)


def _write_report(certificate: Certificate, out: Path) -> Path | None:
    """The HTML page, or a note where the extra that draws it is not installed."""
    try:
        from truerisk.report import write_report

        others = [each.record for each in certificate.others]
        return write_report(certificate.record, out / REPORT, others, certificate.commands(out))
    except TrueriskError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


SURPRISE = 1e-4  # chance explains what is called surprising with at most this probability


def verify(folder: Path, data: str | None, model: str | None, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Verify and print what was checked; a failure leaves as VerificationError."""
    from truerisk.certificates.checking.reading import read_record
    from truerisk.certificates.settings import check_seed

    progress.enable(not quiet)
    if options["seed"] is not None:
        check_seed(options["seed"])
    try:
        read_record(folder)  # what the one file decides is told before torch is loaded
        from truerisk.certificates import verify as check

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
    """Labels to standard output or a file, by their names if they have names; the error rate too where it is known."""
    from truerisk.certificates.checking.reading import read_record
    from truerisk.certificates.settings import check_seed
    from truerisk.data import load_inputs
    from truerisk.data.matching import match_columns

    record = read_record(folder)
    card = record.data
    check_seed(seed)
    inputs = load_inputs(data, data_dir)
    X = match_columns(inputs.X, inputs.feature_names, card.feature_names, "the inputs")
    y = _as_certified(inputs.y, inputs.class_names, card)

    from truerisk.certificates import Certificate

    labels = Certificate.load(folder, model).predictor(X, seed=seed)
    rate = None if y is None else float((labels != y).mean())
    if json:
        told = {"predictions": labels.tolist(), "class_names": list(card.class_names), "error_rate": rate}
        print(json_module.dumps(told))
        return
    text = "".join(f"{card.class_names[label] if card.class_names else label}\n" for label in labels)
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomically(out, text.encode())
        print(f"wrote {len(labels):,} labels to {out}", file=sys.stderr)
    if rate is not None:
        print(f"observed error on these {len(labels):,} labeled examples: {words.seen(rate)}", file=sys.stderr)
        _doubt(int((labels != y).sum()), len(labels), record.derivation.risk_bound)


def _doubt(errors: int, n: int, certified: float) -> None:
    """A word about more errors than the certificate allows: mostly the inputs are of another kind."""
    from truerisk.bounds import clopper_pearson_lower

    if clopper_pearson_lower(errors, n, SURPRISE) > certified:
        print(
            f"note: the certificate says at most {words.bound(certified)}, and chance does not explain the difference; "
            "check the order of the columns, the scale of the inputs, and the numbering of the classes.",
            file=sys.stderr,
        )


def _as_certified(y: np.ndarray | None, names: Sequence[str], card: DataCard) -> np.ndarray | None:
    """Labels in the certificate's numbering: a file that names its classes may number them in another order."""
    if y is None:
        return None
    if not names:
        # Integers are class numbers, unless the classes are called by integers themselves.
        if not any(name.isdecimal() for name in card.class_names):
            return y
        names, y = _texts(y)
    known = {name: label for label, name in enumerate(card.class_names or map(str, range(card.classes)))}
    strange = sorted({names[label] for label in set(y.tolist())} - known.keys())
    if strange:
        raise TrueriskError(
            f"the inputs have a class {strange[0][:60]!r}, which the certificate does not know; rename or remove it."
        )
    import numpy

    return numpy.asarray([known[names[label]] for label in y.tolist()])


def _texts(y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Integer labels as texts, and their numbers in this list."""
    import numpy

    values, places = numpy.unique(y, return_inverse=True)
    return [str(value) for value in values.tolist()], places


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
