"""How much a site notices of its WAN: the same load with the connection to another site and without it, in turns (X11).

The load is far below the limit: at full speed a cut would look like a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from relay.replica.config import BufferConfig
from relay_lab.bench.harness import WARM_UP_S, BenchFailed, BenchProcess, Observe, carry, medians, ratios, summarise
from relay_lab.bench.scenarios import Scenario, Workload
from relay_lab.bench.two_sites import two_sites
from relay_lab.drills.network import Condition, Direction

#: Messages a second of each member. Low enough that a cut never exceeds the budget, even with one message a
#: batch.
RATE = 500.0
#: Seconds within which the other site must have got everything.
_CATCH_UP_S = 60.0
#: Seconds without load between two looks at whether the other site has caught up.
_PAUSE_S = 0.5
_COMPARED = ("rate", "p50_us", "p99_us")


class _Wan:
    def __init__(self, here: Sequence[BenchProcess], there: Sequence[BenchProcess], line: Direction) -> None:
        self.here = here
        self.there = there
        self.line = line

    async def carry(self, load: Workload) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        answers: list[list[dict[str, Any]]] = [[], []]

        async def ask(place: int, members: Sequence[BenchProcess], what: Workload) -> None:
            answers[place] = await carry(members, what)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 0, self.here, load)
            nursery.start_soon(ask, 1, self.there, Workload(load.size, load.warm_up_s, load.window_s, 0.0))
        return answers[0], answers[1]

    async def catch_up(self, size: int) -> None:
        """Wait until the other site has everything. Raises BenchFailed when it does not come to that."""
        give_up = trio.current_time() + _CATCH_UP_S
        while trio.current_time() < give_up:
            here, there = await self.carry(Workload(size, 0.0, _PAUSE_S, 0.0))
            if here[0]["total"] == there[0]["total"]:
                return
        raise BenchFailed(f"The other site had not received everything {_CATCH_UP_S:g} s after the cut.")


async def measure_autonomy(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """By size: rate and latency with and without the WAN, and the median of the ratios of the pairs. Raises BenchFailed."""
    longest_s = BufferConfig().budget_entries / (RATE * scenario.members) - WARM_UP_S
    if window_s > longest_s:
        held = "is held for the other site (`relay.budget.entries`)"
        raise BenchFailed(f"A cut of {window_s:g} s is more than {held}: at most {longest_s:.1f} s.")
    ours: dict[str, dict[str, Any]] = {}
    line = Direction()
    async with two_sites(scenario, trips=False, line=line, far_members=1) as (near, far):
        wan = _Wan(near, far, line)
        for size in sizes:
            await wan.carry(Workload(size, 0.0, WARM_UP_S, RATE))
            await wan.catch_up(size)
            pairs = []
            for run in range(1, runs + 1):
                observe(f"{size} bytes, pair {run} of {runs}")
                # The one that comes first changes, so that no drift of the machine counts for either.
                order = (False, True) if run % 2 else (True, False)
                pairs.append({cut: await _measure(wan, size, window_s, cut) for cut in order})
            ours[str(size)] = put_together(pairs)
    return ours


async def _measure(wan: _Wan, size: int, window_s: float, cut: bool) -> dict[str, float]:
    if cut:
        wan.line.set(Condition(mode="cut"))
    here, there = await wan.carry(Workload(size, WARM_UP_S, window_s, RATE))
    crossed = sum(each["delivered"] for each in there)
    if cut == bool(crossed):
        raise BenchFailed(f"{crossed} messages crossed while the WAN was {'cut' if cut else 'whole'}.")
    wan.line.set(Condition())
    await wan.catch_up(size)
    return summarise(here)


def put_together(pairs: Sequence[dict[bool, dict[str, float]]]) -> dict[str, Any]:
    cut, whole = [medians([pair[each] for pair in pairs], _COMPARED) for each in (True, False)]
    ratio = ratios([(pair[True], pair[False]) for pair in pairs], _COMPARED)
    return {"cut": cut, "whole": whole, "ratio": ratio, "runs": len(pairs)}
