"""The figures of several scenarios as one HTML page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from relay.instruments.report import Cell, draw_bars, draw_note, draw_page, draw_table, draw_tiles

#: Of each figure the key, the title, and how many of its decimals are shown.
FIGURES = {
    "rate": ("messages/s at each member", 0),
    "cpu_s_per_million": ("CPU s per million", 2),
    "cores": ("busy cores", 2),
    "waiting": ("processes that wait for a core", 2),
    "turns_per_thousand": ("turns per 1,000", 2),
    "batch_messages": ("messages in a batch", 0),
    "rss_mb": ("peak memory of one, MB", 0),
    "rss_sum_mb": ("peak memory of all, MB", 0),
    "p50_us": ("p50 µs", 0),
    "p99_us": ("p99 µs", 0),
    "outage_ms": ("without a delivery, ms", 0),
}


def draw_report(machine: Mapping[str, Any], results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The page: per scenario a chart of its first figure and a table of all. `results`: scenario -> size -> figures."""
    body = [
        "<h1>Relay: benchmarks</h1>",
        draw_note("All processes on the loopback interface of one machine. Compare figures of one page, not of two machines."),
        draw_tiles([(name.replace("_", " "), str(value)) for name, value in machine.items()]),
    ]
    for name, sizes in results.items():
        body += [f"<h2>{escape(name)}</h2>", *_draw_scenario(sizes)]
    return draw_page("Relay: benchmarks", body)


def _draw_scenario(sizes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = dict(figure_rows(sizes))
    keys = [key for key in FIGURES if any(key in figures for figures in rows.values())]
    if not keys:
        return
    first = keys[0]
    yield draw_bars({name: figures[first] for name, figures in rows.items() if first in figures}, FIGURES[first][0])
    cells: list[list[Cell]] = [[name, *[_show(figures.get(key), key) for key in keys]] for name, figures in rows.items()]
    yield draw_table(["", *[FIGURES[key][0] for key in keys]], cells)


def figure_rows(sizes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A row for each object that has figures, however a scenario nests them."""
    for size, figures in sizes.items():
        if any(key in figures for key in FIGURES):
            yield f"{size} bytes", figures
        for inner, deeper in figures.items():
            if inner != "ratio" and isinstance(deeper, Mapping) and any(key in deeper for key in FIGURES):
                yield f"{size} bytes, {inner + ' members' if inner.isdecimal() else inner}", deeper


def _show(value: float | None, key: str) -> Cell:
    if value is None:
        return None
    return round(value) if FIGURES[key][1] == 0 else float(value)
