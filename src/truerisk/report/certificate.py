"""The page of one certificate."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.certificates.checking.opening import SAFE_SOURCES
from truerisk.certificates.methods import METHODS
from truerisk.certificates.sentences import seen as what_was_seen
from truerisk.certificates.settings import HOLD_OUT
from truerisk.errors import TrueriskError
from truerisk.nets import BUILTIN
from truerisk.report.extra import extra
from truerisk.report.figures import bound_figure, segments
from truerisk.words import bound_percent, decimal, exact, nats, seen_percent

WIDE, NARROW = 780, 320  # pixels: the figure is drawn twice, so that its letters keep their size on a phone

NEEDED = (
    "assumptions",
    "breakdown",
    "data",
    "delta",
    "draws",
    "empirical_risk",
    "files",
    "floor",
    "floor_detail",
    "kl",
    "kl_unrescaled",
    "ledger",
    "method",
    "model",
    "n_certify",
    "n_prior",
    "predictor",
    "risk_bound",
    "seed",
    "sentence",
    "settings",
    "software",
    "version",
    "warnings",
)

PAPERS = {
    "pac-bayes-kl": "PAC-Bayes-kl inequality (Seeger 2002, Maurer 2004)",
    HOLD_OUT: "hold-out: the exact binomial bound of Clopper and Pearson (1934)",
    "single-draw": "disintegrated PAC-Bayes (Rivasplata et al. 2020, Viallard et al. 2024)",
    "description-length": "description length (Occam's bound; Langford 2005, Zhou et al. 2019, Lotfi et al. 2022)",
    "progressive": "progressive validation (Blum, Kalai and Langford 1999)",
    "pac-bayes-around": "PAC-Bayes-kl around given weights (Langford and Caruana 2001, Dziugaite and Roy 2017)",
    "single-draw-around": "disintegrated PAC-Bayes (Rivasplata et al. 2020) around given weights",
    "disagreement": "disagreement with a certified network (Kaariainen 2005; Bazinet, Zantedeschi and Germain 2026)",
}
PREDICTORS = {
    "stochastic": "stochastic: weights are drawn anew for each prediction",
    "single-draw": "single draw: the weights were drawn once from the posterior",
    "deterministic": "deterministic: one network with fixed weights",
}


def write_report(record: dict[str, Any], path: str | Path, others: Sequence[dict[str, Any]] = ()) -> Path:
    """Write the page of the certificate ``record`` to ``path``: one file that needs nothing else.

    ``others`` are records of other methods that share its delta; they get a table.
    """
    path = Path(path)
    write_atomically(path, render(record, others).encode())
    return path


def templates() -> Any:
    """Where pages come from; all text is escaped, and a name that is not given is an error."""
    jinja2 = extra("jinja2")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("truerisk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(record: dict[str, Any], others: Sequence[dict[str, Any]] = ()) -> str:
    """The page as HTML. All text of the record is escaped."""
    missing = [name for name in NEEDED if name not in record]
    if missing:
        raise TrueriskError(f"the record is not a whole certificate: it has no {', '.join(missing)}.")
    environment = templates()
    environment.filters["decimal"] = decimal
    page: str = environment.get_template("certificate.html.j2").render(
        record=record,
        cards=_cards(record),
        figure=_figure(record),
        ledger=_ledger(record),
        methods=_methods([record, *others]) if others else [],
        blocks=_blocks(record),
        forms=_forms(record),
        rescaling=_rescaling(record),
        facts=_facts(record),
        check=_check(record),
    )
    return page


def _cards(record: dict[str, Any]) -> list[dict[str, str]]:
    """The three numbers, each with a sentence that says what it is."""
    floor, delta, n = record["floor_detail"], record["delta"], record["n_certify"]
    certificate = (
        "The true risk is at most this, or something happened that has a probability of at most "
        f"{decimal(delta)} (delta)."
    )
    if record["method"] == HOLD_OUT:
        same = record["floor"] == record["risk_bound"]
        instead = "The certificate is itself a hold-out bound, so this is " + (
            "the same number" if same else "what it would be had no other method been tried"
        )
    else:
        tried = record["settings"]["tried"]
        shared = f", with delta shared among {tried:,} configurations as well" if tried > 1 else ""
        instead = f"The hold-out bound that you could have instead{shared}: {floor['what']}"
    if record["method"] == HOLD_OUT:
        seen = f"The error rate of the network on the {n:,} tested examples. An observation, not a bound."
    elif record["draws"] is None or "disagreement" in record:
        words = what_was_seen(record)
        seen = f"{words[0].upper()}{words[1:]}. An observation, not a bound."
    else:
        wrong, answers = record["counts"]["draws"], record["draws"]["n"] * record["draws"]["passes"]
        seen = (
            f"The error rate of drawn networks on the {n:,} certifying examples, {wrong:,} wrong answers "
            f"out of {answers:,}. An observation, not a bound."
        )
    return [
        {"name": "Certificate", "value": bound_percent(record["risk_bound"]), "meaning": certificate},
        {
            "name": "Floor",
            "value": bound_percent(record["floor"]),
            "meaning": f"{instead} ({floor['errors']:,} wrong out of {floor['n']:,}).",
        },
        {"name": "Seen", "value": seen_percent(record["empirical_risk"]), "meaning": seen},
    ]


def _figure(record: dict[str, Any]) -> dict[str, Any]:
    parts = segments(record)
    total = bound_percent(record["risk_bound"])
    listed = "; ".join(f"{row['part']} {row['label']}" for row in parts)
    bound, floor = record["risk_bound"], record["floor"]
    if record["method"] == HOLD_OUT:
        verdict = "The certificate is itself a hold-out bound"
        verdict += "." if floor == bound else "; what it pays for comparisons makes it larger than the floor."
    else:
        order = "as high as" if floor == bound else "lower than" if floor < bound else "higher than"
        verdict = f"The floor, what a plain test on examples kept aside gives, is {order} the certificate here."
    return {
        "wide": bound_figure(record, WIDE),
        "narrow": bound_figure(record, NARROW),
        "alternative": f"Two bars on one axis of risk. The certificate, {total}, is made of: {listed}. "
        f"The floor is {bound_percent(floor)}.",
        "parts": parts,
        "total": total,
        "verdict": verdict,
    }


def _ledger(record: dict[str, Any]) -> dict[str, Any]:
    total = sum((exact(entry["delta"]) for entry in record["ledger"]), Decimal(0))
    return {"total": total, "sign": "≤" if total <= exact(record["delta"]) else ">"}


def _methods(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    """One row for each method; the certificate of the page is the first."""
    return [
        {
            "method": record["method"],
            "predictor": record["predictor"],
            "bound": bound_percent(record["risk_bound"]),
            "seen": seen_percent(record["empirical_risk"]),
            "kl": "" if record["kl"] is None else nats(record["kl"]),
            "floor": bound_percent(record["floor"]),
        }
        for record in records
    ]


def _blocks(record: dict[str, Any]) -> list[dict[str, str]]:
    """Progressive validation: what each model was tested on."""
    tested = record.get("progressive", {}).get("blocks", [])
    return [
        {"model": str(i), "n": f"{b['n']:,}", "errors": f"{b['errors']:,}", "rate": seen_percent(b["errors"] / b["n"])}
        for i, b in enumerate(tested, start=1)
    ]


def _forms(record: dict[str, Any]) -> list[dict[str, str]]:
    """The certificate's own form first, then the looser ones."""
    others = record.get("other_forms") or {}
    if not others:
        return []
    rows = [("kl (the certificate)", record["risk_bound"]), *others.items()]
    return [{"name": name, "value": bound_percent(v), "note": "says nothing" if v >= 1 else ""} for name, v in rows]


def _rescaling(record: dict[str, Any]) -> dict[str, Any] | None:
    """The KL with and without rescaling, each beside what tuning the prior's width would do."""
    kls = record.get("rescaling")
    if not kls:
        return None
    rows = [
        ("As trained", kls["original"], ""),
        ("With the prior's width tuned", kls["tuned_scale"], "not free: it would have to be paid for"),
        ("Optimally rescaled", kls["rescaled"], "what the certificate uses"),
        ("Both", kls["both"], "not free"),
    ]
    named = [{"name": name, "value": nats(value), "note": note} for name, value, note in rows]
    return {"free": f"{kls['free_log_scales']:,}", "rows": named}


def _facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """How the certificate was made, as rows of a table."""
    data, settings, software = record["data"], record["settings"], record["software"]
    learnt = settings["prior"] != "none"
    plain = record["kl"] is None  # no posterior, no prior
    rows = [
        ("Method", _method(record["method"])),
        ("Predictor", PREDICTORS.get(record["predictor"], record["predictor"])),
        ("Network", f"{record['model']['name']} ({record['model']['kind']})"),
    ]
    if settings["prior"] == "none":
        rows.append(("Training", "came trained; nothing was trained here"))
    else:
        rows.append(("Training" if plain else "Prior", _prior(settings, plain)))
    shape = " \u00d7 ".join(map(str, data["input_shape"]))
    rows += [
        ("Data", f"{data['name']}: {data['n']:,} examples, {data['classes']} classes, inputs {shape}"),
        ("Examples per class", ", ".join(f"{count:,}" for count in data["counts"])),
        ("Data sha256", data["sha256"]),
        ("Examples for certifying", f"{record['n_certify']:,}"),
    ]
    if record["n_prior"]:
        label = f"Examples for {'training' if plain else 'the prior'}" if learnt else "Examples left out"
        rows.append((label, f"{record['n_prior']:,}"))
    if record["kl"] is not None:
        before = record["kl_unrescaled"]
        rows.append(("KL(posterior, prior)", f"{nats(record['kl'])} nats"))
        rows.append(("KL before rescaling", f"{nats(before)} nats"))
    if "log_ratio" in record:
        rows.append(("Log density ratio of the draw", f"{nats(record['log_ratio'])} nats"))
    if "bits" in record:
        rows.append(("Length of the file", f"{record['bits']:,} bits"))
    rows += _disagreement(record)
    if record["draws"] is not None:
        rows.append(("Draws", _draws(record["draws"])))
    rows += [
        ("Configurations paid for", f"{settings['tried']:,}"),
        ("Methods that share delta", f"{settings.get('methods', 1):,}"),
        ("delta", decimal(record["delta"])),
        ("Seed", str(record["seed"])),
        ("Bound, all digits", repr(record["risk_bound"])),
        ("Versions", ", ".join(f"{k} {v}" for k, v in {"truerisk": record["version"], **software}.items())),
    ]
    return rows


def _method(name: str) -> str:
    return PAPERS.get(name) or (f"{name}: {METHODS[name].summary}" if name in METHODS else name)


def _disagreement(record: dict[str, Any]) -> list[tuple[str, str]]:
    found = record.get("disagreement")
    if not found:
        return []
    counted = f"{found['disagreements']:,} of {found['unlabelled']:,}"
    return [
        ("Surrogate", f"a new network, certified at {bound_percent(found['surrogate_bound'])} by {found['surrogate']}"),
        ("Disagreements", f"{counted} unlabelled inputs, so at most {bound_percent(found['upper'])}"),
    ]


def _prior(settings: dict[str, Any], plain: bool) -> str:
    plan = settings["plans"].get("prior")
    if settings["own_training"]:
        how = "trained by the user's own function"
    elif plan:
        how = f"trained for {plan['epochs']} epochs with {plan['optimizer']}, learning rate {plan['lr']:g}"
    else:
        how = "trained"
    if plain and settings["prior"].startswith("split"):
        return f"{settings['prior']}: {how}, on its own examples only"
    if plain:
        return "no examples were set aside; all of them certify"
    std = settings["prior_std"]
    width = "width chosen on its own examples" if std is None else f"width {std:g}/√fan-in"
    centre = {
        "zero": "a Gaussian around zero",
        "init": "a Gaussian around the seeded initialization",
    }.get(settings["prior"], f"a Gaussian around a network {how}, on the prior's examples only")
    return f"{settings['prior']}: {centre}; {width}"


def _draws(draws: dict[str, Any]) -> str:
    passes = f"{draws['passes']:,} pass{'es' if draws['passes'] != 1 else ''} over {draws['n']:,} examples"
    shared = (
        "new weights for each example" if draws["size"] == 1 else f"new weights for each {draws['size']:,} examples"
    )
    return f"{passes}, {shared}, {draws['precision']}"


def _check(record: dict[str, Any]) -> dict[str, Any]:
    """The commands that check this certificate, and what they can't tell."""
    settings = record["settings"]
    own_data = str(record["data"]["source"]).removesuffix(":test") not in SAFE_SOURCES
    model = "" if record["model"]["kind"] == BUILTIN else " --model FILE.py:FACTORY"
    verify = "truerisk verify DIR" + (" --data FILE" if own_data else "") + model
    unchecked = ["that the examples are independent draws, without near copies or groups"]
    retrain = ""
    if settings["prior"] == "none":
        unchecked.append("that the network never saw the examples it was tested on")
    elif record["n_prior"]:
        subject = "network" if record["kl"] is None else "prior"
        unchecked.append(f"that the {subject} saw only its own examples, unless --retrain trains it again")
        retrain = "" if settings["own_training"] else f"{verify} --retrain"
    if "disagreement" in record:
        unchecked.append("that the network never saw the unlabelled inputs")
    if settings["own_training"]:
        unchecked.append(
            "what your training function did, unless you hand it over again: truerisk.verify(..., fit=...)"
        )
    unchecked.append(
        f"that no more than {settings['tried']:,} configurations were compared on this data"
        if settings["tried"] > 1
        else "that nothing else was compared with this on the same data"
    )
    return {
        "verify": verify,
        "retrain": retrain,
        "predict": f"truerisk predict DIR --data FILE{model}",
        "unchecked": unchecked,
    }
