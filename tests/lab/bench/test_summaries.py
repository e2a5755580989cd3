"""Combined figures of the processes of a benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from relay_lab.bench.harness import describe_machine, summarise


def measured(**changes: Any) -> dict[str, Any]:
    return {
        "delivered": 1_000_000,
        "batches": 10_000,
        "seconds": 2.0,
        "sent_bytes": 60_000_000,
        "sent_datagrams": 2_000,
        "cpu_s": 1.0,
        "turns": 500,
        "rss_mb": 30.0,
        "p50_us": 100.0,
        "p99_us": 200.0,
        **changes,
    }


def test_the_rate_is_that_of_a_member_and_the_cost_that_of_all() -> None:
    summary = summarise([measured(), measured(delivered=2_000_000, cpu_s=2.0, rss_mb=50.0, p99_us=900.0)])
    assert summary["rate"] == 750_000
    assert summary["batch_messages"] == 150
    assert summary["datagram_bytes"] == 30_000
    assert summary["datagrams_per_million"] == pytest.approx(4_000 / 3)
    assert summary["cpu_s_per_million"] == pytest.approx(1.0)
    assert (summary["cores"], summary["rss_sum_mb"]) == (1.5, 80.0)
    assert (summary["rss_mb"], summary["p50_us"], summary["p99_us"]) == (50.0, 100.0, 900.0)


def test_no_delivery_is_no_latency_and_no_error() -> None:
    summary = summarise([measured(delivered=0, p50_us=None, p99_us=None)])
    assert summary["rate"] == 0
    assert "p50_us" not in summary


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine["cpus"] >= 1
    assert machine["python"].startswith("CPython 3")
