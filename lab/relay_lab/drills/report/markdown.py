"""The report as Markdown, to be pasted into a ticket: the chart is drawn with letters. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from relay_lab.drills.plan import Drill
from relay_lab.drills.report.facts import RUN_COLUMNS, figures, harm, headline, means, runs, shown, silence
from relay_lab.drills.result import DrillResult, overall

_LEVELS = " ▁▂▃▄▅▆▇█"
_COLUMNS_MAX = 100


def markdown_report(drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """The text on all runs, the failed ones first."""
    _, told = headline(results, aborted)
    lines = [f"# {drill.name} on {place}", "", drill.why, "", f"**{overall(results, aborted).upper()}** {told}"]
    lines += ["", *[f"* {each}" for each in aborted]] if aborted else []
    lines += [
        "",
        "| figure | |",
        "| --- | ---: |",
        *[f"| {name} | {value} |" for name, value in figures(drill, results, aborted)],
    ]
    if how := means(results):
        lines += ["", "How the harm was done: " + " ".join(how)]
    if rows := runs(results):
        lines += [
            "",
            f"| {' | '.join(RUN_COLUMNS)} |",
            f"|{' ---: |' * len(RUN_COLUMNS)}",
            *[f"| {' | '.join(row)} |" for row in rows],
        ]
    for result in sorted(results, key=lambda result: result.passed):
        lines += _run(result)
    return "\n".join(lines) + "\n"


def _run(result: DrillResult) -> Iterator[str]:
    yield from ("", f"## Seed {result.seed}: {shown(result.verdict)}", "")
    if faults := [*result.faults(), *result.unexercised]:
        yield from (*[f"* {fault}" for fault in faults], "")
    yield from (silence(result), "", "Deliveries per second at a member of each site, and when harm was done:", "", "```")
    yield from _chart(result)
    yield from ("```", "", "| seconds | what happened |", "| ---: | --- |")
    yield from [f"| {each.at_s:.2f} | {each.what} |" for each in result.timeline]
    yield from ("", "| site | member | sent | delivered | lost | duplicated | reordered | gaps |")
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for each in result.members:
        numbers = (each.sent, each.delivered, each.lost, each.duplicated, each.reordered, each.gaps)
        yield f"| {each.site} | {each.title} | {' | '.join(map(str, numbers))} |"


def _chart(result: DrillResult) -> Iterator[str]:
    rates = result.rates
    steps = max((len(row) for row in rates.rows.values()), default=0)
    together = max(1, math.ceil(steps / _COLUMNS_MAX))
    column_s = rates.step_s * together
    width = max((len(f"{receiver} from {sender}") for receiver, sender in rates.rows), default=0)
    for (receiver, sender), row in rates.rows.items():
        means = [sum(row[at : at + together]) / len(row[at : at + together]) for at in range(0, len(row), together)]
        yield f"{f'{receiver} from {sender}':<{width}} {''.join(_bar(rate, result.drill.load.rate) for rate in means)}"
    marks = [" "] * math.ceil(steps / together)
    for at_s, _ in harm(result):
        place = int((at_s - rates.begin_s) / column_s)
        if 0 <= place < len(marks):
            marks[place] = "^"
    yield f"{'':<{width}} {''.join(marks).rstrip()}"
    end_s = rates.begin_s + steps * rates.step_s
    yield f"{'':<{width}} {rates.begin_s:.0f} s to {end_s:.0f} s; half a bar is {result.drill.load.rate:g} messages per second"


def _bar(rate: float, usual: float) -> str:
    """A bar of which half the height is the usual rate; blank for none."""
    return _LEVELS[0] if rate <= 0 else _LEVELS[min(max(round(rate / usual * 4), 1), 8)]
