"""The report of an audit: one self-contained file with the verdict first."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from pyspark_relay.report import ReportData, render

SUMMARY: dict[str, Any] = {
    "verdict": "pass",
    "deliveries": 12345,
    "violations": [],
    "lost": 0,
    "duplicated": 0,
    "reordered": 0,
    "gaps": 7,
    "processes": 6,
    "not_judged": "",
    "notes": ["a <torn> tail"],
    "clocks": "Wall clocks are compared as they are.",
}
DATA = ReportData(
    summary=SUMMARY,
    begin_s=1_700_000_000.0,
    end_s=1_700_000_030.0,
    stretch_s=1,
    lag=[{"pair": "NYC>SFO", "p50": 2.5, "p99": 9.75, "messages": 600}],
    lag_over_time=[{"begin_s": 1_700_000_000.0 + at, "pair": "NYC>SFO", "p50": 2.0 + at, "p99": 9.0 + at} for at in range(30)],
    throughput=[{"begin_s": 1_700_000_000.0 + at, "site": "NYC", "via": "local", "messages": 50} for at in range(30)],
    rates=[{"site": "NYC", "origin": "ab" * 16, "node": "A", "messages": 1500, "most": 60, "bytes": 15000}],
    failovers=[
        {
            "origin_site": "NYC",
            "node_before": "A",
            "node": "B",
            "site": "SFO",
            "taken_s": 1_700_000_010.0,
            "last_before_s": 1_700_000_009.95,
            "first_after_s": 1_700_000_010.05,
            "silence_ms": 100.0,
        }
    ],
    global_views=[{"vector": "{NYC: 1}", "members": 6, "processes": 6, "first_s": 1_700_000_000.0, "spread_ms": 12.0}],
    processes=[
        {
            "site": "NYC",
            "node": "A",
            "fate": "crashed",
            "delivered": 5,
            "duplicated": 0,
            "reordered": 0,
            "in_gaps": 0,
            "missing": 0,
        }
    ],
    conservation=[{"origin_site": "NYC", "site": "SFO", "sent": 9, "delivered": 8, "excused": 1, "missing": 0}],
)


class Reader(HTMLParser):
    """Complains of tags that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "line", "circle", "rect", "polyline", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "circle", "polyline", "path", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_needs_nothing_else_and_is_well_formed() -> None:
    page = render(DATA)
    assert not re.search(r"https?://|<script|<link|<img|url\(", page)
    assert Reader(page).open == []


def test_the_verdict_comes_first_with_the_figures() -> None:
    page = render(DATA)
    text = " ".join("".join(Reader(page).text).split())
    assert page.index("Relay audit</h1>") < page.index('class="verdict pass"') < page.index("<svg")
    assert "PASS 12,345 deliveries at 6 processes: 0 lost, 0 duplicated, 0 reordered, 7 in gaps" in text
    for heading in ("Lag between sites", "Throughput", "Failovers", "Conservation across sites", "Processes", "Global views"):
        assert f"<h2>{heading}</h2>" in page
    assert "A → B" in text
    assert "100.0 ms" in text


def test_a_run_that_is_not_judged_has_not_failed_and_shows_no_losses() -> None:
    summary = {**SUMMARY, "verdict": "not judged", "not_judged": "journals are damaged"}
    text = " ".join(Reader(render(replace(DATA, summary=summary))).text)
    assert "NOT JUDGED" in text
    assert "FAIL" not in text
    assert " lost" not in text


def test_violations_precede_the_charts_and_text_is_escaped() -> None:
    violations = [{"invariant": "X5", "where": "SFO/D", "what": "NYC/a <b> 1..2 was sent"}]
    page = render(replace(DATA, summary={**SUMMARY, "verdict": "fail", "violations": violations}))
    assert page.index('class="verdict fail"') < page.index("NYC/a &lt;b&gt; 1..2 was sent") < page.index("<svg")
    assert "a &lt;torn&gt; tail" in page


def test_running_and_stopped_processes_are_shown_as_ended() -> None:
    fates = ["running", "stopped", "crashed"]
    page = render(replace(DATA, processes=[{**DATA.processes[0], "fate": fate} for fate in fates]))
    told = "".join(re.findall(r"<h2>Processes</h2>(.*?)</table>", page, re.DOTALL))
    assert re.findall(r"<td[^>]*>(ended|running|stopped|crashed)</td>", told) == ["ended", "ended", "crashed"]


def test_a_burst_at_the_beginning_is_drawn_over_the_whole_run_with_its_own_rate() -> None:
    burst = [{"begin_s": DATA.begin_s - 0.25, "site": "NYC", "via": "local", "messages": 6000}]
    data = replace(DATA, stretch_s=0.5, throughput=burst, lag_over_time=DATA.lag_over_time[:1], failovers=[])
    page = render(data)
    _, throughput = page.split("<h2>Throughput</h2>")
    [points] = re.findall(r'<polyline class="line line-0" points="([^"]*)"', throughput)
    assert len(points.split()) == 61, "an interval without messages is a point, too"
    ys = [point.split(",")[1] for point in points.split()]
    assert len(set(ys[1:])) == 1 != len(set(ys))
    assert page.count(">30</text>") == 2, "both axes end with the run"
    assert "in stretches of 0.5 s" in page
    row = re.findall(r"<td[^>]*>([^<]*)</td>", throughput)[:6]
    assert row == ["NYC", "A", "1,500", "15,000", "50.0", "120.0"]


def test_a_run_without_anything_to_draw_is_a_page_too() -> None:
    empty = replace(DATA, lag=[], lag_over_time=[], throughput=[], rates=[], failovers=[], global_views=[], conservation=[])
    page = render(empty)
    assert Reader(page).open == []
    assert "No relay was replaced." in page
    assert "Nothing to show." in page
