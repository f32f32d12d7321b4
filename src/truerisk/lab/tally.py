"""Verdicts counted: papers, thresholds from trials, theorems, our own questions, and late commitments apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

GROUPS = {
    "paper": "claims of papers",
    "trial": "thresholds from trials",
    "theorem": "theorems",
    "ours": "our own questions",
    "late": "not known to be committed before their runs",
}
WORDS = ("reproduced", "not reproduced", "no verdict")

Tally = Mapping[str, Mapping[str, int]]  # group -> word -> count; "exact" counts as reproduced


def tally(verdicts: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Counts of (group, word).

    >>> tally([("paper", "reproduced"), ("paper", "no verdict"), ("theorem", "exact")])["paper"]
    {'reproduced': 1, 'not reproduced': 0, 'no verdict': 1}
    """
    counts = Counter((group, "reproduced" if word == "exact" else word) for group, word in verdicts)
    found = {group: {word: counts[group, word] for word in WORDS} for group in GROUPS}
    return {group: words for group, words in found.items() if sum(words.values())}


def added(tallies: Iterable[Tally]) -> dict[str, dict[str, int]]:
    """Several tallies as one."""
    every = list(tallies)
    groups = [group for group in GROUPS if any(group in one for one in every)]
    return {group: {word: sum(one.get(group, {}).get(word, 0) for one in every) for word in WORDS} for group in groups}


def headline(found: Tally) -> str:
    """One sentence with the papers' claims first.

    >>> headline(tally([("paper", "reproduced"), ("paper", "not reproduced"), ("ours", "no verdict")]))
    'Claims of papers: 1 of 2 reproduced, 1 not; our own questions: 0 of 1 reproduced, 1 without verdict.'
    >>> headline({})
    'No claim was checked.'
    """
    text = "; ".join(f"{GROUPS[group]}: {_counts(found[group], group)}" for group in GROUPS if group in found)
    return f"{text[0].upper()}{text[1:]}." if text else "No claim was checked."


def _counts(words: Mapping[str, int], group: str) -> str:
    """
    >>> _counts({"reproduced": 3, "not reproduced": 1, "no verdict": 2}, "paper")
    '3 of 6 reproduced, 1 not, 2 without verdict'
    """
    text = f"{words['reproduced']} of {sum(words.values())} {'hold' if group == 'theorem' else 'reproduced'}"
    text += f", {words['not reproduced']} not" if words["not reproduced"] else ""
    return text + (f", {words['no verdict']} without verdict" if words["no verdict"] else "")
