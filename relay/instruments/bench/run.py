"""Which measurement a scenario is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.instruments.bench.autonomy import measure_autonomy
from relay.instruments.bench.failover import measure_failover
from relay.instruments.bench.flat_out import measure_flat_out
from relay.instruments.bench.harness import Conditions, Observe, measure
from relay.instruments.bench.latency import measure_latency
from relay.instruments.bench.scale import measure_scale
from relay.instruments.bench.scenarios import Scenario


async def measure_scenario(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, conditions: Conditions, observe: Observe
) -> dict[str, dict[str, Any]]:
    """The figures by size. Only a plain scenario heeds `conditions`. Raises BenchFailed."""
    if scenario.cuts_wan:
        return await measure_autonomy(scenario, sizes, window_s, runs, observe)
    if scenario.trip:
        return await measure_latency(scenario, sizes, window_s, runs, observe)
    if scenario.grows:
        return await measure_scale(scenario, sizes, window_s, runs, observe)
    if scenario.kills:
        return await measure_failover(scenario, sizes, window_s, runs, observe)
    if scenario.relayed:
        return await measure_flat_out(scenario, sizes, window_s, runs, observe)
    return await measure(scenario, sizes, window_s, runs, conditions, observe)
