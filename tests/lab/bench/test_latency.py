"""Round trips beside a bare echo: put together, and with real processes, short."""

from __future__ import annotations

import pytest

from relay_lab.bench.round_trips import summary
from relay_lab.bench.two_sites import put_together
from tests.lab.bench.measuring import measure


def figures(p50: float, cpu_s: float = 0.001) -> dict[str, float]:
    costs = {"cpu_s_per_trip": cpu_s, "turns_per_trip": 4.0, "datagrams_per_trip": 2.0}
    return {"p50_us": p50, "p90_us": 2 * p50, "p99_us": 3 * p50, **costs}


def test_percentiles_are_of_all_round_trips() -> None:
    found = summary([n * 1_000 for n in range(100, 0, -1)])
    assert found == {"trips": 100, "p50_us": 51.0, "p90_us": 91.0, "p99_us": 100.0}


def test_ratios_are_those_of_pairs_so_that_a_slow_moment_counts_for_neither() -> None:
    found = put_together([(figures(200), figures(100)), (figures(3_000), figures(1_000)), (figures(250), figures(100))])
    assert found["ratio"] == {"p50_us": 2.5, "p90_us": 2.5, "p99_us": 2.5}
    assert (found["p50_us"], found["echo"]["p50_us"], found["runs"]) == (250, 100, 3)
    assert (found["cpu_s_per_trip"], found["turns_per_trip"], found["datagrams_per_trip"]) == (0.001, 4.0, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [pytest.param("unicast-rtt", marks=pytest.mark.long), "own-delivery", pytest.param("relay-rtt", marks=pytest.mark.long)],
)
def test_round_trips_are_measured_beside_the_echo(scenario: str) -> None:
    found = measure(scenario, 0.3)["ours"]["100"]
    assert 0 < found["p50_us"] <= found["p90_us"] <= found["p99_us"]
    assert found["echo"]["p50_us"] > 0
    assert set(found["ratio"]) == {"p50_us", "p90_us", "p99_us"}
    assert found["datagrams_per_trip"] >= 1.0
