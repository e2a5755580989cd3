"""The report of an audit: the verdict, then violations, then measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from relay_lab.report.chart import Span, draw_lines
from relay_lab.report.page import Figure, draw_note, draw_page, draw_table, draw_tiles, draw_verdict
from sitestack.promises import Fate

Rows = Sequence[Mapping[str, Any]]

_REPLACED = "the relay is replaced"
#: Labels of ended processes: a stop before the end only affects which messages they are owed.
_FATES = {Fate.RUNNING.value: "ended", Fate.STOPPED.value: "ended"}


@dataclass(frozen=True, slots=True)
class ReportData:
    """The contents of the report, in memory. Times are in seconds since 1970."""

    #: The output of `relay audit --json`, which extends that of `relay check --json`.
    summary: Mapping[str, Any]
    begin_s: float
    end_s: float
    #: Length (s) of an interval in the following tables.
    stretch_s: float
    #: pair, p50, p99, messages.
    lag: Rows
    #: begin_s, pair, p50, p99.
    lag_over_time: Rows
    #: begin_s, site, via, messages.
    throughput: Rows
    #: begin_s, site, origin, node, messages, most in an interval, and bytes of the busiest origins.
    rates: Rows
    #: origin_site, node_before, node, site, taken_s, last_before_s, first_after_s, silence_ms.
    failovers: Rows
    #: vector, members, processes, first_s, spread_ms.
    global_views: Rows
    #: site, node, fate, delivered, duplicated, reordered, in_gaps, missing.
    processes: Rows
    #: origin_site, site, sent, delivered, excused, missing.
    conservation: Rows


def render(data: ReportData) -> str:
    sections = [*_verdict(data), *_violations(data), *_lag(data), *_throughput(data), *_failovers(data)]
    sections += [*_conservation(data), *_processes(data), *_global_views(data), *_notes(data)]
    return draw_page("Relay audit", sections)


def _verdict(data: ReportData) -> Iterator[str]:
    summary = data.summary
    counts = {key: f"{summary[key]:,}" for key in ("deliveries", "lost", "duplicated", "reordered", "gaps")}
    words = {
        "deliveries": "deliveries",
        "lost": "lost",
        "duplicated": "duplicated",
        "reordered": "reordered",
        "gaps": "in gaps",
    }
    told = summary["not_judged"] or ", ".join(f"{counts[key]} {words[key]}" for key in list(counts)[1:])
    judged = ("deliveries", "duplicated") if summary["not_judged"] else counts
    tiles = [(words[key], counts[key]) for key in judged]
    worst = max((row["silence_ms"] for row in data.failovers if row["silence_ms"] is not None), default=None)
    if worst is not None:
        tiles.append(("longest failover", _duration(worst)))
    slowest = max((row["p99"] for row in data.lag), default=None)
    if slowest is not None:
        tiles.append(("worst p99 lag", _duration(slowest)))
    yield "<h1>Relay audit</h1>"
    lasted = _duration((data.end_s - data.begin_s) * 1000)
    yield draw_note(f"{_clock(data.begin_s)} to {_clock(data.end_s)} UTC, {lasted}")
    extent = f"{summary['deliveries']:,} deliveries at {summary['processes']} processes"
    yield draw_verdict(summary["verdict"] == "pass", f"{extent}: {told}", summary["verdict"].upper())
    yield draw_tiles(tiles)


def _violations(data: ReportData) -> Iterator[str]:
    if data.summary["violations"]:
        columns = {"invariant": "Invariant", "where": "Where", "what": "First example"}
        yield "<h2>Problems</h2>" + _table(data.summary["violations"], columns)


def _lag(data: ReportData) -> Iterator[str]:
    stretch = f"From the send to each delivery at the other site, by when it was sent, in stretches of {data.stretch_s:g} s."
    yield "<h2>Lag between sites</h2>" + draw_note(f"{stretch} {data.summary['clocks']}")
    yield _table(data.lag, {"pair": "Sites", "p50": "p50, ms", "p99": "p99, ms", "messages": "Messages"})
    pairs = dict.fromkeys(row["pair"] for row in data.lag_over_time)
    for pair in pairs:
        yield f"<h3>{escape(pair.replace('>', ' to '))}</h3>{_lag_chart(data, pair)}"
    if not pairs:
        yield draw_lines({}, "lag, ms")


def _lag_chart(data: ReportData, pair: str) -> str:
    rows = [row for row in data.lag_over_time if row["pair"] == pair]
    series = {
        name: [(_since_begin(row, data), row[key]) for row in rows]
        for key, name in (("p50", "median"), ("p99", "99th percentile"))
    }
    return draw_lines(
        series, "lag, ms", spans=_spans(data, pair), spans_are=_REPLACED, log=True, until=data.end_s - data.begin_s
    )


def _throughput(data: ReportData) -> Iterator[str]:
    series = {
        f"{site}, {'own' if via == 'local' else 'relayed'} messages": _rates(data, site, via)
        for site, via in dict.fromkeys((row["site"], row["via"]) for row in data.throughput)
    }
    note = f"At all members of a site together, in stretches of {data.stretch_s:g} s."
    yield "<h2>Throughput</h2>" + draw_note(note)
    yield draw_lines(series, "messages delivered per second", spans=_spans(data), spans_are=_REPLACED)
    seconds = max(data.end_s - data.begin_s, 1e-9)
    rates = [{**row, "rate": row["messages"] / seconds, "peak": row["most"] / data.stretch_s} for row in data.rates]
    columns = {"site": "Site", "node": "Origin", "messages": "Messages", "bytes": "Bytes"}
    columns |= {"rate": "per s, whole run", "peak": "per s, busiest stretch"}
    yield f"<h3>Who sent most</h3>{_table(rates, columns)}"


def _rates(data: ReportData, site: str, via: str) -> list[tuple[float, float]]:
    """Return messages per second in each interval of the run, also in those without messages."""
    found = {row["begin_s"]: row["messages"] for row in data.throughput if (row["site"], row["via"]) == (site, via)}
    first, last = (math.floor(each / data.stretch_s) for each in (data.begin_s, data.end_s))
    counts = {math.floor(begin_s / data.stretch_s + 0.5): messages for begin_s, messages in found.items()}
    steps = range(first, max(last, first) + 1)
    return [(max(0.0, step * data.stretch_s - data.begin_s), counts.get(step, 0) / data.stretch_s) for step in steps]


def _failovers(data: ReportData) -> Iterator[str]:
    yield "<h2>Failovers</h2>"
    if not data.failovers:
        yield draw_note("No relay was replaced.")
        return
    yield draw_note("Times since the beginning; of the members of the other site the one that heard nothing for longest.")
    titles = ("Relay of", "Replaced", "Heard at", "Last before", "Taken over", "First after", "Silence")
    rows = []
    for row in data.failovers:
        change = f"{row['node_before']} → {row['node']}"
        times = [_since(row[key], data) for key in ("last_before_s", "taken_s", "first_after_s")]
        silence = "" if row["silence_ms"] is None else _duration(row["silence_ms"])
        rows.append((row["origin_site"], change, row["site"], *times, Figure(silence)))
    yield draw_table(titles, rows)


def _conservation(data: ReportData) -> Iterator[str]:
    if not data.conservation:
        return
    columns = {"origin_site": "From", "site": "To", "sent": "Owed", "delivered": "Delivered", "excused": "In gaps, excused"}
    note = "Messages of each site at all surviving members of each other site; owed messages need an excuse."
    yield "<h2>Conservation across sites</h2>" + draw_note(note)
    yield _table(data.conservation, {**columns, "missing": "Missing"})


def _processes(data: ReportData) -> Iterator[str]:
    columns = {"site": "Site", "node": "Process", "fate": "Fate", "delivered": "Delivered", "duplicated": "Duplicated"}
    columns |= {"reordered": "Reordered", "in_gaps": "In gaps", "missing": "Passed over"}
    rows = [{**row, "fate": _FATES.get(row["fate"], row["fate"])} for row in data.processes]
    yield "<h2>Processes</h2>" + _table(rows, columns)


def _global_views(data: ReportData) -> Iterator[str]:
    if data.global_views:
        rows = [{**row, "since": _since(row["first_s"], data)} for row in data.global_views]
        columns = {"since": "First seen", "vector": "Global view", "members": "Members", "processes": "In force at"}
        yield "<h2>Global views</h2>" + _table(rows, {**columns, "spread_ms": "Apart, ms"})


def _notes(data: ReportData) -> Iterator[str]:
    if data.summary["notes"]:
        yield "<h2>Notes</h2>" + "".join(map(draw_note, data.summary["notes"]))


def _table(rows: Rows, columns: Mapping[str, str]) -> str:
    return draw_table(list(columns.values()), [[row[key] for key in columns] for row in rows])


def _spans(data: ReportData, pair: str = "") -> list[Span]:
    return [
        Span(
            row["last_before_s"] - data.begin_s,
            row["first_after_s"] - data.begin_s,
            f"{row['origin_site']}: {row['node_before']} → {row['node']}, "
            f"{row['site']} heard nothing for {_duration(row['silence_ms'])}",
        )
        for row in data.failovers
        if row["silence_ms"] is not None and pair in ("", f"{row['origin_site']}>{row['site']}")
    ]


def _since_begin(row: Mapping[str, Any], data: ReportData) -> float:
    """Return seconds since the begin; the first interval may start before the run."""
    return max(0.0, float(row["begin_s"]) - data.begin_s)


def _since(moment_s: float | None, data: ReportData) -> Figure:
    return Figure("" if moment_s is None else f"{moment_s - data.begin_s:,.2f} s")


def _clock(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def _duration(milliseconds: float) -> str:
    if milliseconds < 1_000:
        return f"{milliseconds:.1f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
