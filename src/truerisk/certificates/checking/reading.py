"""Read what a certificate claims. Whoever wrote the file may be a forger: nothing in it is run or believed.

This is the only place that turns JSON into a ``Record``: strictly, every field with its very type, and no other field.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truerisk.certificates.counts import RescaledKL
from truerisk.certificates.folder import CERTIFICATE
from truerisk.certificates.ledger import Entry
from truerisk.certificates.made import checked
from truerisk.certificates.methods import find_method
from truerisk.certificates.origins import SPLIT, SUFFIX
from truerisk.certificates.record import FORMAT, DataCard, Derivation, Fit, Floor, Lower, Part, Record
from truerisk.certificates.schema import read, value_of
from truerisk.certificates.settings import Settings
from truerisk.errors import TrueriskError, VerificationError
from truerisk.plan import DrawPlan


def read_record(folder: str | Path) -> Record:
    """``certificate.json`` as a typed record; a VerificationError where it is none that this version writes."""
    path = Path(folder) / CERTIFICATE
    if not path.is_file():
        raise TrueriskError(f"there is no {CERTIFICATE} in {folder}; give the folder that certify wrote.")
    return record_of(_claims(path))


def record_of(claims: Mapping[str, Any]) -> Record:
    """The record that these claims are the JSON of; a VerificationError where they are no whole certificate."""
    try:
        record = _record(_Fields(claims))
        _refuse_other_fields(claims, record)
    except VerificationError:
        raise
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise VerificationError("certificate.json holds values that no method writes; certify again.") from error
    return record


def settings_from(claims: Mapping[str, Any]) -> Settings:
    """The settings of a certificate: of a method that is known and takes them."""
    name, options = claims.get("method"), claims.get("options")
    if not isinstance(name, str) or not isinstance(options, dict):
        raise TrueriskError("the settings of the certificate do not name a method with its options; certify again.")
    method = find_method(name).of(options)
    rest = {"outputs": "", **{name: value for name, value in claims.items() if name not in ("method", "options")}}
    settings = read(Settings, rest, "the settings of the certificate", method=method)
    vouched = settings.repeats_are_draws or (settings.row_ids and settings.repeats)
    if bool(settings.repeats) != bool(vouched):
        raise TrueriskError(
            "the settings of the certificate mention equal rows that nobody vouches for; certify again."
        )
    if settings.prior.data_free and settings.prior_std is None:
        raise TrueriskError(
            "the settings of the certificate have a data-free prior without a prior scale; certify again."
        )
    if settings.own_errors > settings.own_rows or (settings.own_rows and not settings.prior.trained):
        raise TrueriskError("the settings of the certificate mention a training set that nobody gave; certify again.")
    if settings.two_sided:
        method.refuse_lower_end()
    method.refuse(settings.prior, settings.given)
    return settings


def _claims(path: Path) -> dict[str, Any]:
    """The file as JSON that has one reading, of this format."""
    try:
        text = path.read_bytes().decode()  # UTF-8, as other programs read it
        claims = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        _refuse_unwritable(claims)
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{path} is not unambiguous JSON ({error}); certify again.") from error
    if not isinstance(claims, dict) or type(claims.get("format")) is not int:
        raise VerificationError(f"{path} is not a truerisk certificate; give the folder that certify wrote.")
    if claims["format"] != FORMAT:
        raise VerificationError(
            f"{path} has format {claims['format']}, but this version of truerisk reads format {FORMAT}; certify again."
        )
    return claims


class _Fields:
    """The fields of a certificate, each read with its type."""

    def __init__(self, claims: Mapping[str, Any]) -> None:
        self.claims = claims

    def __call__(self, name: str, kind: Any) -> Any:
        if name not in self.claims:
            raise VerificationError(f"certificate.json has no field {name!r}; certify again.")
        return value_of(kind, self.claims[name], name)

    def object(self, name: str) -> dict[str, Any]:
        """A field that has fields itself."""
        found = self.claims.get(name)
        if not isinstance(found, dict):
            raise VerificationError(f"certificate.json has no object called {name!r}; certify again.")
        return found


def _record(field: _Fields) -> Record:
    settings, card = settings_from(field.object("settings")), read(DataCard, field.object("data"), "data")
    if not card.input_shape or min(*card.input_shape, card.classes, card.n) < 1:
        raise VerificationError(
            "certificate.json does not state the input shape and the number of classes; certify again."
        )
    if card.dtype not in ("float32", "int64"):
        raise VerificationError("certificate.json does not state the type of the inputs; certify again.")
    record = Record(
        settings=settings,
        data=card,
        n_certify=field("n_certify", int),
        n_prior=field("n_prior", int),
        counts=field("counts", dict[str, int]),
        floor=read(Floor, {"bound": field("floor", float), **field.object("floor_detail")}, "floor_detail"),
        ledger=_ledger(field("ledger", list)),
        derivation=_derivation(field, settings),
        assumptions=field("assumptions", tuple[str, ...]),
        warnings=field("warnings", tuple[str, ...]),
        sentence=field("sentence", str),
        files=field("files", dict[str, str]),
        software=field("software", dict[str, str]),
        version=field("version", str),
        made=checked(field("made", str)),
        fit=field("fit", Fit | None),
        words=field("words", int),
    )
    _refuse_other_files(record)
    return record


def _derivation(field: _Fields, settings: Settings) -> Derivation:
    details: list[Any] = []
    for kind in settings.method.details():
        own = {name: field.claims[name] for name in kind.__annotations__ if name in field.claims}
        details.append(read(kind, own, f"certificate.json of {settings.method.name}"))
    return Derivation(
        risk_bound=field("risk_bound", float),
        empirical_risk=field("empirical_risk", float),
        empirical_risk_upper=field("empirical_risk_upper", float),
        breakdown=field("breakdown", tuple[Part, ...]),
        kl=_kl(field),
        draws=field("draws", DrawPlan | None),
        details=tuple(details),
        lower=_lower(field, settings),
    )


def _lower(field: _Fields, settings: Settings) -> Lower | None:
    risk, empirical = field("risk_lower", float | None), field("empirical_risk_lower", float | None)
    if (risk is None or empirical is None) == settings.two_sided:
        raise VerificationError("certificate.json has a lower end where its settings have none, or none where they do.")
    return None if risk is None or empirical is None else Lower(risk, empirical)


def _kl(field: _Fields) -> RescaledKL | None:
    kl, before = field("kl", float | None), field("kl_unrescaled", float | None)
    columns = field("rescaling", dict[str, Any] | None)
    if kl is None or before is None:
        return None
    if columns is None:
        return RescaledKL(kl, before)
    get = _Fields(columns)
    return RescaledKL(kl, before, get("tuned_scale", float), get("both", float), get("free_log_scales", int))


def _ledger(claims: list[Any]) -> list[Entry]:
    """The events; what they may cost follows from the settings, and is compared with this."""
    entries = [value_of(dict[str, Any], entry, "ledger") for entry in claims]
    return [
        {"event": value_of(str, entry.get("event"), "ledger"), "delta": value_of(float, entry.get("delta"), "ledger")}
        for entry in entries
    ]


def _refuse_other_files(record: Record) -> None:
    """The files must be those of the method, the split among them."""
    origins = record.settings.method.origins(record.settings)
    needed = {name for name, file in origins.items() if not file.optional}
    given = {name.removesuffix(SUFFIX) for name in record.files}
    if f"{SPLIT}{SUFFIX}" not in record.files:
        raise VerificationError("certificate.json does not name a file with its split; certify again.")
    if not all(name.endswith(SUFFIX) for name in record.files) or not needed <= given <= origins.keys():
        raise VerificationError("the files that the certificate lists do not fit its settings; certify again.")


def _refuse_other_fields(claims: Mapping[str, Any], record: Record) -> None:
    """What was read must be all there is, in the one form that certify writes: 1 is not 1.0, and nothing is left over.

    So whoever reads the file with another program reads what is verified here.
    """
    mine = record.to_json()
    other = sorted(claims.keys() ^ mine.keys()) or [name for name in mine if not _same(claims[name], mine[name])]
    if other:
        raise VerificationError(
            f"certificate.json has fields that no method writes ({', '.join(other)[:100]}); certify again."
        )


def _same(claimed: Any, mine: Any) -> bool:
    return json.dumps(claimed, sort_keys=True) == json.dumps(mine, sort_keys=True)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a field twice: programs differ in which of the two they read."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice")
    if any(isinstance(value, float) and not math.isfinite(value) for value in found.values()):
        raise ValueError("a number is too large")
    return found


def _refuse_unwritable(value: Any) -> None:
    """Refuse text that cannot be shown as it is: control characters steer a terminal, half characters have no bytes."""
    if isinstance(value, dict):
        for name, each in value.items():
            _refuse_unwritable(name)
            _refuse_unwritable(each)
    elif isinstance(value, list):
        for each in value:
            _refuse_unwritable(each)
    elif isinstance(value, str) and any(unicodedata.category(each) in ("Cc", "Cs") for each in value):
        raise ValueError("a text has characters that cannot be shown")


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
