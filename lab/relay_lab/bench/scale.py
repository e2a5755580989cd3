"""The same load with more and more members: whether a site that grows still uses the machine, and at what cost a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from relay_lab.bench.harness import WARM_UP_S, Observe, carry, members_of, summarise
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.drills.layout import draw_group

MEMBERS = (2, 4, 8, 12)
#: Of these two the figures are compared, the first to the second.
COMPARED = (12, 4)
SHOWN = ("rate", "cpu_s_per_million", "cores", "waiting", "turns_per_thousand", "batch_messages", "rss_mb", "rss_sum_mb")


async def measure_scale(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """Return rate, costs and busy cores by size and number of members. Raises BenchFailed."""
    found: dict[tuple[int, int], list[dict[str, float]]] = {(size, count): [] for size in sizes for count in MEMBERS}
    for run in range(1, runs + 1):
        # Each run measures all numbers of members, in new processes, so that disturbances of the machine meet
        # all.
        for count in MEMBERS:
            async with members_of(MemberTask("", count, scenario.order, *draw_group(), "", site="SCALE")) as members:
                for size in sizes:
                    observe(f"{count} members, {size} bytes, run {run} of {runs}")
                    found[size, count].append(summarise(await carry(members, Workload(size, WARM_UP_S, window_s))))
    return {str(size): put_together(size, found) for size in sizes}


def put_together(size: int, found: Mapping[tuple[int, int], Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    sums: dict[str, Any] = {
        str(count): {key: round(median(each[key] for each in found[size, count]), 3) for key in SHOWN} for count in MEMBERS
    }
    many, few = (found[size, count] for count in COMPARED)
    pairs = list(zip(many, few, strict=True))
    sums["ratio"] = {
        key: round(median(one[key] / other[key] for one, other in pairs), 3) for key in ("rate", "cpu_s_per_million")
    }
    return sums
