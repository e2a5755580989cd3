"""The figures of several scenarios as one HTML page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from relay_lab.bench.peers.catalogue import PEERS
from relay_lab.bench.scenarios import SCENARIOS
from relay_lab.report.chart import draw_bars
from relay_lab.report.page import Cell, Figure, draw_note, draw_page, draw_table, draw_tiles

#: Of each figure the key, the title, and how many of its decimals are shown.
FIGURES = {
    "rate": ("messages/s at each member", 0),
    "cpu_s_per_million": ("CPU s per million", 2),
    "cores": ("busy cores", 2),
    "turns_per_thousand": ("turns per 1,000", 2),
    "batch_messages": ("messages in a batch", 0),
    "rss_mb": ("peak memory of one, MB", 0),
    "rss_sum_mb": ("peak memory of all, MB", 0),
    "p50_us": ("p50 µs", 0),
    "p90_us": ("p90 µs", 0),
    "p99_us": ("p99 µs", 0),
    "datagram_bytes": ("bytes in a datagram", 0),
    "cpu_s_per_trip": ("CPU s per round trip", 6),
    "turns_per_trip": ("turns per round trip", 1),
    "datagrams_per_trip": ("datagrams per round trip", 1),
}
#: The figure of a scenario's chart (the first of these that exists) -> its title, with the better direction.
_CHARTED = {
    "rate": "messages a second at each member (longer is better)",
    "p50_us": "round trip in µs, median (shorter is better)",
}
#: The figure of a second chart -> its figure and title.
_CHARTED_TOO = {
    "rate": ("cpu_s_per_million", "CPU seconds of all processes for a million (shorter is better)"),
    "p50_us": ("p99_us", "round trip in µs, 99th percentile (shorter is better)"),
}
#: Titles of figures nested in a scenario.
_NAMES = {"echo": "bare UDP echo", "cut": "WAN cut", "whole": "WAN whole"}

Sizes = Mapping[str, Mapping[str, Any]]


def draw_report(machine: Mapping[str, Any], results: Mapping[str, Sizes], peers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page: description, charts and a table of figures for each scenario, and a table of peers.

    `results`: scenario -> size -> figures. `peers`: scenario -> peer -> its figures, or the reason for none.
    """
    note = "All processes on the loopback interface of one machine. Compare figures of one page, not of two machines."
    body = [
        "<h1>Relay: benchmarks</h1>",
        draw_note(note),
        draw_tiles([(name.replace("_", " "), str(value)) for name, value in machine.items()]),
    ]
    for name, sizes in results.items():
        body += [f"<h2>{escape(name)}</h2>", draw_note(SCENARIOS[name].about)]
        body += _draw_scenario(sizes, peers.get(name, {}))
    return draw_page("Relay: benchmarks", body)


def _draw_scenario(sizes: Sizes, peers: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = dict(figure_rows(sizes)), dict(peer_rows(peers))
    charted = next((key for key in _CHARTED if any(key in figures for figures in ours.values())), None)
    if charted is not None:
        yield _draw_chart(charted, _CHARTED[charted], ours, theirs)
        also, title = _CHARTED_TOO.get(charted, ("", ""))
        if any(also in figures for figures in ours.values()):
            yield _draw_chart(also, title, ours, theirs)
    yield _draw_figures(ours)
    if theirs:
        yield "<h3>Beside it, in turns</h3>"
        yield _draw_figures(theirs)
        yield "<h3>Ours / theirs</h3>"
        yield draw_note("Of a rate more than 1 is better, of everything else less. Medians of the ratios of pairs of windows.")
        yield _draw_figures({name: figures["ratio"] for name, figures in theirs.items()}, decimals=2)
    why = [
        f"{PEERS[name].title}: not applicable, {found['not_applicable']}."
        for name, found in peers.items()
        if "sizes" not in found
    ]
    yield draw_note(" ".join(why)) if why else ""


def _draw_chart(key: str, title: str, ours: Sizes, theirs: Sizes) -> str:
    rows = {**{name if "," in name or not theirs else f"{name}, Relay": figures for name, figures in ours.items()}, **theirs}
    others = {*theirs, *(name for name in rows if name.endswith(_NAMES["echo"]))}
    sizes = list(dict.fromkeys(name.partition(",")[0] for name in rows))
    ordered = [name for size in sizes for name in rows if name.partition(",")[0] == size]
    return draw_bars({name: rows[name][key] for name in ordered if key in rows[name]}, title, others)


def _draw_figures(rows: Mapping[str, Mapping[str, Any]], decimals: int | None = None) -> str:
    keys = [key for key in FIGURES if any(key in figures for figures in rows.values())]
    cells: list[list[Cell]] = [
        [
            name.replace(" ", "\N{NO-BREAK SPACE}"),
            *[_show(figures.get(key), FIGURES[key][1] if decimals is None else decimals) for key in keys],
        ]
        for name, figures in rows.items()
    ]
    return draw_table(["", *[FIGURES[key][0] for key in keys]], cells)


def figure_rows(sizes: Sizes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for size, figures in sizes.items():
        if any(key in figures for key in FIGURES):
            yield f"{size} bytes", figures
        for inner, deeper in figures.items():
            if inner != "ratio" and isinstance(deeper, Mapping) and any(key in deeper for key in FIGURES):
                yield f"{size} bytes, {_NAMES.get(inner, inner)}", deeper


def peer_rows(peers: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, found in peers.items():
        for size, figures in found.get("sizes", {}).items():
            yield f"{size} bytes, {PEERS[name].title}", figures


def _show(value: float | None, decimals: int) -> Cell:
    return None if value is None else Figure(f"{value:,.{decimals}f}")
