"""How fast messages cross: one member that does not relay sends as fast as it may, and all of another site deliver."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from relay_lab.bench.harness import WARM_UP_S, Afterwards, Observe, hear_all
from relay_lab.bench.latency import two_sites
from relay_lab.bench.scenarios import Scenario, Workload

_SHOWN = ("rate", "cpu_s_per_million", "cores", "rss_sum_mb")


async def measure_flat_out(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe, afterwards: Afterwards
) -> dict[str, dict[str, Any]]:
    """By size: messages a second at a member of the other site, and the CPU of all processes a message. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    async with two_sites(scenario, trips=False) as (near, far):
        for size in sizes:
            results = []
            for run in range(1, runs + 1):
                observe(f"{size} bytes, run {run} of {runs}")
                sends, listens = Workload(size, WARM_UP_S, window_s), Workload(size, WARM_UP_S, window_s, 0.0)
                for member in (*near, *far):
                    await member.tell(sends if member is near[-1] else listens)
                results.append(_sum_up(await hear_all(near, sends), await hear_all(far, sends)))
                await afterwards(size, window_s, results[-1])
            ours[str(size)] = {key: round(median(each[key] for each in results), 3) for key in _SHOWN}
    return ours


def _sum_up(near: Sequence[dict[str, Any]], far: Sequence[dict[str, Any]]) -> dict[str, float]:
    crossed = max(sum(each["delivered"] for each in far) / len(far), 1)
    return {
        "rate": sum(each["delivered"] / each["seconds"] for each in far) / len(far),
        "cpu_s_per_million": sum(each["cpu_s"] for each in (*near, *far)) / crossed * 1e6,
        "cores": sum(each["cpu_s"] / each["seconds"] for each in (*near, *far)),
        "rss_sum_mb": sum(each["rss_mb"] for each in (*near, *far)),
    }
