"""The report of a drill in one file: verdict, figures, and deliveries over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import get_args

from relay_lab.drills.plan import MEMBER_VERBS, Drill, LinkVerb
from relay_lab.drills.result import DrillResult, NotBegun, Verdict, overall, summary
from relay_lab.report.chart import Mark, Span, draw_lines
from relay_lab.report.page import Figure, draw_note, draw_page, draw_table, draw_tiles, draw_verdict

_VERBS: tuple[str, ...] = (*MEMBER_VERBS, *get_args(LinkVerb))
RUN_COLUMNS = ("seed", "verdict", "lost", "duplicated", "reordered", "gaps", "silence s", "at rest after s")
_COUNTED = ("sent", "delivered", "lost", "duplicated", "reordered", "gaps")
#: A chart cuts off peaks beyond this many times the usual rate.
_PEAK_MAX = 3.0


def _headline(results: Sequence[DrillResult], aborted: Sequence[str]) -> tuple[bool, str]:
    verdict = overall(results, aborted)
    runs = len(results) + len(aborted)
    if results and verdict == "pass":
        return True, f"{'The run' if runs == 1 else f'All {runs} runs'} went as the drill expects."
    if verdict == "not exercised":
        return False, "Nothing was wrong, but not everything was exercised."
    failed = sum(not isinstance(each, NotBegun) for each in aborted) + sum(result.verdict == "fail" for result in results)
    return False, "The run failed." if runs == 1 else f"{failed} of {runs} runs failed."


def _figures(drill: Drill, results: Sequence[DrillResult], aborted: Sequence[str]) -> Iterator[tuple[str, str]]:
    total = summary(drill, results, aborted)
    several = len(results) > 1
    yield "messages sent", f"{total['sent']:,}"
    yield "messages delivered", f"{sum(total['delivered'].values()):,}"
    yield from [(name, f"{total[name]:,}") for name in ("lost", "duplicated", "reordered")]
    yield "declared lost (gaps)", f"{total['gaps']:,}"
    if total["failover_s"] is not None:
        yield f"silence at the other site{', median' if several else ''}", f"{total['failover_s']:.3f} s"
        if several:
            yield "silence, worst", f"{total['failover_worst_s']:.3f} s"
    if total["own_silence_worst_s"] is not None:
        yield f"silence of the own site{', worst' if several else ''}", f"{total['own_silence_worst_s']:.3f} s"
    if total["quiet_s"] is not None:
        yield f"at rest after{', at worst' if several else ''}", f"{total['quiet_s']:.2f} s"


def show_verdict(verdict: Verdict) -> str:
    return verdict if verdict == "pass" else verdict.upper()


def list_runs(results: Sequence[DrillResult]) -> list[tuple[str, ...]]:
    """Return a row for each run; none for a single run."""
    return [
        (
            str(result.seed),
            show_verdict(result.verdict),
            *[f"{number:,}" for number in (result.lost, result.duplicated, result.reordered, result.gaps)],
            "-" if result.failover_s is None else f"{result.failover_s:.3f}",
            f"{result.quiet_s:.2f}",
        )
        for result in results
        if len(results) > 1
    ]


def list_means(results: Sequence[DrillResult]) -> str:
    means = dict.fromkeys(each for result in results for each in result.means)
    return f"Means of the faults: {' '.join(means)}" if means else ""


def _harm(result: DrillResult) -> list[tuple[float, str]]:
    return [(each.at_s, each.what) for each in result.timeline if each.what.split()[0] in _VERBS]


def _silence(result: DrillResult) -> str:
    found = result.silence
    if found is None:
        return "No member waited for the other site."
    when = f"from {found.begin_s:.2f} s to {found.end_s:.2f} s"
    return f"Longest silence: {found.member} heard nothing of {found.site} for {found.seconds:.3f} s, {when}."


def draw_report(drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """Return the report on all runs, failed ones first; `aborted`: a sentence for each run without a result."""
    title = f"{drill.name} on {place}"
    parts = [f"<h1>{escape(title)}</h1><p>{escape(drill.why)}</p>", draw_verdict(*_headline(results, aborted))]
    parts.append(draw_tiles([*_figures(drill, results, aborted)]))
    parts += [_draw_fault(each) for each in aborted]
    if means := list_means(results):
        parts.append(draw_note(means))
    if rows := list_runs(results):
        parts.append(draw_table(RUN_COLUMNS, [[Figure(cell) for cell in row] for row in rows]))
    for result in sorted(results, key=lambda result: result.passed):
        parts += _draw_run(result)
    return draw_page(title, parts)


def _draw_fault(sentence: str) -> str:
    return f'<p class="fault">{escape(sentence)}</p>'


def _draw_run(result: DrillResult) -> Iterator[str]:
    yield f"<h2>Seed {result.seed}: {show_verdict(result.verdict)}</h2>"
    yield from map(_draw_fault, (*result.faults(), *result.unexercised))
    yield f"<p>{escape(_silence(result))}</p>"
    for site in result.sites:
        yield f"<h3>Deliveries per second at a member of {escape(site)}</h3>{draw_site(result, site)}"
    numbers = {mark: number for number, mark in enumerate(_harm(result), 1)}
    marked = [(moment, numbers.get((moment.at_s, moment.what))) for moment in result.timeline]
    rows = [(Figure(f"{moment.at_s:.2f}"), number, moment.what) for moment, number in marked]
    yield draw_table(("seconds", "mark", "what happened"), rows, [at for at, (_, number) in enumerate(marked) if number])
    members = [
        (each.site, each.title, *[getattr(each, name) for name in _COUNTED], "killed" if each.crashed else each.order_hash[:8])
        for each in result.members
    ]
    yield draw_table(("site", "member", *_COUNTED, "order"), members)


def draw_site(result: DrillResult, site: str) -> str:
    """Return a chart of the deliveries of one member of a site, with marks of faults and the longest silence."""
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
        spans=[Span(silent.begin_s, silent.end_s, _silence(result))] if silent is not None and is_mine else [],
        spans_are="the longest silence",
        marks=[Mark(at_s, what) for at_s, what in _harm(result)],
        y_max=result.drill.load.rate * _PEAK_MAX,
    )
