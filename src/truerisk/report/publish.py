"""Put the pages of a lab run beside its records, and one index over everything that was ever run there."""

from __future__ import annotations

import json
from typing import Any

from truerisk.engine import Store
from truerisk.lab import Result, names
from truerisk.report.lab import render_index, render_lab
from truerisk.report.lab.exhibits import Shown, first_svg, shown
from truerisk.report.lab.picture import number

INDEX = "index.html"


def publish(result: Result, store: Store) -> str:
    """Write the page and the summary of a result; return where the page is.

    The page links to the index, which `publish_index` writes.
    """
    stem = result.stem
    index = "../" * stem.count("/") + INDEX
    page = shown(result)
    where = store.write(f"{stem}.html", render_lab(result, index, page).encode())
    store.write(f"{stem}.json", json.dumps(summary_of(result, page), indent=1).encode())
    return where


def summary_of(result: Result, page: Shown) -> dict[str, Any]:
    """The summary of a result with what the index shows of its page: its hero, and the figure of each claim."""
    summary = result.summary()
    for claim in summary["claims"]:
        figure = page.figure_of(claim["name"])
        claim["figure"] = figure["name"] if figure else ""
    return {**summary, "hero": first_svg(page)}


def publish_index(store: Store) -> str:
    """Write the index page of all experiments that have a summary; return where it is."""
    return store.write(INDEX, render_index(summaries(store)).encode())


def summaries(store: Store) -> list[dict[str, Any]]:
    """The summaries of everything that was run, in the order of `truerisk lab list`, each with a link to its page.

    A smoke run says only that the program works; it is left out where the experiment was also run for real.
    """
    found = []
    for name, content in store.read(store.pages(".json")).items():
        try:
            summary = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if is_summary(summary):
            found.append({**summary, "page": f"{name.removesuffix('.json')}.html"})
    real = {summary["name"] for summary in found if summary["scale"] != "smoke"}
    found = [summary for summary in found if summary["scale"] != "smoke" or summary["name"] not in real]
    order = {name: place for place, name in enumerate(names())}
    return sorted(found, key=lambda s: (order.get(s["name"], len(order)), s["name"], s["scale"]))


def is_summary(value: Any) -> bool:
    """Whether this is what `Result.summary` makes: other files may lie in the same folders.

    Claims are checked one by one where the index reads them: a damaged one must not hide the others.
    """
    words = ("name", "title", "about", "scale")
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in words)
        and all(number(value.get(name)) is not None for name in ("runs", "missing", "seconds"))
        and isinstance(value.get("claims"), list)
        and all(isinstance(claim, dict) for claim in value["claims"])
    )
