"""The report as one HTML file that needs nothing else. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from relay.instruments.drills.plan import Drill
from relay.instruments.drills.report.chart import draw_site
from relay.instruments.drills.report.facts import RUN_COLUMNS, figures, harm, headline, means, runs, silence
from relay.instruments.drills.result import DrillResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; max-width: 940px; margin: 32px auto; padding: 0 20px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 6px; } h3 { font-size: 15px; margin: 18px 0 0; }
.verdict { border-radius: 6px; padding: 12px 16px; margin: 16px 0; font-size: 17px; }
.pass { background: #e3f3e2; border-left: 6px solid #3d7f2b; } .fail { background: #fbe5e1; border-left: 6px solid #b03a1e; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(205px, 1fr)); gap: 10px; margin: 14px 0; }
dl div { background: #f4f6f8; border-radius: 6px; padding: 8px 12px; } dt { color: #5a6675; font-size: 13px; }
dd { margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; margin: 8px 0; font-variant-numeric: tabular-nums; } .note { color: #5a6675; }
th, td { padding: 3px 14px 3px 0; text-align: left; border-bottom: 1px solid #e6eaef; font-weight: normal; }
th { color: #5a6675; } td.number, th.number { text-align: right; } tr.harm td { font-weight: 600; color: #b03a1e; }
svg { width: 100%; height: auto; margin-top: 2px; } svg text { font: 12px system-ui, sans-serif; fill: #5a6675; }
svg .grid { stroke: #e6eaef; } svg .axis { stroke: #9aa5b1; } svg .mark { stroke: #b03a1e; stroke-dasharray: 3 3; }
svg text.mark { stroke: none; fill: #b03a1e; font-weight: 600; } svg polyline { fill: none; stroke-width: 1.6; }
svg rect.silence { fill: #f3c9b8; opacity: .6; } .legend { margin: 0; font-size: 13px; color: #5a6675; }
.legend span { margin-right: 18px; } .legend i { display: inline-block; width: 14px; height: 8px; margin-right: 6px; }
.legend i.silence { background: #f3c9b8; }
"""


def html_report(drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """All runs, the failed ones first."""
    passed, told = headline(results, aborted)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(drill.name)} on {escape(place)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(drill.name)} on {escape(place)}</h1><p>{escape(drill.why)}</p>",
        f'<div class="verdict {"pass" if passed else "fail"}"><b>{"PASS" if passed else "FAIL"}</b> {escape(told)}</div>',
        "<dl>"
        + "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures(drill, results, aborted)
        ),
        "</dl>",
        *[f"<p>{escape(each)}</p>" for each in aborted],
    ]
    if how := means(results):
        parts.append("<p class='note'>How the harm was done: " + " ".join(map(escape, how)) + "</p>")
    if rows := runs(results):
        parts.append(_table(RUN_COLUMNS, rows))
    for result in sorted(results, key=lambda result: result.passed):
        parts += _run(result)
    return "".join(parts) + "</body></html>\n"


def _run(result: DrillResult) -> list[str]:
    marks = harm(result)
    verdict = "pass" if result.passed else "FAIL"
    parts = [f"<h2>Seed {result.seed}: {verdict}</h2>"]
    parts += [f"<p class='fail verdict'>{escape(fault)}</p>" for fault in result.faults()]
    parts.append(f"<p>{escape(silence(result))}</p>")
    for site in result.sites:
        mine = result.silence if result.silence is not None and result.silence.member in result.sites[site] else None
        parts.append(f"<h3>Deliveries per second at a member of {escape(site)}</h3>")
        parts.append(draw_site(result.rates, site, marks, mine, result.drill.load.rate))
    parts.append(_timeline(result))
    parts.append(_members(result))
    return parts


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th class="number">{column}</th>' for column in columns)
    cells = [[f'<td class="number">{escape(cell)}</td>' for cell in row] for row in rows]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{body}</table>"


def _timeline(result: DrillResult) -> str:
    numbers = {mark: number for number, mark in enumerate(harm(result), 1)}
    rows = []
    for moment in result.timeline:
        number = numbers.get((moment.at_s, moment.what))
        kind = ' class="harm"' if number else ""
        cells = f'<td class="number">{moment.at_s:.2f}</td><td class="number">{number or ""}</td>'
        rows.append(f"<tr{kind}>{cells}<td>{escape(moment.what)}</td></tr>")
    head = '<tr><th class="number">seconds</th><th class="number">mark</th><th>what happened</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"


def _members(result: DrillResult) -> str:
    names = ("sent", "delivered", "lost", "duplicated", "reordered", "gaps")
    head = "".join(f'<th class="number">{name}</th>' for name in names)
    rows = []
    for each in result.members:
        numbers = "".join(f'<td class="number">{getattr(each, name):,}</td>' for name in names)
        order = "killed" if each.crashed else each.order_hash[:8]
        rows.append(f"<tr><td>{escape(each.site)}</td><td>{escape(each.name)}</td>{numbers}<td>{order}</td></tr>")
    return f"<table><tr><th>site</th><th>member</th>{head}<th>order</th></tr>{''.join(rows)}</table>"
