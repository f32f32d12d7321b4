"""Summaries of experiments as files hold them: for tests of the scoreboard."""

HERO = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 30"><path d="M0 0L40 30" stroke="#0072b2"/></svg>'
CELL = {"where": {}, "seeds": {"0": 0.45, "1": 0.55}, "mean": 0.5, "low": 0.4, "high": 0.6}


def claim(**changes):
    """A claim as summaries have it."""
    return {
        "name": "small-gap",
        "says": "The gap is large.",
        "source": "Zhang et al. 2017, Table 1",
        "group": "paper",
        "published": "40 to 80 points",
        "published_at": [40, 80],
        "unit": "points",
        "wants": [0.2, None],
        "verdict": "reproduced",
        "reason": "",
        "cells": [CELL],
        "decisive": 0,
        "sentence": "Reproduced: 50.0 points (40.0 to 60.0, 2 seeds); the threshold is at least 20 points.",
        **changes,
    }


EXACT = claim(name="count", group="theorem", verdict="exact", unit=None, wants=None, cells=[], decisive=None)
FAILED = claim(name="failed", verdict="not reproduced", sentence="Not reproduced: -1.0 points.", figure="errors")
OPEN = claim(name="open", group="ours", verdict="no verdict", reason="straddles", sentence="No verdict: too close.")


def summary(*claims, **changes):
    words = {"name": "random-labels", "title": "Networks fit random labels", "about": "About. More.", "scale": "quick"}
    counts = {"runs": 28, "missing": 2, "seconds": 133.2, "data": "", "page": "random-labels/quick.html"}
    return {**words, **counts, "claims": list(claims), **changes}


def folder():
    """Twelve experiments with 72 claims of every group and verdict, with names as long as they come."""
    words = ("reproduced", "reproduced", "not reproduced", "no verdict", "reproduced", "exact")
    names = ("fits-everything", "early-stopping-gains-little", "dropout-does-not-prevent", "gini", "chance", "depth")
    groups = ("paper", "paper", "trial", "trial", "ours", "theorem")
    found = []
    for place in range(12):
        claims = [
            claim(name=name, group=group, verdict=words[(k + place) % 6])
            if words[(k + place) % 6] != "exact"
            else {**EXACT, "name": name, "group": group}
            for k, (name, group) in enumerate(zip(names, groups, strict=True))
        ]
        title = "a" * 90 if place == 3 else f"Does experiment {place} show what the paper shows?"
        hero = {"hero": HERO} if place % 2 else {}
        found.append(summary(*claims, name=f"experiment-{place}", title=title, finding="Found. " * 20, **hero))
    return found
