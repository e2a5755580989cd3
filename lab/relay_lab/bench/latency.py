"""Round trips between members, each window beside one of a bare echo: what counts is the ratio of the two."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import trio

from relay_lab.bench.harness import WARM_UP_S, Afterwards, BenchFailed, BenchProcess, Observe, members_of
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.drills.layout import draw_group
from relay_lab.drills.proxy import bind_streams, port_of
from relay_lab.drills.tether import tie

_SLACK_S = 90.0
PERCENTILES = ("p50_us", "p90_us", "p99_us")
_SPENT = ("cpu_s", "turns", "datagrams")


async def measure_latency(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe, afterwards: Afterwards
) -> dict[str, dict[str, Any]]:
    """By size: round trips, what each costs, the echo's, and the ratios of the pairs. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    async with _members(scenario) as members:
        for size in sizes:
            pairs = []
            for run in range(1, runs + 1):
                observe(f"{size} bytes, run {run} of {runs}")
                echo = await _measure_echo(size, window_s)
                pairs.append((await _ask(members, scenario, size, window_s), echo))
                await afterwards(size, window_s, pairs[-1][0])
            ours[str(size)] = put_together(pairs)
    return ours


async def _ask(members: Sequence[BenchProcess], scenario: Scenario, size: int, window_s: float) -> dict[str, float]:
    """Let the last member ask. What was spent is that of all members; the warm-up counts too, in questions as in costs."""
    before = [await _say(member, Workload(size, 0.0, 0.0)) for member in members]
    asked = await _say(members[-1], Workload(size, WARM_UP_S / 2, window_s, trip=scenario.trip))
    after = [await _say(member, Workload(size, 0.0, 0.0)) for member in members]
    spent = {key: sum(now[key] - then[key] for now, then in zip(after, before, strict=True)) for key in _SPENT}
    return {**asked, **{f"{key}_per_trip": value / asked["asked"] for key, value in spent.items()}}


async def _say(member: BenchProcess, load: Workload) -> dict[str, Any]:
    await member.tell(load)
    return await member.hear(load.warm_up_s + load.window_s + _SLACK_S)


async def _measure_echo(size: int, window_s: float) -> dict[str, float]:
    command = [sys.executable, "-m", "relay_lab.bench.floor", str(size), str(window_s)]
    with trio.move_on_after(window_s + _SLACK_S):
        ran = await trio.run_process(tie(command), capture_stdout=True)
        found: dict[str, float] = json.loads(ran.stdout)
        return found
    raise BenchFailed("The bare echo did not answer.")


def put_together(pairs: Sequence[tuple[dict[str, float], dict[str, float]]]) -> dict[str, Any]:
    """Medians of round trips and echoes, and of the ratios of the pairs."""

    def middle(which: int, keys: Sequence[str]) -> dict[str, float]:
        return {key: round(median(pair[which][key] for pair in pairs), 6) for key in keys}

    ratio = {key: round(median(ours[key] / echo[key] for ours, echo in pairs), 3) for key in PERCENTILES}
    costs = [f"{key}_per_trip" for key in _SPENT]
    return {**middle(0, (*PERCENTILES, *costs)), "echo": middle(1, PERCENTILES), "ratio": ratio, "runs": len(pairs)}


@asynccontextmanager
async def _members(scenario: Scenario) -> AsyncIterator[list[BenchProcess]]:
    """The members, the one that asks last. With `relay` there are as many in another site, which this one calls."""
    if scenario.trip == "relay":
        async with two_sites(scenario, trips=True) as (near, far):
            yield [*far, *near]
    else:
        async with members_of(_task(scenario, trips=True)) as members:
            yield members


@asynccontextmanager
async def two_sites(scenario: Scenario, *, trips: bool) -> AsyncIterator[tuple[list[BenchProcess], list[BenchProcess]]]:
    """The members of this site and of another one, which this one calls."""
    here = _task(scenario, trips=trips)
    reserved = await bind_streams("127.0.0.1")
    port = port_of(reserved.socket)
    await reserved.aclose()
    group, group_port = draw_group()
    there = replace(here, site="THERE", multicast_group=group, multicast_port=group_port, bind_port=port)
    there = replace(there, peer="HERE", peer_port=1)  # where nobody listens: it is called
    async with members_of(there) as far, members_of(replace(here, peer="THERE", peer_port=port)) as near:
        yield near, far


def _task(scenario: Scenario, *, trips: bool) -> MemberTask:
    return MemberTask("", scenario.members, scenario.order, *draw_group(), "", site="HERE", trips=trips)
