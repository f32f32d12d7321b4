"""The pictures of README.md and the numbers that it quotes: `make pictures` draws them anew, in some four minutes.

Each picture is one small SVG on a light card, so that it can be read on light and on dark pages. Everything is computed
here, with the defaults that a user gets: `truerisk certify`, `truerisk tour` and `truerisk lab run random-labels`. A
folder after the command is where the runs of the lab are kept.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import truerisk
from truerisk import lab, words
from truerisk.atomic import write_atomically
from truerisk.certificates.story import tell
from truerisk.data.randomization import LABELS
from truerisk.report.certificate import scale_of
from truerisk.report.scale import scale_svg
from truerisk.report.tour_figures import labels_figure, twin_figure

HERE = Path(__file__).parents[1] / "docs" / "pictures"
NUMBERS = "numbers.json"
WIDTH, EDGE = 720, 20  # pixels: of a picture, and around it
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
STYLE = f"""
text {{ font-family: {FONT}; font-size: 13px; fill: #1b1d21; }}
.strong {{ font-weight: 600; font-size: 14px; }} .soft, .label, .end {{ fill: #565b63; }}
.number {{ fill: #1b1d21; font-weight: 650; }}
.scale text {{ font-size: 16px; }} .scale .strong, .scale .strong .number {{ font-size: 20px; fill: #14653a; }}
.halo {{ paint-order: stroke; stroke: #fdfdfb; stroke-width: 5px; }}
.text-2, .fill-2 {{ fill: #3f7d7e; }} .text-3, .fill-3 {{ fill: #b0402c; }} .fill-0 {{ fill: #1f4e79; }}
.text-2, .text-3 {{ font-weight: 600; }}
.line-2 {{ stroke: #3f7d7e; }} .line-3 {{ stroke: #b0402c; }} .slope {{ fill: none; stroke-width: 2.5; }}
.leader {{ fill: none; stroke: #8b9098; }} .dot {{ fill: #1b1d21; }} .grid {{ stroke: #d9d9d2; }}
.chance {{ stroke: #565b63; stroke-width: 1.5; stroke-dasharray: 5 4; }}
circle.ring {{ fill: #fdfdfb; stroke: #1b1d21; stroke-width: 2.5; }}
"""


def main() -> None:
    """Compute, draw and write everything."""
    certificate = truerisk.certify()
    tour = truerisk.tour()
    result = lab.run("random-labels", out=sys.argv[1] if len(sys.argv) > 1 else "runs")
    assert tour.twin is not None
    drawn = {
        "certify": scale_svg(scale_of(tell(certificate.record)), WIDTH),
        "learned": labels_figure(tour.labels, WIDTH),
        "measure": twin_figure(tour.twin, WIDTH),
        "lab": corruption_figure(_test_errors(result), WIDTH),
    }
    for name, svg in drawn.items():
        write_atomically(HERE / f"{name}.svg", card(svg).encode())
    quoted = numbers(certificate, tour.to_json(), result)
    write_atomically(HERE / NUMBERS, (json.dumps(quoted, indent=1) + "\n").encode())
    print(json.dumps(quoted, indent=1))


def numbers(certificate: truerisk.Certificate, tour: Mapping[str, Any], result: lab.Result) -> dict[str, str]:
    """What README.md quotes, as it is written there."""
    twin, errors = tour["twin"], _test_errors(result)
    ends = [[row["error"] for row in errors if row["p"] == p] for p in (0.0, 1.0)]
    return {
        "certificate": words.bound(certificate.risk_bound),
        "certified percent": words.bound_percent(certificate.risk_bound),
        "observed error": words.seen(certificate.empirical_risk),
        "true labels, at most": words.bound_percent(tour["true_labels"]["risk_upper"]),
        "random labels, at least": words.lower_percent(tour["random_labels"]["risk_lower"]),
        "KL, as trained": f"{ceil(twin['kl_raw']):,}",
        "KL, twin": f"{ceil(twin['kl_raw_twin']):,}",
        "KL, tightened": f"{ceil(twin['kl_tightened']):,}",
        "test error, true labels, at most": words.bound_percent(max(ends[0])),
        "test error, random labels, at least": words.lower_percent(min(ends[1])),
    }


def corruption_figure(rows: list[dict[str, Any]], width: int) -> str:
    """Test error against the share of random labels, a point per network; all of them fit their training labels."""
    left, right, top, bottom = 48, width - 12, 34, 250

    def point(p: float, error: float) -> str:
        return f"{left + (right - left) * p:.1f},{bottom - (bottom - top) * error:.1f}"

    count = len({row["network"] for row in rows})
    parts = []
    for percent in (0, 25, 50, 75, 100):
        y, x = bottom - (bottom - top) * percent / 100, left + (right - left) * percent / 100
        anchor = "end" if percent == 100 else "middle"
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{left - 8}" y="{y + 4.5:.1f}" text-anchor="end">{percent}%</text>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 20}" text-anchor="{anchor}">{percent}%</text>')
    for network in sorted({row["network"] for row in rows}):
        own = sorted((row["p"], row["error"]) for row in rows if row["network"] == network)
        spots = [point(*each) for each in own]
        if len(spots) > 2:  # a line between true and random labels alone would be a guess
            parts.append(f'<polyline class="slope line-3" points="{" ".join(spots)}"/>')
        for x, y in (spot.split(",") for spot in spots):
            parts.append(f'<circle class="text-3" cx="{x}" cy="{y}" r="3.5"/>')
    parts.append(f'<polyline class="slope line-2" points="{point(0, 0)} {point(1, 0)}"/>')
    parts += [
        f'<text class="text-3 halo" x="{left + 12}" y="{top + 24}">error on new images</text>',
        f'<text class="text-2 halo" x="{right - 8}" y="{bottom - 12}" text-anchor="end">'
        "error on the training images: 0%</text>",
        f'<text class="strong" x="0" y="16">{count} networks, trained until they fit every label</text>',
        f'<text class="soft" x="{(left + right) / 2:.0f}" y="{bottom + 40}" text-anchor="middle">'
        "share of training labels that were replaced by random ones</text>",
    ]
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 50}">{"".join(parts)}</svg>'


def card(svg: str) -> str:
    """A picture as a file of its own: on a light card, with its style inside."""
    tag = svg[: svg.index(">") + 1]
    *_, width, height = (float(each) for each in re.findall(r"[\d.]+", re.findall(r'viewBox="([^"]*)"', tag)[0]))
    kind = " ".join(re.findall(r'class="([^"]*)"', tag))
    inner = svg.removeprefix(tag).removesuffix("</svg>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * EDGE:g} {height + 2 * EDGE:g}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" rx="8" fill="#fdfdfb"/>'
        f'<g class="{kind}" transform="translate({EDGE},{EDGE})">{inner}</g></svg>\n'
    )


def _test_errors(result: lab.Result) -> list[dict[str, Any]]:
    """Mean test error of each network, for each share of random labels; at quick scale, all of them are on digits."""
    labels = result.rows.converged().where(treatment=LABELS)
    return [
        {"network": network, "p": p, "error": some.mean("test_error")}
        for (network, p), some in labels.groups("model", "p")
        if len(some)
    ]


if __name__ == "__main__":
    main()
