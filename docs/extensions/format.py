"""Directives that write the reference of certificates from the code, so that the manual says what the program does.

``.. certificate-fields::`` lists the fields of ``certificate.json``; with a name it lists those of that object.
``.. certificate-files::`` lists the files, ``.. certificate-methods::`` the options, fields and files of each method,
and ``.. method-options::`` the options of all methods in one table.

What a field means is said once: in ``MEANINGS``, in the docstring of a dataclass, or in the help text of an option.
The stored certificates of the tests are the measure. A field of theirs without a meaning stops the build, and so does
a meaning without a field. Nothing but ``setup`` needs Sphinx.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from markup import code, literal, table

from truerisk.certificates.methods import METHODS, Method
from truerisk.certificates.origins import SUFFIX, File
from truerisk.certificates.prior import NOTHING_TRAINED, Prior
from truerisk.certificates.record import DataCard
from truerisk.certificates.schema import Flag, flags
from truerisk.certificates.settings import Settings
from truerisk.errors import TrueriskError
from truerisk.plan import DrawPlan, Plan

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CERTIFICATES = Path(__file__).parents[2] / "tests" / "certificates"
TOP, PLAN, OPTIONS = "", "plan", "settings.options"
NUMBERED = ("counts", "files")  # names with a number in them are described once, with N in its place
WHOLE = ("software",)  # depends on the machine: described as a whole
SAME = {"steps.draws": "draws"}  # objects that are described elsewhere
# Described in the table of the object around them.
INSIDE = ("floor_detail", "ledger", "breakdown", "fit", "data", "model")
TYPED: dict[str, Any] = {"data": DataCard, "draws": DrawPlan, "settings": Settings, PLAN: Plan}
WORDS = {int: "integer", float: "number", str: "text", bool: "true or false", NoneType: "null"}
PRIORS = (Prior("zero"), Prior("init"), Prior("split:0.5"), NOTHING_TRAINED)

MEANINGS: dict[str, dict[str, str]] = {
    TOP: {
        "format": "Version of this format.",
        "sentence": "The certificate in one sentence; a second one follows if the predictor samples its weights.",
        "risk_bound": "The true risk of the predictor is at most this, except with probability ``delta``.",
        "risk_lower": "The true risk is at least this; null unless both ends were asked for (``two_sided``). Both ends "
        "hold together except with probability ``delta``.",
        "delta": "Failure probability of the certificate.",
        "predictor": "``stochastic`` (weights, or a network, sampled for each prediction), ``single-draw`` (sampled "
        "once and kept) or ``deterministic``.",
        "method": "Name of the method; :doc:`certify` lists them.",
        "losses": 'The losses that the certificate is about: ``["zero-one"]``.',
        "empirical_risk": "Observed error rate on the certification set: of sampled networks, or of the network. "
        "``recursive``: on the examples of the last step. ``disagreement``: of the surrogate, plus the observed rate "
        "of disagreements.",
        "empirical_risk_upper": "The error rate that enters the bound: ``empirical_risk`` plus its Monte Carlo error. "
        "Equal to ``empirical_risk`` where nothing is sampled.",
        "empirical_risk_lower": "The error rate that enters the lower end: without ties, minus its Monte Carlo error. "
        "Null without a lower end.",
        "fit": "Training error and gap to unseen examples, or null where no training error is known.",
        "n_certify": "Number of rows in the certification set.",
        "n_prior": "Number of rows that train first; with ``fresh``, of rows left out because the network saw them.",
        "counts": "Everything that was counted, by name (see :ref:`format-counts`). All other numbers follow from "
        "these, the data, the files, and the settings.",
        "kl": "KL(posterior, prior) in nats of the distributions in the files. Null for methods without a posterior. "
        "It enters the bound, except for single draws, which use ``log_ratio``. ``recursive``: of the last step.",
        "kl_unrescaled": "The KL of the posterior as it was trained, before rescaling, or null.",
        "rescaling": "The KL with and without rescaling (see :ref:`format-rescaling`). Null without a posterior, and "
        "for a network that ``torch.export`` cannot follow (a warning says so).",
        "draws": "The plan of the Monte Carlo draws (see :ref:`format-draws`), or null. ``recursive`` has one for each "
        "step instead.",
        "floor": "Hold-out baseline: the Clopper-Pearson bound, with delta split over the configurations that were "
        "tried.",
        "floor_detail": "How the hold-out baseline was derived.",
        "ledger": "How the union bound splits delta; the sum is at most ``delta``.",
        "breakdown": "Parts that add up to ``risk_bound``.",
        "assumptions": "Sentences: what the certificate assumes.",
        "warnings": "Sentences: what to know before quoting the number.",
        "words": "Version of the wording. ``verify`` compares sentences only where this number is its own.",
        "data": "The data that were certified.",
        "model": "The network.",
        "seed": "The seed from which split, initialization, and training derive theirs. Seeds of draws are hashes of "
        "``settings``, ``data``, and ``files`` (files that ``verify`` derives itself excluded).",
        "settings": "All choices (see :ref:`format-settings`).",
        "files": "SHA-256 of each file, by name.",
        "software": "``torch``, ``numpy``, ``machine``, and ``device`` if networks were not trained on the CPU. No "
        "verdict depends on this field.",
        "version": "Version of truerisk.",
        "made": "When the certificate was made: UTC, to the second, such as ``2026-11-17T21:14:12Z``. ``verify`` "
        "refuses other forms, and compares it with nothing. The variable ``SOURCE_DATE_EPOCH`` replaces the clock.",
    },
    "floor_detail": {
        "errors": "Errors of the tested network.",
        "n": "Number of tested examples.",
        "delta": "Failure probability of the baseline.",
        "what": "Words: the network that was tested, and on which examples.",
    },
    "ledger": {
        "event": "Words: a way in which the certificate could fail.",
        "delta": "The largest probability that this event may have.",
    },
    "breakdown": {
        "part": "Words: what this part is due to.",
        "value": "Its share of ``risk_bound``.",
    },
    "fit": {
        "training_error": "Error rate on the training examples; for a posterior, on the certification set that trained "
        "it.",
        "n": "Number of these examples.",
        "gap_lower": "The true risk exceeds the training error by at least this; null without a lower end.",
        "gap_upper": "The true risk exceeds the training error by at most this.",
        "diagnosis": "``overfits`` (a gap of more than five points is certain), ``underfits`` (a training error above "
        "5%), ``good fit`` (a gap of at most five points is certain) or ``cannot tell``.",
    },
    "data": {
        "name": "Name of the data.",
        "source": "The name that loads the data again; for your own data its file name, or null if it had none.",
        "n": "Number of rows.",
        "classes": "Number of classes.",
        "input_shape": "Shape of one input.",
        "dtype": "Type of the inputs: ``float32``, or ``int64`` where the network takes integers, such as token ids.",
        "counts": "Number of rows of each class.",
        "sha256": "SHA-256 of shape, inputs, labels, and number of classes.",
        "class_names": "Names of the classes in the order of their numbers, or an empty list. The hash does not cover "
        "them.",
        "feature_names": "Names of the columns of a table in their order, or an empty list. The hash does not "
        "cover them.",
    },
    "model": {
        "name": "Name of the network.",
        "kind": "``built-in``, ``factory`` or ``module``.",
    },
    "counts": {
        "floor": "Errors of the network that the hold-out baseline tests.",
        "training": "Wrong answers of the network on the examples that trained it.",
        "NAME, without ties": "With ``two_sided``: the same errors without ties and near ties, which a lower end must "
        "not count.",
        "draws": "Errors of sampled networks, among ``n * passes`` answers of the plan ``draws``.",
        "drawn network": "Errors of the one sampled network on the certification set.",
        "decoded network": "Errors of the network that the compressed file decodes to.",
        "left wrong": "Examples that were not picked and that the last network gets wrong.",
        "probe": "Errors of the first model on rows that it was not yet trained on; they suggest an error rate to "
        "expect.",
        "block N": "Errors of model N on its block.",
        "step N: a drawn network wrong": "Step 1: errors of networks sampled from the first posterior.",
        "step N: only the new one wrong": "Later steps: answers that only the network from the new posterior gets "
        "wrong.",
        "step N: only the old one wrong": "Later steps: answers that only the network from the posterior before it "
        "gets wrong.",
        "step N: both wrong": "Later steps: answers that both networks get wrong.",
        "disagreements": "Unlabeled inputs on which the given network and the surrogate differ.",
    },
    "draws": {
        "n": "Number of examples that sampled networks are tested on.",
        "groups": "Groups of examples in one pass; all examples of a group share one sampled network.",
        "size": "Examples in a group; 1 means a sampled network for each example.",
        "passes": "Passes over the examples; there are ``groups * passes`` independent trials.",
        "chunk": "Rows computed at once, which decides which random number goes where.",
        "precision": "``float64`` or ``float32``.",
        "layered": "True: outputs are sampled layer by layer, for each example. False: whole networks are sampled.",
    },
    "rescaling": {
        "free_log_scales": "Number of channels that can be rescaled.",
        "original": "KL as trained, equal to ``kl_unrescaled``.",
        "tuned_scale": "KL with all standard deviations of the prior times the best common factor. For comparison: no "
        "delta covers that choice, so no bound uses it.",
        "rescaled": "KL of the stored posterior, which was rescaled; equal to ``kl``.",
        "both": "KL with the prior rescaled for a common factor, and then the best one. For comparison only.",
    },
    "settings": {
        "method": "Name of the method.",
        "prior": "``zero``, ``init`` or ``split:FRACTION``; ``none`` with ``fresh``.",
        "delta": "Failure probability of the certificate.",
        "seed": "The seed that you gave.",
        "tried": "Configurations that delta is split over, including those that the authors compared.",
        "model": "Name of the network.",
        "model_kind": "``built-in``, ``factory`` or ``module``.",
        "own_training": "Whether your own function trained the networks.",
        "trust_factory": "Your word that no initial weight or buffer of the factory saw the data.",
        "objective": "The objective of the posterior's training: ``tempered``, ``quadratic``, ``lambda`` or ``kl``.",
        "prior_std": "Prior scale in units of 1/sqrt(fan_in); null if it was chosen on the prior's own examples.",
        "plans": "A training plan for each role, used by the method or not (see :ref:`format-plans`); empty with "
        "``fresh``.",
        "options": "Options of the method, by name (see :ref:`format-methods`).",
        "methods": "Number of methods that share delta, this one included.",
        "given": "Whether the network was already trained on the data and its weights were used; false with ``fresh``.",
        "threads": "Threads that trained and counted.",
        "repeats_are_draws": "Your word that rows with equal values are separate draws.",
        "repeats": "Number of rows that equal a row of another set, or another unlabeled input.",
        "row_ids": "SHA-256 of the identities that you gave, or empty.",
        "two_sided": "Whether the risk is bounded from below as well.",
        "own_errors": "With ``fresh`` and a training set of its own: wrong answers on that set, on your word.",
        "own_rows": "Number of examples in that set; 0 where none was given.",
        "outputs": "Only for a network with one output per example: ``logits`` or ``probabilities``.",
    },
    "settings.plans": {
        "prior": "The network that is trained on the prior's own examples.",
        "update": "Each further training of ``progressive``.",
        "picks": "Each round of ``pick-to-learn``.",
        "posterior": "A posterior.",
        "floor": "The network of the hold-out baseline, where no examples were set aside.",
        "code": "The search for a compressed network.",
    },
    PLAN: {
        "epochs": "Passes over the rows.",
        "batch_size": "Rows in a batch.",
        "optimizer": "``adam`` or ``sgd``.",
        "lr": "Peak learning rate.",
        "momentum": "Momentum of ``sgd``.",
        "weight_decay": "Weight decay.",
        "schedule": "Course of the learning rate: ``constant``, ``cosine``, ``step`` or ``triangle``.",
        "step_every": "Epochs between two steps of the schedule ``step``.",
        "step_factor": "Factor on the learning rate at each such step.",
        "target_loss": "Mean training loss at which training stops, or null.",
        "seed": "Seed of the training.",
        "nesterov": "Whether ``sgd`` uses Nesterov momentum.",
        "label_smoothing": "Share of each label that is spread over all classes.",
        "augment": "Random changes of the inputs, such as ``shift:2,flip``, or empty.",
    },
    "other_forms": {
        "McAllester": "McAllester's form.",
        "quadratic": "The quadratic form of Pérez-Ortiz and others (2021).",
        "Thiemann": "The form of Thiemann and others (2017), at its best lambda.",
    },
    "progressive": {
        "t": "Parameter of the bound, fixed before the blocks were seen.",
        "expected_risk": "Error rate that ``t`` was chosen for: the option ``expect``, or the probe's.",
    },
    "progressive.blocks": {
        "n": "Rows in the block.",
        "errors": "Errors of the model on the block.",
    },
    "compression": {
        "k": "Number that enters the bound: ``picked`` plus ``left_wrong``.",
        "picked": "Examples that were picked.",
        "left_wrong": "Examples that were not picked and that the last network gets wrong.",
        "rounds": "Rounds that picked something.",
        "note": "Words: how the number came about.",
    },
    "steps": {
        "step": "Number of the step, from 1.",
        "n": "Number of examples that the step is tested on.",
        "kl": "KL of its posterior from the one before, in nats.",
        "kl_unrescaled": "That KL before rescaling.",
        "empirical_risk": "Observed error rate of networks sampled from its posterior.",
        "uppers": "Upper limits of the means that were estimated: one in step 1, three in each later step.",
        "draws": "The plan of its Monte Carlo draws (see :ref:`format-draws`).",
        "risk_bound": "Bound on the true risk of its posterior.",
    },
    "disagreement": {
        "surrogate": "Method that certifies the surrogate.",
        "surrogate_bound": "Bound on the true risk of the surrogate.",
        "disagreements": "Unlabeled inputs on which the two networks differ.",
        "unlabelled": "Number of unlabeled inputs.",
        "upper": "Upper limit of the probability that the two networks differ.",
    },
    "files": {
        "split": "``prior`` and ``certify``: row numbers of the data (int64).",
        "network": "Parameters and all buffers of the network that the hold-out baseline tests. For ``hold-out`` the "
        "certified network, for ``progressive`` model 1.",
        "prior": "``mean.NAME`` and ``std.NAME`` for each random parameter (float32), ``fixed.NAME`` for buffers and "
        "frozen parameters.",
        "posterior": "The posterior, in the form of ``prior``. For ``recursive`` the last one.",
        "log_scales": "Rescaling factors as logarithms (float64), one for each that :func:`truerisk.find_symmetry` "
        "leaves unconstrained, in its order. ``best`` leads from the stored posterior back to the trained one; ``with "
        "a tuned prior`` belongs to the comparison ``both``. No bound depends on them.",
        "scales": "``index``: the chosen points on the grid of prior scales (int64), one for each group of layers.",
        "network-N": "The other models of ``progressive``; ``network-00`` is the one that the probe tests.",
        "network-final": "The certified network of ``pick-to-learn``.",
        "picks": "``rows`` in the order in which they were picked, and ``rounds``, the round of each (int64).",
        "posterior-N": "The earlier posteriors of ``recursive``, each the prior of the next.",
        "log_scales-N": "``log_scales`` of each step of ``recursive``.",
        "code": "``bytes``: the compressed network (uint8).",
        "network-start": "The seeded initial network that the decoder knows.",
        "network-target": "The given network that ``disagreement`` certifies.",
        "unlabelled": "``X``: the unlabeled inputs (float32).",
    },
}


# ---- what certificates hold, and what is described ------------------------------------------------------------------


def records() -> list[dict[str, Any]]:
    """The stored certificates: one or more of every method, some as records and some as whole folders."""
    goldens = [json.loads(path.read_text())["record"] for path in sorted((CERTIFICATES / "goldens").glob("*.json"))]
    kept = [json.loads(path.read_text()) for path in sorted((CERTIFICATES / "kept").glob("*/certificate.json"))]
    return goldens + kept


def walk(found: dict[str, Any], place: str = TOP) -> Iterator[tuple[str, str, Any]]:
    """All fields of a certificate: the object that each is in, its name there, and its value."""
    for name, value in found.items():
        if place in NUMBERED:
            name = re.sub(r".+(, without ties)", r"NAME\1", re.sub(r"\d+", "N", name.removesuffix(SUFFIX)))
        yield place, name, value
        inner = f"{place}.{name}".lstrip(".")
        inner = PLAN if place == "settings.plans" else SAME.get(inner, inner)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and inner not in WHOLE:
                yield from walk(each, inner)


def own_fields(method: Method) -> Iterator[tuple[str, str, str, str]]:
    """The fields that only this method has: object, name, type, and meaning."""
    for detail in method.details():
        for each in fields(detail):
            yield from _own(TOP, each.name, get_type_hints(detail)[each.name], _about(detail))


def _own(place: str, name: str, hint: Any, about: str | None) -> Iterator[tuple[str, str, str, str]]:
    inner = f"{place}.{name}".lstrip(".")
    kind = next((each for each in (hint, *get_args(hint)) if is_dataclass(each)), None)
    described = MEANINGS.get(place, {}).get(name)
    meaning = described or (literal(_about(kind) if kind else about or "")) or None
    if meaning is None:
        raise LookupError(f"the field {inner} has no meaning; add one to MEANINGS in {__file__}")
    yield place, name, kind_of(hint), meaning
    if kind is not None and inner not in SAME:
        for each in fields(kind):
            yield from _own(inner, each.name, get_type_hints(kind)[each.name], None)
    elif inner in MEANINGS:  # an object with names of its own
        yield from ((inner, each, "number", text) for each, text in MEANINGS[inner].items())


def _about(cls: Any) -> str:
    """The docstring, up to the end of its first paragraph."""
    return " ".join((cls.__doc__ or "").split("\n\n")[0].split())


def described() -> set[tuple[str, str]]:
    """All fields that have a meaning: object and name."""
    found = {(place, name) for place, names in MEANINGS.items() for name in names}
    found |= {(OPTIONS, flag.name) for method in METHODS.values() for flag in flags(method)}
    return found | {(place, name) for method in METHODS.values() for place, name, _, _ in own_fields(method())}


def problems(certificates: Iterable[dict[str, Any]]) -> list[str]:
    """What is there and not described, or described and not there."""
    there, told = {field[:2] for each in certificates for field in walk(each)}, described()
    missing = [f"{place or 'certificate.json'} has a field {name!r} without a meaning" for place, name in there - told]
    unused = [f"{place or 'certificate.json'} has no field {name!r}, but a meaning" for place, name in told - there]
    return sorted(missing) + sorted(unused)


# ---- types, in words -------------------------------------------------------------------------------------------------


def kind_of(hint: Any) -> str:
    """The JSON type of a Python type."""
    arguments = get_args(hint)
    if NoneType in arguments:
        return f"{kind_of(next(each for each in arguments if each is not NoneType))} or null"
    if hint in WORDS:
        return WORDS[hint]
    if arguments and getattr(hint, "__origin__", None) is tuple:
        return f"list of {kind_of(arguments[0])}s"
    as_text = hasattr(hint, "from_json") or hint is Method or (arguments and isinstance(arguments[0], str))
    return "text" if as_text else "object"


def seen_kind(values: list[Any]) -> str:
    """The JSON type of values that were seen."""
    kinds = {type(value) for value in values}
    words = []
    if dict in kinds:
        words.append("object")
    if list in kinds:
        inner = [each for value in values if isinstance(value, list) for each in value]
        words.append(f"list of {seen_kind(inner)}s")
    words += [word for kind, word in WORDS.items() if kind in kinds]
    return " or ".join(words)


# ---- the directives --------------------------------------------------------------------------------------------------


def field_lines(place: str = TOP) -> Iterator[str]:
    """One object: its fields with the type and meaning of each, and the small objects inside it."""
    certificates = checked()
    columns, widths = ("field", "type", "meaning"), (28, 16, 56)
    if place == "counts":
        methods: dict[str, list[str]] = {}
        for each in certificates:
            for name in {name for where, name, _ in walk(each) if where == place}:
                methods.setdefault(name, []).append(each["method"])
        order = list(METHODS)
        columns, widths = ("count", "methods", "meaning"), (26, 30, 44)
        rows = [(code(name), _all_of(methods[name], order), text) for name, text in MEANINGS[place].items()]
    else:
        rows = list(_rows(place, "", [field for each in certificates for field in walk(each)]))
    yield from table(columns, widths, rows)


def _all_of(found: list[str], order: list[str]) -> str:
    names = [name for name in order if name in found]
    return "all" if len(names) == len(order) else ", ".join(map(code, names))


def _rows(place: str, prefix: str, there: list[tuple[str, str, Any]]) -> Iterator[tuple[str, str, str]]:
    typed = get_type_hints(TYPED[place]) if place in TYPED else {}
    for name, meaning in MEANINGS[place].items():
        values = [value for where, which, value in there if (where, which) == (place, name)]
        kind = kind_of(typed[name]) if name in typed else seen_kind(values)
        yield code(prefix + name), kind, meaning
        if place == TOP and name in INSIDE:
            yield from _rows(name, f"{name}{'[]' if kind.startswith('list') else ''}.", there)


def file_lines() -> Iterator[str]:
    """The files and what is in them."""
    checked()
    yield from table(
        ("file", "content"),
        (26, 74),
        [(code(name + SUFFIX), text) for name, text in MEANINGS["files"].items()],
    )


def method_lines() -> Iterator[str]:
    """All methods: options, own fields, files."""
    checked()
    for name, kind in METHODS.items():
        method = kind()
        yield from (f".. rubric:: {name}", "", f"{kind.summary[0].upper()}{literal(kind.summary[1:])}.")
        yield f"Paper: {literal(kind.paper)}. Predictor: {kind.predictor}. Usual prior: {code(str(kind.usual_prior))}."
        yield f"Class: {code(f'{kind.__module__}.{kind.__name__}')}."
        yield ""
        if flags(kind):
            rows = [(code(f.name), _kind(f), _default(f, kind), _limits(f), literal(f.help)) for f in flags(kind)]
            yield from table(("option", "type", "default", "limits", "meaning"), (14, 12, 12, 20, 42), rows)
        own = [(code(_path(place, field)), kind_, text) for place, field, kind_, text in own_fields(method)]
        if own:
            yield from table(("own field", "type", "meaning"), (34, 18, 48), own)
        yield from table(("file", "origin", "remarks"), (42, 38, 20), _files(kind))


def _path(place: str, name: str) -> str:
    """A field's whole name, with brackets where there is a list."""
    place = place.replace("progressive.blocks", "progressive.blocks[]").replace("steps", "steps[]")
    return f"{place}.{name}".lstrip(".")


def _files(kind: type[Method]) -> list[tuple[str, str, str]]:
    """Files with the same origin share a row; an origin that depends on the prior is given for each."""
    found: dict[str, dict[str, File]] = {}
    method = _resolved(kind())
    priors = [prior for prior in PRIORS if _goes(method, prior)]
    for prior in priors:
        settings = Settings(method, prior, 0.05, 0, 1, "mlp", "built-in", given=kind.needs_weights)
        for name, file in method.origins(settings).items():
            found.setdefault(name, {})[str(prior)] = file
    rows: dict[tuple[str, str], list[str]] = {}
    for name, by_prior in found.items():
        one = next(iter(by_prior.values()))
        remarks = ["predicts"] * one.predicts + ["may be missing"] * one.optional
        rows.setdefault((_origin(by_prior), ", ".join(remarks)), []).append(code(name))
    return [(", ".join(names), origin, remarks) for (origin, remarks), names in rows.items()]


def _resolved(method: Method) -> Method:
    """The method for a small network: what depends on the network is decided."""
    from truerisk.nets import builtin

    return method.resolve(lambda: builtin("mlp:8", [1, 8, 8], 10))


def _goes(method: Method, prior: Prior) -> bool:
    try:
        method.refuse(prior, given=method.needs_weights)
    except TrueriskError:
        return False
    return True


def _origin(by_prior: dict[str, File]) -> str:
    origins: dict[str, list[str]] = {}
    for prior, file in by_prior.items():
        origins.setdefault(ORIGINS[file.origin.value], []).append(prior)
    if len(origins) == 1:
        return next(iter(origins))
    return "; ".join(f"{origin} ({', '.join(map(code, priors))})" for origin, priors in origins.items())


ORIGINS = {"derived": "derived", "trained": "trained", "free": "unconstrained", "vouched": "vouched for"}


def option_lines() -> Iterator[str]:
    """The options of all methods; methods that share an option share its row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, kind in METHODS.items():
        for flag in flags(kind):
            row = (f"--{flag.name.replace('_', '-')}", _default(flag, kind), _limits(flag), literal(flag.help))
            found.setdefault(row, []).append(code(name))
    order = [row[0] for row in found]  # rows of one option stand together
    rows = [
        (code(flag), ", ".join(methods), default, limits, text)
        for (flag, default, limits, text), methods in sorted(found.items(), key=lambda row: order.index(row[0][0]))
    ]
    yield from table(("option", "methods", "default", "limits", "meaning"), (13, 22, 11, 18, 36), rows)


def _kind(flag: Flag) -> str:
    return WORDS.get(flag.kind, "method")


def _default(flag: Flag, kind: type[Method]) -> str:
    """The default of this very method, as JSON has it."""
    value = kind().options().get(flag.name, flag.shown)
    return code(f"{value:g}" if isinstance(value, float) else str(value))


def _limits(flag: Flag) -> str:
    text = str(flag.limits).removeprefix("must be").strip()
    return text.replace("less than inf", "finite")


def checked() -> list[dict[str, Any]]:
    """The stored certificates; raises where they and what is described differ."""
    certificates = records()
    wrong = problems(certificates)
    if wrong:
        raise LookupError(f"the reference of certificates is not complete ({__file__}): {'; '.join(wrong)}.")
    return certificates


DIRECTIVES: dict[str, Callable[..., Iterator[str]]] = {
    "certificate-fields": field_lines,
    "certificate-files": file_lines,
    "certificate-methods": method_lines,
    "method-options": option_lines,
}


def setup(app: Sphinx) -> dict[str, bool]:
    from registry import Listed
    from sphinx.errors import ExtensionError

    for name, written in DIRECTIVES.items():

        class Written(Listed):
            optional_arguments = 1
            write = staticmethod(written)

            def lines(self) -> Iterable[str]:
                try:
                    return list(self.write(*self.arguments))
                except LookupError as error:
                    raise ExtensionError(str(error)) from error

        app.add_directive(name, Written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
