"""The same load with more and more members: whether a site that grows still uses the machine, and at what cost a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from relay.instruments.bench.harness import WARM_UP_S, Observe, carry, members_of, summarise
from relay.instruments.bench.scenarios import MemberTask, Scenario, Workload
from relay.instruments.drills.layout import draw_group

MEMBERS = (2, 4, 8, 12)
_SHOWN = ("rate", "cpu_s_per_million", "cores", "waiting", "turns_per_thousand", "batch_messages", "rss_mb", "rss_sum_mb")


async def measure_scale(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """By size and number of members: rate, costs, and how many cores all processes keep busy. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {str(size): {} for size in sizes}
    for count in MEMBERS:
        task = MemberTask("", count, scenario.order, *draw_group(), "")
        async with members_of(replace(task, site="SCALE")) as members:
            for size in sizes:
                results = []
                for run in range(1, runs + 1):
                    observe(f"{count} members, {size} bytes, run {run} of {runs}")
                    results.append(summarise(await carry(members, Workload(size, WARM_UP_S, window_s))))
                ours[str(size)][str(count)] = {key: round(median(each[key] for each in results), 3) for key in _SHOWN}
    return ours
