"""The same load with more and more members: whether a site that grows still uses the machine, and at what cost a message."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import trio

from relay_lab.bench.harness import WARM_UP_S, BenchFailed, Observe, carry, members_of, summarise
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.bench.simulated import MEMBERS as SIMULATED
from relay_lab.drills.layout import draw_group
from relay_lab.drills.tether import tie

MEMBERS = (2, 4, 8, 12)
#: Of these two the figures are compared, the first to the second.
COMPARED = (12, 4)
SHOWN = ("rate", "cpu_s_per_million", "cores", "waiting", "turns_per_thousand", "batch_messages", "rss_mb", "rss_sum_mb")


async def measure_scale(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """Return rate, costs and busy cores by size and number of members. Raises BenchFailed.

    A hundred members are simulated under another load: their figures are costs of one delivery.
    """
    found: dict[tuple[int, int], list[dict[str, float]]] = {(size, count): [] for size in sizes for count in MEMBERS}
    for run in range(1, runs + 1):
        # Each run measures all numbers of members, in new processes, so that disturbances of the machine meet
        # all.
        for count in MEMBERS:
            async with members_of(MemberTask("", count, scenario.order, *draw_group(), "", site="SCALE")) as members:
                for size in sizes:
                    observe(f"{count} members, {size} bytes, run {run} of {runs}")
                    found[size, count].append(summarise(await carry(members, Workload(size, WARM_UP_S, window_s))))
    ours: dict[str, dict[str, Any]] = {str(size): put_together(size, found) for size in sizes}
    for size in sizes:
        observe(f"{SIMULATED} members in the simulator, {size} bytes")
        ours[str(size)][f"{SIMULATED} simulated"] = await _simulate(scenario, size)
    return ours


def put_together(size: int, found: Mapping[tuple[int, int], Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Medians for each number of members, and of the ratios of two of them in the same run."""
    sums: dict[str, Any] = {
        str(count): {key: round(median(each[key] for each in found[size, count]), 3) for key in SHOWN} for count in MEMBERS
    }
    many, few = (found[size, count] for count in COMPARED)
    pairs = list(zip(many, few, strict=True))
    sums["ratio"] = {
        key: round(median(one[key] / other[key] for one, other in pairs), 3) for key in ("rate", "cpu_s_per_million")
    }
    return sums


async def _simulate(scenario: Scenario, size: int) -> dict[str, float]:
    """Run the simulator in a separate process; it keeps a core busy."""
    command = [sys.executable, "-m", "relay_lab.bench.simulated", scenario.order, str(size)]
    ran = await trio.run_process(tie(command), capture_stdout=True, capture_stderr=True, check=False)
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").splitlines()
        raise BenchFailed(f"The simulator failed: {said[-1] if said else 'no output'}")
    found: dict[str, float] = json.loads(ran.stdout)
    return found
