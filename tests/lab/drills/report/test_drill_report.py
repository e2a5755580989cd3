"""A report tells the verdict, the figures, what happened when, and how the harm was done, in one file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

from relay_lab.drills.plan import Drill, DrillLoad
from relay_lab.drills.report import draw_report, draw_site
from relay_lab.drills.result import Moment
from relay_lab.drills.verdict import Rates, Silence
from tests.lab.drills.test_result import SITES, result

DRILL = Drill(name="mine", why="Somebody & somebody <else> is killed.", load=DrillLoad(rate=100))
ROWS = {("SFO", "NYC"): (100.0, 0.0, 0.0, 900.0, 100.0), ("SFO", "SFO"): (100.0,) * 5, ("NYC", "NYC"): (100.0,) * 5}
RESULT = replace(
    result(timeline=(Moment(0.2, "kill NYC.relay (A)"), Moment(0.3, "NYC: no relay for NYC"))),
    drill=DRILL,
    seed=7,
    silence=Silence(0.2, 0.6, "B", "NYC"),
    rates=Rates(0.0, 0.2, ROWS),
    means=("kill: SIGKILL to the container.",),
)


def test_a_report_shows_verdict_figures_seeds_and_actions() -> None:
    text = draw_report(DRILL, "compose", [RESULT, replace(RESULT, seed=8)], [])
    for told in (
        "mine on compose",
        "PASS",
        "All 2 runs",
        "0.400 s",
        "SIGKILL to the container",
        "Seed 8",
        "kill NYC.relay (A)",
    ):
        assert told in text
    assert "B heard nothing of NYC for 0.400 s, from 0.20 s to 0.60 s." in text


def test_a_failed_run_comes_first_and_a_run_without_a_result_is_reported() -> None:
    failed = replace(RESULT, seed=9, problems=("Somebody died.",))
    text = draw_report(DRILL, "local", [RESULT, failed], ["seed 10: Nobody started."])
    assert "FAIL" in text
    assert "2 of 3 runs failed." in text
    assert "Somebody died." in text
    assert "seed 10: Nobody started." in text
    assert text.index("Seed 9") < text.index("Seed 7")


def test_a_report_of_nothing_is_a_failure() -> None:
    assert "FAIL" in draw_report(DRILL, "local", [], ["seed 1: Nobody started."])


def test_an_html_report_is_self_contained_and_escapes_its_text() -> None:
    text = draw_report(DRILL, "local", [RESULT], [])
    assert "Somebody &amp; somebody &lt;else&gt; is killed." in text
    assert not [word for word in ("http://", "https://", "<script", "<link", "<img") if word in text]
    assert text.count("<svg") == len(SITES)


def test_a_chart_has_a_line_for_each_sender_a_mark_for_each_harm_and_the_silence() -> None:
    harm = (Moment(0.2, "kill A"), Moment(0.201, "kill <B>"), Moment(0.3, "NYC: no relay for NYC"))
    drawn, _, _ = draw_site(replace(RESULT, timeline=harm), "SFO").partition("<p class")
    svg = ElementTree.fromstring(drawn)
    assert len(svg.findall("polyline")) == 2
    assert [text.text for text in svg.findall("text[@class='mark']")] == ["1"]
    assert [line.findtext("title") for line in svg.findall("line[@class='mark']")] == ["kill A", "kill <B>"]
    [silence] = svg.findall("rect")
    left, width = float(silence.attrib["x"]), float(silence.attrib["width"])
    points = [tuple(map(float, point.split(","))) for point in svg.findall("polyline")[0].attrib["points"].split()]
    assert left < points[1][0] < points[2][0] < left + width
    assert points[1][1] > points[0][1]
    top = min(y for _, y in points)
    assert top == points[3][1] > 0, "the peak of a replay is cut off"
    assert points[3][1] < points[4][1]
