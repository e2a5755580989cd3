"""The report of a drill as an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from relay.report import Figure, Mark, Span, draw_lines, draw_note, draw_page, draw_table, draw_tiles, draw_verdict
from relay_lab.drills.plan import Drill
from relay_lab.drills.report.facts import RUN_COLUMNS, figures, harm, headline, means, runs, shown, silence
from relay_lab.drills.result import DrillResult

#: Charts cut off peaks beyond this many times the usual rate: the burst of a replay would flatten everything else.
_PEAK_MAX = 3.0


def html_report(drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """The page on all runs, the failed ones first."""
    title = f"{drill.name} on {place}"
    parts = [f"<h1>{escape(title)}</h1><p>{escape(drill.why)}</p>", draw_verdict(*headline(results, aborted))]
    parts.append(draw_tiles(figures(drill, results, aborted)))
    parts += [f'<p class="fault">{escape(each)}</p>' for each in aborted]
    if how := means(results):
        parts.append(draw_note(f"How the harm was done: {' '.join(how)}"))
    if rows := runs(results):
        parts.append(draw_table(RUN_COLUMNS, [[Figure(cell) for cell in row] for row in rows]))
    for result in sorted(results, key=lambda result: result.passed):
        parts += _run(result)
    return draw_page(title, parts)


def _run(result: DrillResult) -> Iterator[str]:
    yield f"<h2>Seed {result.seed}: {shown(result.verdict)}</h2>"
    for fault in (*result.faults(), *result.unexercised):
        yield f'<p class="fault">{escape(fault)}</p>'
    yield f"<p>{escape(silence(result))}</p>"
    for site in result.sites:
        yield f"<h3>Deliveries per second at a member of {escape(site)}</h3>{draw_site(result, site)}"
    yield _timeline(result)
    yield _members(result)


def draw_site(result: DrillResult, site: str) -> str:
    """A chart of what one member of a site delivers: a line for each sending site, marks for harm, a span for the silence."""
    rates, silent = result.rates, result.silence
    series = {
        f"from {sender}{', its own' if sender == site else ''}": [
            (rates.begin_s + (at + 0.5) * rates.step_s, rate) for at, rate in enumerate(row)
        ]
        for (receiver, sender), row in rates.rows.items()
        if receiver == site
    }
    is_mine = silent is not None and silent.member in result.sites[site]
    return draw_lines(
        series,
        "messages / s",
        since="the load began",
        spans=[Span(silent.begin_s, silent.end_s, silence(result))] if silent is not None and is_mine else [],
        spans_are="the longest silence",
        marks=[Mark(at_s, what) for at_s, what in harm(result)],
        y_max=result.drill.load.rate * _PEAK_MAX,
    )


def _timeline(result: DrillResult) -> str:
    numbers = {mark: number for number, mark in enumerate(harm(result), 1)}
    marked = [(moment, numbers.get((moment.at_s, moment.what))) for moment in result.timeline]
    rows = [(Figure(f"{moment.at_s:.2f}"), number, moment.what) for moment, number in marked]
    harmed = [at for at, (_, number) in enumerate(marked) if number]
    return draw_table(("seconds", "mark", "what happened"), rows, harmed)


def _members(result: DrillResult) -> str:
    names = ("sent", "delivered", "lost", "duplicated", "reordered", "gaps")
    rows = [
        (each.site, each.title, *[getattr(each, name) for name in names], "killed" if each.crashed else each.order_hash[:8])
        for each in result.members
    ]
    return draw_table(("site", "member", *names, "order"), rows)
