"""A certificate told to people. Terminal and page show a ``Story``, and know no method.

What every certificate has is told here, what only one kind has by its method (``Method.tell``).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from truerisk import words
from truerisk.certificates.diagnosis import explain
from truerisk.certificates.given import Commands, commands
from truerisk.certificates.made import shown
from truerisk.certificates.tale import Kind, Line, Quantity, Table, Tale, lower, nats, seen, upper
from truerisk.errors import TrueriskError
from truerisk.names import BUILTIN

if TYPE_CHECKING:
    from truerisk.certificates.record import DataCard, Record
    from truerisk.plan import DrawPlan


@dataclass(frozen=True)
class Story:
    """A certificate in words and rounded numbers, in the order in which people ask."""

    title: str
    headline: str
    certificate: Line
    lower: Line | None  # where both ends were asked for
    floor: Line
    seen: Line
    training: Line | None  # the error on what trained it, where that is known
    fit: str  # how much worse it does on unseen examples, and a diagnosis; empty where that is not known
    lines: tuple[Line, ...]
    delta: Line
    parts: tuple[tuple[str, float], ...]
    verdict: str  # how the certificate compares with its baseline
    warnings: tuple[str, ...]
    ledger: tuple[tuple[str, Quantity], ...]
    spent: Quantity  # by all events together
    tables: tuple[Table, ...]
    assumptions: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    files: dict[str, str]
    check: Commands
    unchecked: tuple[str, ...]
    method: str
    predictor: str
    kl: Quantity | None
    threads: int
    version: str
    chance: float  # how often always answering with the most common class errs
    subtitle: str  # how the predictor samples, if it does


def tell(record: Record, check: Commands | None = None) -> Story:
    """All that is said about a certificate; a TrueriskError where a record lacks what its method speaks of.

    ``check``: how its maker checks it; without it, names in capitals stand for what only the reader knows.
    """
    settings, found, kl = record.settings, record.derivation, record.derivation.kl
    try:
        tale = settings.method.tell(record)
        chance = _chance(record)
    except (LookupError, ArithmeticError) as error:
        raise TrueriskError(
            "certificate.json lacks numbers that its method writes, so it cannot be shown; run truerisk verify on it."
        ) from error
    subtitle = settings.method.subtitle(settings)
    subtitle = subtitle if record.sentence.endswith(subtitle) else ""  # sentences of other versions stay whole
    return Story(
        title=f"{settings.model} on {record.data.name}",
        headline=record.sentence.removesuffix(subtitle).rstrip(),
        certificate=Line(
            "certificate",
            upper(found.risk_bound),
            f"The true risk is at most this, except with probability at most {words.decimal(settings.delta)} (delta).",
            f"the true risk is at most {words.bound_percent(found.risk_bound)}",
        ),
        lower=_lower(record),
        floor=Line("baseline", upper(record.floor.bound), _instead(record), f"hold-out baseline: {record.floor.what}"),
        seen=Line("observed error", seen(found.empirical_risk), _sentence(tale.seen, tale.counted), tale.seen),
        training=_training(record),
        fit=explain(record),
        lines=(*tale.lines, *_kl_lines(record, tale)),
        delta=Line(
            "delta",
            Quantity(settings.delta, Kind.DELTA),
            "failure probability of the certificate",
        ),
        parts=tuple((each.part, each.value) for each in found.breakdown),
        verdict=_verdict(record),
        warnings=record.warnings,
        ledger=tuple((entry["event"], Quantity(entry["delta"], Kind.DELTA)) for entry in record.ledger),
        spent=Quantity(float(sum((words.exact(entry["delta"]) for entry in record.ledger), Decimal(0))), Kind.DELTA),
        tables=(*tale.tables, *_rescaling(record, tale)),
        assumptions=record.assumptions,
        facts=tuple(_facts(record, tale)),
        files=record.files,
        check=check or commands(record),
        unchecked=tuple(unchecked(record)),
        method=settings.method.name,
        predictor=settings.method.predictor,
        kl=None if kl is None else nats(kl.kl),
        threads=settings.threads,
        version=record.version,
        chance=chance,
        subtitle=subtitle,
    )


def _lower(record: Record) -> Line | None:
    found = record.derivation.lower
    if found is None:
        return None
    sure = words.decimal(record.settings.delta)
    meaning = f"The true risk is at least this; both ends hold together except with probability at most {sure}."
    return Line("lower end", lower(found.risk), meaning, f"the true risk is at least {words.lower_percent(found.risk)}")


def _training(record: Record) -> Line | None:
    """None as well where the examples that certify trained the predictor: that is the observed error."""
    if record.fit is None or record.settings.method.fits_certify:
        return None
    meaning = f"error rate on its own {record.fit.n:,} training examples"
    return Line("training error", seen(record.fit.training_error), meaning)


def unchecked(record: Record, retrained: bool = False) -> list[str]:
    """What verify cannot know from the files, or takes on trust."""
    settings = record.settings
    lines = [] if retrained else settings.method.trusted(settings)
    if settings.own_training:
        lines = [line.replace("verify --retrain", "verify(..., retrain=True, fit=...) in Python") for line in lines]
    lines += settings.method.vouched(record)
    if settings.own_rows:
        own = f"{settings.own_errors:,} of its {settings.own_rows:,} training examples"
        lines.append(f"that the network errs on {own}: that set is not in the files")
    lines.append("that the examples are independent draws, without near copies or groups")
    if settings.repeats:
        lines.append(f"that rows equal to another one ({settings.repeats:,}) are separate draws; you vouch for it")
    if settings.trust_factory:
        lines.append("that the factory's initial weights never saw this data; you vouch for it")
    if not settings.prior.trained:
        if settings.model_kind != BUILTIN:
            lines.append("that the code of your model contains nothing learned from this data")
        one = settings.tried == settings.methods == 1
        tried = f"{words.several(settings.tried, 'configuration')} and {words.several(settings.methods, 'method')}"
        lines.append(f"that {'nothing else was' if one else f'at most {tried} were'} tried on this data")
    return lines


def _chance(record: Record) -> float:
    """How often always answering with the most common class errs."""
    return min(1.0, max(0.0, 1 - max(record.data.counts, default=0) / record.data.n))


def _sentence(*clauses: str) -> str:
    """Clauses with a capital letter, and that an observation is not a bound."""
    text = ", ".join(filter(None, clauses))
    return f"{text[0].upper()}{text[1:]}. This is an observation, not a bound."


def _instead(record: Record) -> str:
    """What the hold-out baseline is."""
    floor, settings = record.floor, record.settings
    wrong = f"({floor.errors:,} errors on {floor.n:,} examples)."
    if settings.method.is_floor:
        over = _split_over(record)
        is_it = f"the bound if delta were not split over {over}" if over else "the same number"
        return f"The certificate is itself a hold-out bound, and its baseline is {is_it} {wrong}"
    shared = f" (with delta split over {settings.tried:,} configurations too)" if settings.tried > 1 else ""
    return f"The hold-out bound that you could use instead{shared}: {floor.what} {wrong}"


def _split_over(record: Record) -> str:
    """What a hold-out certificate splits delta over and its baseline does not; empty where they are one number."""
    split = (("both ends", record.settings.two_sided), ("all methods", record.settings.methods > 1))
    same = record.floor.bound == record.derivation.risk_bound
    return "" if same else " and ".join(name for name, is_split in split if is_split)


def _verdict(record: Record) -> str:
    bound, floor = record.derivation.risk_bound, record.floor.bound
    if record.settings.method.is_floor:
        over = _split_over(record)
        higher = f"; splitting delta over {over} makes it higher than the baseline" if over else ""
        return f"The certificate is itself a hold-out bound{higher}."
    order = "as high as" if floor == bound else "lower than" if floor < bound else "higher than"
    return f"The hold-out baseline, a plain test on held-out examples, is {order} the certificate here."


def _kl_lines(record: Record, tale: Tale) -> list[Line]:
    kl = record.derivation.kl
    if kl is None:
        return []
    lines = [Line("KL", nats(kl.kl), tale.kl)]
    if kl.free is not None and kl.tuned_scale is not None and kl.both is not None:
        meaning = (
            f"before rescaling {kl.free:,} channels (tuning the prior scale is not covered by delta: it alone would "
            f"give {words.nats(kl.tuned_scale)}, both {words.nats(kl.both)})"
        )
        lines.append(Line("", nats(kl.original), meaning))
    return lines


def _rescaling(record: Record, tale: Tale) -> list[Table]:
    """The KL with and without rescaling, each next to its value with a tuned prior scale."""
    kl = record.derivation.kl
    if kl is None or kl.free is None or kl.tuned_scale is None or kl.both is None:
        return []
    about = (
        f"{kl.free:,} channels of this network can be rescaled without changing its function: multiply the weights "
        "into a channel by a factor, and divide the weights out of it by the same factor. The certificate uses the "
        "factors with the smallest KL that was found."
    )
    rows = (
        ("As trained", nats(kl.original)),
        ("With the prior scale tuned", nats(kl.tuned_scale)),
        ("Rescaled", nats(kl.kl)),
        ("Both", nats(kl.both)),
    )
    notes = ("", "not covered by delta", tale.used, "not covered by delta")
    return [Table(tale.rescaling, about, ("KL(posterior, prior)", "nats"), rows, notes)]


def _facts(record: Record, tale: Tale) -> list[tuple[str, str]]:
    """How the certificate was made."""
    data, settings, method = record.data, record.settings, record.settings.method
    rows = [
        ("Method", f"{method.name}: {method.paper}"),
        ("Predictor", method.predicts(settings)),
        ("Network", f"{settings.model} ({settings.model_kind})"),
        method.training(settings),
        ("Data", f"{data.name}: {data.n:,} examples, {data.classes} classes, inputs {_shape(data.input_shape)}"),
        ("Examples per class", _per_class(data)),
        ("Data sha256", data.sha256),
        ("Certification examples", f"{record.n_certify:,}"),
    ]
    if record.n_prior:
        what = "left out" if settings.prior.trained else "set aside for training"
        rows.append((f"Examples {what}", f"{record.n_prior:,}"))
    rows += [(_title(each.label), f"{each.quantity.percent}: {each.meaning}") for each in _alone(tale.lines)]
    if record.derivation.kl is not None:
        rows.append(("KL", f"{words.nats(record.derivation.kl.kl)} {tale.kl}"))
        rows.append(("KL before rescaling", f"{words.nats(record.derivation.kl.original)} nats"))
    if record.derivation.draws is not None:
        rows.append(("Sampled weights", _draws(record.derivation.draws)))
    return [
        *rows,
        ("Configurations that share delta", f"{settings.tried:,}"),
        ("Methods that share delta", f"{settings.methods:,}"),
        ("Failure probability (delta)", words.decimal(settings.delta)),
        ("Seed", str(settings.seed)),
        ("Made", shown(record.made)),
        ("Bound, all digits", repr(record.derivation.risk_bound)),
        ("Versions", ", ".join(f"{k} {v}" for k, v in {"truerisk": record.version, **record.software}.items())),
    ]


def _alone(lines: tuple[Line, ...]) -> list[Line]:
    """Lines that no other belongs to: the rest has a table of its own."""
    after = [*(line.label for line in lines[1:]), "end"]
    return [line for line, label in zip(lines, after, strict=False) if line.label and label]


def _title(label: str) -> str:
    return f"{label[:1].upper()}{label[1:]}"


def _per_class(data: DataCard) -> str:
    if not data.class_names:
        return ", ".join(f"{each:,}" for each in data.counts)
    return ", ".join(f"{name}: {each:,}" for name, each in zip(data.class_names, data.counts, strict=False))


def _shape(sizes: tuple[int, ...]) -> str:
    return " \u00d7 ".join(map(str, sizes))


def _draws(plan: DrawPlan) -> str:
    passes = f"{words.several(plan.passes, 'pass', 'passes')} over {plan.n:,} examples"
    shared = "each example" if plan.size == 1 else f"each {plan.size:,} examples"
    return f"{passes}, resampled for {shared}, {plan.precision}"
