"""Periods of a run, and how much of a time they cover."""

from __future__ import annotations

from relay_lab.sim.spans import Spans, overlap_s


def test_a_period_goes_from_its_first_beginning_to_its_end_and_the_present_one_to_now() -> None:
    spans = Spans()
    spans.end(1.0)
    spans.begin(2.0)
    spans.begin(3.0)
    spans.end(5.0)
    spans.begin(7.0)
    assert spans.closed == [(2.0, 5.0)]
    assert spans.until(9.0) == [(2.0, 5.0), (7.0, 9.0)]


def test_what_lies_outside_does_not_count() -> None:
    spans = [(2.0, 5.0), (7.0, 9.0)]
    assert overlap_s(spans, 0.0, 10.0) == 5.0
    assert overlap_s(spans, 4.0, 8.0) == 2.0
    assert overlap_s(spans, 5.0, 7.0) == 0.0
