from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay_lab.bench.autonomy import measure_autonomy
from relay_lab.bench.harness import Conditions, Observe, measure, measure_halves
from relay_lab.bench.peers.beside import beside
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.scenarios import SCENARIOS
from relay_lab.bench.two_sites import measure_flat_out, measure_latency


async def measure_scenario(
    name: str,
    sizes: Sequence[int],
    window_s: float,
    runs: int,
    conditions: Conditions,
    peers: Sequence[Installed],
    observe: Observe,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Our figures by size, and by peer those of it, or why there are none. Raises BenchFailed.

    Only a plain scenario heeds `conditions`.
    """
    scenario = SCENARIOS[name]
    whys: dict[str, Any] = {
        each.peer.name: {"not_applicable": each.peer.why_not(name)} for each in peers if each.peer.why_not(name)
    }
    if scenario.cuts_wan:
        return await measure_autonomy(scenario, sizes, window_s, runs, observe), whys
    if scenario.halves:
        return await measure_halves(scenario, sizes, window_s, runs, observe), whys
    async with beside(name, scenario, peers, observe) as others:
        afterwards = others.take_turns
        if scenario.trip:
            ours = await measure_latency(scenario, sizes, window_s, runs, observe, afterwards)
        elif scenario.relayed:
            ours = await measure_flat_out(scenario, sizes, window_s, runs, observe, afterwards)
        else:
            ours = await measure(scenario, sizes, window_s, runs, conditions, observe, afterwards)
        return ours, {**others.figures(), **whys}
