"""How long deliveries stop when the coordinator is killed, within its site or, as it is also the relay, in another site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

import trio

from relay_lab.bench.harness import WARM_UP_S, BenchProcess, Observe, hear_all, members_of
from relay_lab.bench.latency import two_sites
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.drills.layout import draw_group

#: Messages a second of each member of the site in which one is killed: an interval between two is far below any outage.
RATE = 500.0


async def measure_failover(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """By size: the longest time without a delivery at a survivor. Each run has processes of its own. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    for size in sizes:
        outages = []
        for run in range(1, runs + 1):
            observe(f"{size} bytes, run {run} of {runs}")
            outages.append(await _kill_one(scenario, Workload(size, WARM_UP_S, window_s, RATE)))
        ours[str(size)] = {"outage_ms": round(median(outages), 1), "outages_ms": [round(each, 1) for each in outages]}
    return ours


async def _kill_one(scenario: Scenario, load: Workload) -> float:
    """Milliseconds. The first member is killed in the middle of the window."""
    async with _members(scenario) as (near, far):
        for member in near:
            await member.tell(load)
        for member in far:
            await member.tell(Workload(load.size, load.warm_up_s, load.window_s, 0.0))
        await trio.sleep(load.warm_up_s + load.window_s / 3)
        near[0].kill()
        survivors = await hear_all(near[1:], load)
        results = await hear_all(far, load) if far else survivors
    return max(float(each["longest_gap_s"]) for each in results) * 1e3


@asynccontextmanager
async def _members(scenario: Scenario) -> AsyncIterator[tuple[list[BenchProcess], list[BenchProcess]]]:
    if scenario.relayed:
        async with two_sites(scenario, trips=False) as sites:
            yield sites
    else:
        async with members_of(MemberTask("", scenario.members, scenario.order, *draw_group(), "")) as members:
            yield members, []
