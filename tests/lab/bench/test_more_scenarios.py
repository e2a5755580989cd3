"""The other site's rate: with real processes, short; and the page that shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_lab.bench.content import FILLER, Content
from relay_lab.bench.report import draw_report, figure_rows
from sitestack.model.address import Address
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from tests.lab.bench.measuring import measure

A, B = Address(b"A" * 16), Address(b"B" * 16)


def batch(origin: Address, first: int, payloads: list[bytes]) -> Batch:
    return Batch("X", origin, Scope.ALL, first, len(payloads), pack_body(payloads))


def test_content_is_right_when_each_origin_continues_its_numbers() -> None:
    content, payload = Content(8), bytes(8) + FILLER * 92
    for origin, first, count in ((A, 7, 3), (B, 1, 1), (A, 10, 2), (B, 2, 5)):
        content.take(batch(origin, first, [payload] * count))
    assert content.wrong == 0


@pytest.mark.parametrize(
    ("first", "payloads"),
    [
        (12, [bytes(8) + FILLER * 92]),  # one is missing
        (10, [bytes(8) + FILLER * 92]),  # one came twice
        (11, [bytes(100)]),  # wrong bytes
        (11, [bytes(8) + FILLER * 92, FILLER * 101]),  # of different sizes
    ],
)
def test_content_that_is_wrong_is_counted(first: int, payloads: list[bytes]) -> None:
    content = Content(8)
    content.take(batch(A, 10, [bytes(8) + FILLER * 92]))
    content.take(batch(A, first, payloads))
    assert content.wrong == 1


def test_a_reported_gap_is_not_wrong_and_a_hole_before_it_is() -> None:
    for first, wrong in ((11, 0), (12, 1)):
        content = Content(8)
        content.take(batch(A, 10, [bytes(8) + FILLER * 92]))
        content.skip(Gap("X", A, first, 13, GapReason.OTHER_PART))
        content.take(batch(A, 14, [bytes(8) + FILLER * 92]))
        assert (content.wrong, content.missed) == (wrong, 14 - first)


def test_a_page_has_a_chart_and_a_table_for_each_scenario_and_loads_nothing() -> None:
    results: dict[str, dict[str, dict[str, Any]]] = {
        "wan": {"100": {"at 0 ms": {"rate": 5.0, "cores": 1.25}, "at 300 ms": {"rate": 4.0, "cores": 1.75}}},
        "unicast-rtt": {"100": {"p50_us": 300.0, "p99_us": 900.0, "echo": {"p50_us": 100.0}, "ratio": {"p50_us": 3.0}}},
    }
    page = draw_report({"cpu": "<fast>"}, results, {})
    assert (page.count("<svg"), page.count("<table>")) == (3, 2), "of round trips also the worst"
    assert [name for name, _ in figure_rows(results["wan"])] == ["100 bytes, at 0 ms", "100 bytes, at 300 ms"]
    assert "&lt;fast&gt;" in page
    assert "http" not in page
    assert "<script" not in page


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("scenario", ["total-order", "relay-flat-out", "wan", "latency-at-load"])
def test_a_scenario_is_measured_and_shown(scenario: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    found = measure(scenario, 1.0, "--report", str(page))["ours"]["100"]
    if scenario == "wan":
        assert list(found) == ["at 0 ms", "at 100 ms", "at 200 ms", "at 300 ms", "ratio"]
        found = found["at 300 ms"]
    if scenario == "latency-at-load":
        assert found["full load"]["p99_us"] >= found["full load"]["p50_us"] > 0
        assert 0.4 < found["half load"]["rate"] / found["full load"]["rate"] < 0.6
    else:
        assert found["rate"] > 0
        assert found["cores"] > 0
        assert found["rss_sum_mb"] > 40
    assert scenario in page.read_text(encoding="utf-8")
