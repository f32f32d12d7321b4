"""The lesson of `certified-descent`: certificates that test networks see the second descent, others do not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.certified_descent import LAST, THRESHOLDS
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line
from truerisk.lab.readout_certificates import AROUND, CODE, MODEL
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.strips import class_words, strip, strips
from truerisk.lab.units import PERCENT
from truerisk.nets import predict_labels
from truerisk.nets.random_network import fit_least_norm, random_network
from truerisk.seeds import derive
from truerisk.words import bound_percent

NAMES = {
    "hold-out": "hold-out",
    "progressive": "progressive",
    "pac-bayes-split": "PAC-Bayes, split prior",
    "pac-bayes-zero": "PAC-Bayes, zero prior",
    AROUND: "PAC-Bayes, around",
    CODE: "description length",
}
CERTIFICATE, BASELINE = "certificate", "hold-out baseline"
RISK, ALL = "measured risk", "measured risk, readout of all n"
WHY = {
    "hold-out": "Counts errors of one readout on new examples.",
    "progressive": "Averages five readouts, which peak at five sizes.",
    "pac-bayes-split": "Its posterior stays at the prior, so it only tests the prior.",
    "pac-bayes-zero": "Its posterior is no interpolating readout, so it has no peak.",
    AROUND: "The KL grows with the number of features, past all use.",
    CODE: "Among many small weights, short codes keep too few: more errors.",
}
SIZE = Axis("ratio", "features / examples (N / n)", log=True)
ERROR = Axis("value", "bound or error", PERCENT, zero=True, bound=True)
GUESSING = Rule(0.9, "guessing", shaded=True)
NATS_OF_GUESSING = -math.log(1 - GUESSING.value)
BLOCKS = 5
SHOWN, TILES = (0.5, 1.0, LAST), 12  # ratios of the pictures, and images in a strip
MOST = 500  # examples that the demo solves for


def figures(rows: Rows) -> list[Exhibit]:
    made = rows.where(method=list(NAMES)).having(name=lambda run: NAMES[run["method"]])
    made = Rows(sorted(made, key=lambda run: (list(NAMES).index(run["method"]), run["ratio"])), made.missing)
    model = rows.where(method=[MODEL])
    own = any("data_sha256" in run for run in rows)  # the number of classes is not in the records
    rules = [Rule(1.0, "vacuous", shaded=True)] if own else [GUESSING]
    return [
        _curves(made, model, rules),
        _together(made, model, rules),
        _charged(made, [] if own else [Rule(NATS_OF_GUESSING, "guessing, with no error observed")]),
        _predictors(made),
        _blocks(made),
        _table(made, model),
    ]


def _curves(made: Rows, model: Rows, rules: Sequence[Rule]) -> Figure:
    rows: list[dict[str, Any]] = []
    for run in made:
        kinds = {CERTIFICATE: run["bound"], BASELINE: run["baseline"], RISK: run["risk"]}
        rows += [_point(run, kind, value) for kind, value in kinds.items()]
    present = {run["method"] for run in made}
    for method in (method for method in NAMES if method in present):
        rows += [{**_point(run, ALL, run["risk"]), "name": NAMES[method]} for run in model]
    return Figure(
        "certificates",
        "Six certificates along one double-descent curve",
        "Upper bounds on the error of random-feature classifiers, and measured risks on new examples. Each bound holds "
        "with probability 95%, not all at once. A dot marks where the features reach the certificate's own training "
        "examples; a certificate that sees the second descent falls from there.",
        rows,
        SIZE,
        ERROR,
        Line(),
        series="kind",
        facet="name",
        rules=rules,
        dots=_thresholds(made),
        dots_title="threshold",
        observed=(RISK, ALL),
        claims=("hold-out-follows", "progressive-follows", "split-prior-follows", "data-free-prior-is-flat"),
    )


def _point(run: Row, kind: str, value: float) -> dict[str, Any]:
    return {"seed": run["seed"], "ratio": run["ratio"], "name": run.get("name"), "kind": kind, "value": value}


def _thresholds(made: Rows) -> list[dict[str, Any]]:
    """One dot for each method: its mean bound at its own threshold."""
    found = []
    for method, ratio in THRESHOLDS.items():
        bounds = [run["bound"] for run in made if run["method"] == method and run["ratio"] == ratio]
        if bounds:
            mean = statistics.fmean(bounds)
            found.append({"ratio": ratio, "value": mean, "name": NAMES[method]})
    return found


def _together(made: Rows, model: Rows, rules: Sequence[Rule]) -> Figure:
    seed = min(made.seeds(), default=0)
    return Figure(
        "together",
        "All certificates in one picture",
        "The six upper bounds against the number of features; dots are the measured risk of the readout of all n "
        "examples in one run. Each bound holds with probability 95%, not all at once. If a bound followed the dots, it "
        "would have its peak at 1 and its least value at the right.",
        [{**_point(run, run["name"], run["bound"])} for run in made],
        SIZE,
        Axis("value", "upper bound on the error", PERCENT, zero=True, bound=True),
        series="kind",
        series_title="certificate",
        rules=rules,
        dots=[{"ratio": run["ratio"], "value": run["risk"]} for run in model if run["seed"] == seed],
        dots_title="measured risk",
        claims=("half-beats-all", "hold-out-prefers-many", "code-prefers-few"),
    )


def _charged(made: Rows, rules: Sequence[Rule]) -> Figure:
    return Figure(
        "charged",
        "Which part of the bound grows with the features?",
        "KL from the prior, or code length, per certification example. At the line a bound is no better than guessing, "
        "even if no error is observed. If a complexity term followed the second descent, it would fall to the right of "
        "1.",
        [_point(run, run["name"], _nats(run) / run["n_certify"]) for run in made if _nats(run) > 0],
        SIZE,
        Axis("value", "nats per example", log=True),
        series="kind",
        series_title="certificate",
        rules=rules,
        claims=("around-divergence-grows", "split-prior-in-disguise"),
    )


def _nats(run: Row) -> float:
    """KL, or bits in nats; 0 for certificates that have neither."""
    return run["kl"] or (run["bits"] or 0) * math.log(2)


def _predictors(made: Rows) -> Figure:
    return Figure(
        "predictors",
        "Does the certified predictor itself have a peak?",
        "Measured risk of the predictor that each certificate is about. Data-free PAC-Bayes certifies sampled weights, "
        "description length a compressed readout: neither is the interpolating readout whose error peaks.",
        [_point(run, run["name"], run["risk"]) for run in made],
        SIZE,
        Axis("value", "measured risk", PERCENT, zero=True),
        series="kind",
        series_title="certificate",
        claims=("data-free-prior-is-flat", "around-is-vacuous", "code-does-not-follow"),
    )


def _blocks(made: Rows) -> Figure:
    rows = [
        {"seed": run["seed"], "ratio": run["ratio"], "trained": f"{50 + 10 * j}%", "error": error}
        for run in made
        if run["method"] == "progressive"
        for j, error in enumerate(run["blocks"])
    ]
    return Figure(
        "blocks",
        "Why is the progressive peak lower and wider?",
        "Errors of the five readouts behind a progressive certificate, each tested on the next tenth of the examples. "
        "If each has its peak where the features reach its own training examples, their average has a lower and wider "
        "one. The certificate is about that average.",
        rows,
        SIZE,
        Axis("error", "error on the next block", PERCENT, zero=True),
        series="trained",
        series_title="trained on",
        claims=("progressive-smears",),
    )


def _table(made: Rows, model: Rows) -> Table:
    """Means over seeds at two sizes; the best size is that of the one seed with all sizes."""
    seed, cells = min(made.seeds(), default=0), []
    for method, name in NAMES.items():
        runs = [run for run in made if run["method"] == method]
        whole = [run for run in runs if run["seed"] == seed]
        ends = (_mean(runs, ratio) for ratio in (THRESHOLDS[method], LAST))
        best = min(whole, key=lambda run: run["bound"])["ratio"] if whole else None
        cells.append([name, _times_n(THRESHOLDS[method]), *ends, _times_n(best), WHY[method]])
    least = [run for run in model if run["seed"] == seed]
    best = _times_n(min(least, key=lambda run: run["risk"])["ratio"]) if least else "-"
    return Table(
        "methods",
        "Which certificate prefers which size?",
        "Mean bounds, rounded up, at the certificate's own threshold and at the largest size, and the size with the "
        f"smallest bound in the first run. In that run, the measured risk of the readout of all n is least at {best}.",
        ("Certificate", "Threshold", "Bound there", "Bound at 4n", "Smallest at", "Reason"),
        cells,
    )


def _mean(runs: Sequence[Row], ratio: float) -> str:
    bounds = [run["bound"] for run in runs if run["ratio"] == ratio]
    return bound_percent(statistics.fmean(bounds)) if bounds else "-"


def _times_n(ratio: float | None) -> str:
    return "-" if ratio is None else f"N = {'' if ratio == 1 else f'{ratio:g}'}n"


def demo(setting: Setting) -> Record:
    """New images with the answers of the readouts of half and of all examples, at three sizes."""
    s, n = setting, min(setting["n"], MOST)
    train, test = samples(s["data"], n, s["n_test"], derive(s["seed"], "demo examples"), s.get("data_sha256"))
    if not is_images(test):
        return {"strips": []}
    chosen, found = slice(TILES), []
    for share, words in ((0.5, "half of the examples"), (1.0, "all examples")):
        part = train.take(np.arange(round(share * n)))
        dataset = TensorDataset(torch.tensor(part.X, dtype=torch.float32), torch.tensor(part.y))
        for ratio in SHOWN:
            build = random_network(round(ratio * n), derive(s["seed"], "demo features"))
            said = predict_labels(fit_least_norm(build(train.input_shape, train.classes), dataset), test.X)
            wrong = percent(float(np.mean(said != test.y)))
            name = f"{words}, {_times_n(ratio)} (risk {wrong})"
            found.append(strip(name, test.X[chosen], class_words(test, said[chosen]), (said != test.y)[chosen]))
    return {"strips": found, "examples": n}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("strips"):
        return []
    caption = (
        f"The first new images with the answers of readouts of half and all of {record['examples']:,} examples, for "
        "three numbers N of features; misclassified ones are marked. If more data can hurt, then at N = n: there the "
        "readout of all examples is at its threshold, and that of half is far beyond."
    )
    return [
        Images("answers", "New images and their answers", caption, strips(record), claims=("half-beats-all",)),
    ]


LESSON = Lesson(
    figures=figures,
    hero="certificates",
    findings=(
        Finding(
            ("hold-out-follows", "data-free-prior-is-flat", "code-does-not-follow"),
            "Held-out tests see the second descent; data-free PAC-Bayes and code lengths do not.",
            "Held-out tests, data-free PAC-Bayes, and code lengths do not differ as expected.",
            "Which certificates see the second descent is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Do data-free certificates see the second descent with four times as many examples, on MNIST?",
            "truerisk lab run certified-descent --scale medium",
        ),
        Question(
            "Where is the peak of each certificate on signals that are hard to classify?",
            "truerisk lab run certified-descent --data mnist1d",
        ),
        Question(
            "Would a ridge remove the peak, and with it the difference between the certificates?",
            "truerisk lab run convex-regularization",
        ),
    ),
    formulas=(
        Formula(
            r"\mathrm{risk} \le \mathrm{kl}^{-1} ( \hat{r}, (\mathrm{KL}(Q, P) + \ln (2 \sqrt{n} / \delta)) / n )",
            "PAC-Bayes bounds grow with the observed error and with the KL per certification example.",
        ),
        Formula(
            r"\mathrm{KL} \ge (D / 2) \ln (1 + |w|^2 / (D \sigma^2))",
            "Noise of deviation sigma around D weights w has at least this KL, whatever the scale of a prior "
            "centered at zero. It can grow with D even where the norm of w falls.",
        ),
    ),
)
