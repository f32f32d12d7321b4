"""A tour with made-up numbers: every outcome can be told and drawn without training anything."""

from dataclasses import replace

from truerisk.certificates.given import Given
from truerisk.tours.costs import Cost, Costs
from truerisk.tours.labels import DATA_FILE, Labels, Network
from truerisk.tours.result import Subject, Tour
from truerisk.tours.twin import Move, Twin

MEASURES = {"parameters": 23690.0, "vc": 5.18, "l2-norm": 22.5, "median-margin": 13.6}
TRUE = Network(0.0, 0.0069, 0.0365, 0.0069, "good fit", 16, 898, 899, 100, MEASURES)
RANDOM = Network(
    0.0, 0.858, 0.924, 0.858, "overfits", 804, 898, 899, 100, MEASURES | {"l2-norm": 58.6, "median-margin": 3.3}
)
TWIN = Twin(
    channels=64,
    output_change=5.3e-16,
    kl_raw=38269.2,
    kl_raw_twin=7900340.9,
    kl_tightened=20180.5,
    kl_tightened_twin=20180.5,
    bound_raw=3.28,
    bound_raw_twin=46.9,
    bound_tightened=2.39,
    bound_tightened_twin=2.39,
    risk_raw=1.0,
    risk_tightened=0.99999,
    noise=0.05,
    error=0.0117,
    n=1797,
    measures=(Move("weight norm", 22.5, 292.3), Move("sharpness", 0.136, 28.2), Move("path norm", 5576.0, 5576.0)),
    tried=32,
)
METHODS = (
    Cost("hold-out", 0.035, 0.018, 899, 32),
    Cost("progressive", 0.0449, 0.022, 899, 32),
    Cost("single-draw", 0.0494, 0.02, 899, 32),
    Cost("description-length", 0.4075, 0.13, 1797, 32),
    Cost("pac-bayes-raw", 1.0, 0.0117, 1797, 32, saved=False),
    Cost("pac-bayes-rescaled", 0.99999, 0.0117, 1797, 32, saved=False),
)
SUBJECT = Subject("convnet:64", "digits", 1797, 10, 0.05, 0)
OWN = replace(SUBJECT, model="build", data="mine", given=Given("mine.npz", "net.py:build"))
TOUR = Tour(SUBJECT, Labels(TRUE, RANDOM, 0.9, 1), TWIN, Costs(METHODS, "hold-out"), files={DATA_FILE: b""})


def labels(true=TRUE, random=RANDOM, attempts=1):
    return Labels(true, random, 0.9, attempts)


OUTCOMES = {
    "usual": TOUR,
    "own": replace(TOUR, subject=OWN),
    "not memorized": replace(
        TOUR,
        subject=OWN,
        labels=labels(random=replace(RANDOM, train_error=0.41, gap_lower=0.448, epochs=400), attempts=3),
    ),
    "nothing fits": replace(
        TOUR, labels=labels(replace(TRUE, train_error=0.2), replace(RANDOM, train_error=0.6, gap_lower=0.2))
    ),
    "only random fits": replace(TOUR, labels=labels(replace(TRUE, train_error=0.02))),
    "imbalanced": replace(
        TOUR,
        subject=OWN,
        labels=Labels(
            replace(TRUE, risk_lower=0.0297, risk_upper=0.0925),
            replace(RANDOM, risk_lower=0.408, risk_upper=0.556, gap_lower=0.408),
            chance=0.5,
            attempts=1,
            majority=0.056,
        ),
    ),
    "overlap": replace(
        TOUR,
        subject=OWN,
        labels=labels(replace(TRUE, risk_upper=0.95), replace(RANDOM, risk_lower=0.5, gap_lower=0.5, measures={})),
    ),
    "no twin": replace(
        TOUR,
        subject=OWN,
        twin=None,
        refusal="the network cannot be followed, because " + "x" * 300,
        costs=Costs(METHODS[:4], "x"),
    ),
    "left out": replace(
        TOUR,
        subject=OWN,
        twin=None,
        costs=Costs(METHODS[:1], "hold-out"),
        left_out=("twin", "progressive", "single-draw", "description-length"),
    ),
    "falls": replace(
        TOUR, twin=replace(TWIN, kl_raw_twin=20500.0, bound_raw_twin=0.9, bound_raw=0.95, measures=TWIN.measures[2:])
    ),
    "hardly moves": replace(TOUR, twin=replace(TWIN, kl_raw_twin=38300.0, kl_tightened_twin=20190.0)),
    "refused": replace(
        TOUR, costs=Costs((Cost("hold-out", 1.0), Cost("progressive", None, reason="too few examples.")), "hold-out")
    ),
    "nothing": replace(TOUR, costs=Costs((), "hold-out"), twin=None, refusal="no."),
}
