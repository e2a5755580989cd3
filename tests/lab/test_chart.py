"""Charts: labelled axes, units that fit, spans and marks, and colours that a dark page changes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from relay_lab.report.chart import Mark, Span, draw_lines
from relay_lab.report.page import Figure, draw_page, draw_table, draw_tiles, draw_verdict
from relay_lab.report.style import COLOURS, STYLE


def test_charts_label_their_axes_and_mark_spans() -> None:
    chart = draw_lines(
        {"NYC>SFO": [(0.0, 1.0), (60.0, 3.0)]}, "lag, ms", spans=[Span(10.0, 12.0, "A → B")], spans_are="the relay is replaced"
    )
    assert "seconds since the beginning" in chart
    assert ">lag, ms<" in chart
    assert "<title>A → B</title>" in chart
    assert "NYC&gt;SFO" in chart
    assert '<i class="span"></i>the relay is replaced' in chart


def test_units_of_time_grow_with_the_run_and_wide_ranges_are_logarithmic() -> None:
    assert "minutes since the beginning" in draw_lines({"x": [(0.0, 1.0), (1_200.0, 1.0)]}, "y")
    assert "hours since the beginning" in draw_lines({"x": [(0.0, 1.0), (90_000.0, 1.0)]}, "y")
    assert "lag, ms, logarithmic" in draw_lines({"x": [(0.0, 1.0), (5.0, 900.0)]}, "lag, ms", log=True)
    assert "logarithmic" not in draw_lines({"x": [(0.0, -1.0), (5.0, 900.0)]}, "lag, ms", log=True)


def test_time_may_begin_below_zero_and_too_high_values_are_drawn_at_the_edge() -> None:
    drawn = draw_lines({"x": [(-2.0, 1.0), (4.0, 900.0)]}, "y", y_max=30.0, marks=[Mark(-1.0, "early"), Mark(9.0, "beyond")])
    svg = ElementTree.fromstring(drawn.partition("<p class")[0])
    [line] = svg.findall("polyline")
    (first_x, first_y), (_, last_y) = (tuple(map(float, point.split(","))) for point in line.attrib["points"].split())
    assert first_x == min(float(tick.attrib["x1"]) for tick in svg.findall("line[@class='axis']"))
    assert last_y == min(float(tick.attrib["y1"]) for tick in svg.findall("line[@class='grid']")) < first_y
    assert [mark.findtext("title") for mark in svg.findall("line[@class='mark']")] == ["early"]


def test_the_time_axis_begins_at_the_first_point_or_at_a_span_before_it() -> None:
    late = [(600.0, 1.0), (615.0, 3.0), (630.0, 2.0)]
    svg = ElementTree.fromstring(draw_lines({"x": late}, "y").partition("<p class")[0])
    [line] = svg.findall("polyline")
    across = [float(point.partition(",")[0]) for point in line.attrib["points"].split()]
    ticks = svg.findall("line[@class='axis']")
    places = [float(tick.attrib["x1"]) for tick in ticks]
    assert (across[0], across[-1]) == (places[0], places[-1])
    assert across[1] == places[3]
    labels = [text.text for text in svg.findall("text[@text-anchor='middle']")]
    assert labels[:7] == ["600", "605", "610", "615", "620", "625", "630"]
    assert "seconds since the beginning" in labels
    shaded = draw_lines({"x": late}, "y", spans=[Span(590.0, 605.0, "A → B")])
    assert ">590<" in shaded
    assert ">585<" not in shaded


def test_every_colour_has_a_light_and_a_dark_one_and_no_chart_has_a_colour_of_its_own() -> None:
    light, dark = STYLE.split("prefers-color-scheme: dark", 1)
    for number in range(COLOURS):
        assert f"--line-{number}: #" in light
        assert f"--line-{number}: #" in dark
    assert "#" not in re.sub(r"&#\w+;", "", draw_lines({str(at): [(0.0, at), (1.0, at)] for at in range(9)}, "y"))


def test_text_is_never_taken_for_markup() -> None:
    parts = [draw_table(["<a>"], [["<b>"]]), draw_tiles([("<c>", "<d>")]), draw_verdict(False, "<e>")]
    page = draw_page("<f>", parts)
    for name in "abcdef":
        assert f"&lt;{name}&gt;" in page
        assert f"<{name}>" not in page.replace(f"<{name}>&lt;", "").replace("<b>FAIL", "").replace("<b>&lt;d", "")


def test_numbers_stand_right_and_are_written_for_people_and_a_harmed_row_is_highlighted() -> None:
    table = draw_table(
        ["who", "n", "share", "since"], [["A", 12345, 0.25, Figure("1.50 s")], ["B", None, 1.0, Figure("")]], harmed=[1]
    )
    assert '<th>who</th><th class="n">n</th><th class="n">share</th><th class="n">since</th>' in table
    assert '<tr><td>A</td><td class="n">12,345</td><td class="n">0.2</td><td class="n">1.50 s</td>' in table
    assert '<tr class="harm"><td>B</td><td class="n"></td><td class="n">1.0</td><td class="n"></td>' in table
