"""The HTML report: one file that needs nothing else, the verdict on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from relay.instruments.analytics.charts import Span, draw_lines

Rows = Sequence[Mapping[str, Any]]

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1d2530; background: #fff; margin: 0 auto;
  max-width: 940px; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 38px 0 8px; }
h3 { font-size: 15px; margin: 20px 0 0; }
.when { color: #5a6675; margin: 0 0 18px; }
.verdict { border-radius: 8px; padding: 14px 18px; color: #fff; font-size: 17px; }
.verdict b { font-size: 21px; margin-right: 12px; }
.pass { background: #23713c; } .fail { background: #b1262d; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0 0; }
.tiles div { border: 1px solid #d9dfe6; border-radius: 8px; padding: 8px 14px; min-width: 92px; }
.tiles b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tiles span { color: #5a6675; font-size: 13px; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; } th { text-align: left; color: #5a6675; font-weight: 600; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid #e6eaef; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 100%; height: auto; margin: 6px 0 0; } svg text { font: 12px system-ui, sans-serif; fill: #5a6675; }
svg text.label { fill: #1d2530; } svg .grid { stroke: #e6eaef; } svg .axis { stroke: #9aa5b1; }
svg rect.span { fill: #f3b4a0; opacity: .55; }
.legend span { margin-right: 18px; white-space: nowrap; }
.legend i { display: inline-block; width: 14px; height: 4px; margin-right: 6px;
  vertical-align: middle; } .legend i.span { background: #f3b4a0; height: 12px; }
.note, .none { color: #5a6675; }
"""


@dataclass(frozen=True, slots=True)
class ReportData:
    """What the report shows; all of it fits into memory. Times are in seconds since 1970."""

    #: What `relay audit --json` prints.
    summary: Mapping[str, Any]
    begin_s: float
    end_s: float
    #: How long a stretch of time is in what follows.
    stretch_s: int
    #: pair, p50, p99, messages.
    lag: Rows
    #: begin_s, pair, p50, p99.
    lag_over_time: Rows
    #: begin_s, site, via, messages.
    throughput: Rows
    #: begin_s, site, origin, node, messages, bytes of the busiest origins.
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
    """The page."""
    sections = [_verdict(data), _violations(data), _lag(data), _throughput(data), _failovers(data)]
    sections += [_conservation(data), _processes(data), _global_views(data), _notes(data)]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Relay audit</title>'
    body = "\n".join(section for section in sections if section)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'


def _verdict(data: ReportData) -> str:
    summary = data.summary
    words = {"lost": "lost", "duplicated": "duplicated", "reordered": "reordered", "gaps": "in gaps"}
    counts = ", ".join(f"{summary[key]:,} {word}" for key, word in words.items())
    extent = f"{summary['deliveries']:,} deliveries at {summary['processes']} processes"
    said = f"<b>{summary['verdict'].upper()}</b> {extent}: {counts}"
    tiles = [(f"{summary['deliveries']:,}", "deliveries"), *((f"{summary[key]:,}", word) for key, word in words.items())]
    worst = max((row["silence_ms"] for row in data.failovers if row["silence_ms"] is not None), default=None)
    if worst is not None:
        tiles.append((_duration(worst), "longest failover"))
    slowest = max((row["p99"] for row in data.lag), default=None)
    if slowest is not None:
        tiles.append((_duration(slowest), "worst p99 lag"))
    drawn = "".join(f"<div><b>{value}</b><span>{word}</span></div>" for value, word in tiles)
    return (
        f'<h1>Relay audit</h1><p class="when">{_clock(data.begin_s)} to {_clock(data.end_s)} UTC, '
        f"{_duration((data.end_s - data.begin_s) * 1000)}</p>"
        f'<div class="verdict {summary["verdict"]}">{said}</div><div class="tiles">{drawn}</div>'
    )


def _violations(data: ReportData) -> str:
    found = data.summary["violations"]
    if not found:
        return ""
    columns = [("invariant", "Invariant"), ("where", "Where"), ("what", "First example")]
    return "<h2>What is wrong</h2>" + _table(found, columns)


def _lag(data: ReportData) -> str:
    columns = [("pair", "Sites"), ("p50", "p50, ms"), ("p99", "p99, ms"), ("messages", "Messages")]
    stretch = f"From the send to each delivery at the other site, by when it was sent, in stretches of {data.stretch_s} s."
    clocks = escape(data.summary["clocks"])
    pairs = dict.fromkeys(row["pair"] for row in data.lag_over_time)
    charts = "".join(f"<h3>{escape(pair.replace('>', ' to '))}</h3>{_lag_chart(data, pair)}" for pair in pairs)
    table = _table(data.lag, columns)
    return f'<h2>Lag between sites</h2><p class="note">{stretch} {clocks}</p>{table}{charts or draw_lines({}, "lag, ms")}'


def _lag_chart(data: ReportData, pair: str) -> str:
    rows = [row for row in data.lag_over_time if row["pair"] == pair]
    series = {
        name: [(_since_begin(row, data), row[key]) for row in rows]
        for key, name in (("p50", "median"), ("p99", "99th percentile"))
    }
    return draw_lines(series, "lag, ms", spans=_spans(data, pair), log=True)


def _throughput(data: ReportData) -> str:
    series = {
        f"{site}, {'own' if via == 'local' else 'relayed'} messages": [
            (_since_begin(row, data), row["messages"] / data.stretch_s)
            for row in data.throughput
            if (row["site"], row["via"]) == (site, via)
        ]
        for site, via in dict.fromkeys((row["site"], row["via"]) for row in data.throughput)
    }
    chart = draw_lines(series, "messages delivered per second", spans=_spans(data))
    columns = [("site", "Site"), ("node", "Origin"), ("messages", "Messages"), ("rate", "per s"), ("bytes", "Bytes")]
    seconds = max(data.end_s - data.begin_s, 1e-9)
    rates = [{**row, "rate": row["messages"] / seconds} for row in data.rates]
    return (
        f'<h2>Throughput</h2><p class="note">At all members of a site together.</p>{chart}'
        f"<h3>Who sent most</h3>{_table(rates, columns)}"
    )


def _failovers(data: ReportData) -> str:
    if not data.failovers:
        return '<h2>Failovers</h2><p class="none">No relay was replaced.</p>'
    rows = [
        {
            **row,
            "change": f"{row['node_before']} → {row['node']}",
            "taken": _since(row["taken_s"], data),
            "before": _since(row["last_before_s"], data),
            "after": _since(row["first_after_s"], data),
            "silence": "" if row["silence_ms"] is None else _duration(row["silence_ms"]),
        }
        for row in data.failovers
    ]
    columns = [
        ("origin_site", "Relay of"),
        ("change", "Replaced"),
        ("site", "Heard at"),
        ("before", "Last before"),
        ("taken", "Taken over"),
    ]
    columns += [("after", "First after"), ("silence", "Silence")]
    note = "Times since the beginning; of the members of the other site the one that heard nothing for longest."
    return f'<h2>Failovers</h2><p class="note">{note}</p>{_table(rows, columns)}'


def _conservation(data: ReportData) -> str:
    columns = [
        ("origin_site", "From"),
        ("site", "To"),
        ("sent", "Owed"),
        ("delivered", "Delivered"),
        ("excused", "In gaps, excused"),
    ]
    note = "Messages of each site at all surviving members of each other site; what is owed and not delivered must be excused."
    if not data.conservation:
        return ""
    table = _table(data.conservation, [*columns, ("missing", "Missing")])
    return f'<h2>Conservation across sites</h2><p class="note">{note}</p>{table}'


def _processes(data: ReportData) -> str:
    columns = [
        ("site", "Site"),
        ("node", "Process"),
        ("fate", "Fate"),
        ("delivered", "Delivered"),
        ("duplicated", "Duplicated"),
    ]
    columns += [("reordered", "Reordered"), ("in_gaps", "In gaps"), ("missing", "Passed over")]
    return "<h2>Processes</h2>" + _table(data.processes, columns)


def _global_views(data: ReportData) -> str:
    if not data.global_views:
        return ""
    rows = [{**row, "since": _since(row["first_s"], data)} for row in data.global_views]
    columns = [("since", "First seen"), ("vector", "Global view"), ("members", "Members"), ("processes", "In force at")]
    return "<h2>Global views</h2>" + _table(rows, [*columns, ("spread_ms", "Apart, ms")])


def _notes(data: ReportData) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in data.summary["notes"])
    return f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""


def _spans(data: ReportData, pair: str = "") -> list[Span]:
    """The failovers, or those that this pair of sites felt."""
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
    """Seconds; the first stretch may begin before the run does."""
    return max(0.0, float(row["begin_s"]) - data.begin_s)


def _table(rows: Rows, columns: Sequence[tuple[str, str]]) -> str:
    numeric = {key for key, _ in columns if any(isinstance(row[key], int | float) for row in rows)}
    kind = {key: ' class="n"' if key in numeric else "" for key, _ in columns}
    head = "".join(f"<th{kind[key]}>{escape(title)}</th>" for key, title in columns)
    lines = ["".join(f"<td{kind[key]}>{_cell(row[key])}</td>" for key, _ in columns) for row in rows]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _since(moment_s: float | None, data: ReportData) -> str:
    return "" if moment_s is None else f"{moment_s - data.begin_s:,.2f} s"


def _clock(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def _duration(milliseconds: float) -> str:
    if milliseconds < 1_000:
        return f"{milliseconds:.1f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
