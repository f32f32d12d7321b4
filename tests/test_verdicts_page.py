"""The verdicts that README and the manual quote are those of the stored record, about the claims of today."""

import json
import re

from test_readme import ROOT, TEXT

from benchmarks.verdicts import FILE, page, sentence
from truerisk.lab import load, names

RECORD = json.loads(FILE.read_text())


def test_the_page_is_that_of_the_record():
    assert FILE.with_suffix(".rst").read_text() == page(RECORD)


def test_readme_quotes_the_sentence():
    assert sentence(RECORD).rstrip(".") in " ".join(TEXT.split())


def test_the_record_is_about_the_claims_of_today():
    assert [entry["name"] for entry in RECORD["experiments"]] == names()
    for entry in RECORD["experiments"]:
        experiment = load(entry["name"])
        assert entry["runs"] == len(experiment.settings(RECORD["scale"]))
        told = {claim["name"]: (claim["says"], claim["threshold"]) for claim in entry["claims"]}
        today = {claim.name: (claim.says, claim.threshold) for claim in experiment.speaking(RECORD["scale"])}
        assert told == today


def test_every_verdict_was_committed_first():
    for entry in RECORD["experiments"]:
        for claim in entry["claims"]:
            assert claim["group"] != "late"
            assert claim["commitment"].endswith("before its runs") or (claim["group"], claim["verdict"]) == (
                "theorem",
                "exact",
            ), claim["name"]


def test_the_manual_names_every_experiment():
    text = (ROOT / "docs" / "lab.rst").read_text()
    assert set(re.findall(r"``([a-z-]+)``", text)) >= set(names())
