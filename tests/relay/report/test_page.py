"""The page: text is escaped, numbers are aligned, and harm stands out."""

from __future__ import annotations

from relay.report import Figure, draw_page, draw_table, draw_tiles, draw_verdict


def test_text_is_never_taken_for_markup() -> None:
    parts = [draw_table(["<a>"], [["<b>"]]), draw_tiles([("<c>", "<d>")]), draw_verdict(False, "<e>")]
    page = draw_page("<f>", parts)
    for name in "abcdef":
        assert f"&lt;{name}&gt;" in page
        assert f"<{name}>" not in page.replace(f"<{name}>&lt;", "").replace("<b>FAIL", "").replace("<b>&lt;d", "")


def test_numbers_stand_right_and_are_written_for_people() -> None:
    table = draw_table(["who", "n", "share", "since"], [["A", 12345, 0.25, Figure("1.50 s")], ["B", None, 1.0, Figure("")]])
    assert '<th>who</th><th class="n">n</th><th class="n">share</th><th class="n">since</th>' in table
    assert '<td>A</td><td class="n">12,345</td><td class="n">0.2</td><td class="n">1.50 s</td>' in table
    assert '<td>B</td><td class="n"></td><td class="n">1.0</td><td class="n"></td>' in table


def test_a_harmed_row_stands_out() -> None:
    table = draw_table(["x"], [["one"], ["two"]], harmed=[1])
    assert "<tr><td>one</td></tr>" in table
    assert '<tr class="harm"><td>two</td></tr>' in table
