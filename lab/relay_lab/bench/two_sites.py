"""What two sites measure: round trips beside a bare echo, and the rate of messages that cross."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from relay_lab.bench.harness import (
    WARM_UP_S,
    Afterwards,
    BenchFailed,
    BenchProcess,
    Observe,
    hear_all,
    medians,
    members_of,
    ratios,
)
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.drills.layout import draw_group
from relay_lab.drills.network import Condition, Direction
from relay_lab.drills.proxy import StreamProxy, bind_streams, port_of
from relay_lab.drills.tether import tie

_SLACK_S = 90.0
PERCENTILES = ("p50_us", "p90_us", "p99_us")
_SPENT = ("cpu_s", "turns", "datagrams")


async def measure_latency(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe, afterwards: Afterwards
) -> dict[str, dict[str, Any]]:
    """Return round trips, their costs, the echo's, and ratios of the pairs, by size. Raises BenchFailed."""
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
    """Let the last member ask. The costs are those of all members, and include questions and costs of the warm-up."""
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
    keys = [*PERCENTILES, *[f"{key}_per_trip" for key in _SPENT]]
    ours, echo = medians([ours for ours, _ in pairs], keys, 6), medians([echo for _, echo in pairs], PERCENTILES, 6)
    return {**ours, "echo": echo, "ratio": ratios(pairs, PERCENTILES), "runs": len(pairs)}


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
async def two_sites(
    scenario: Scenario, *, trips: bool, line: Direction | None = None, far_members: int = 0
) -> AsyncIterator[tuple[list[BenchProcess], list[BenchProcess]]]:
    here = _task(scenario, trips=trips)
    reserved = await bind_streams("127.0.0.1")
    port = port_of(reserved.socket)
    await reserved.aclose()
    group, group_port = draw_group()
    there = replace(here, site="THERE", multicast_group=group, multicast_port=group_port, bind_port=port)
    # the only site that listens
    there = replace(there, members=far_members or here.members, peer="HERE", peer_port=1)
    async with trio.open_nursery() as nursery:
        if line is not None:
            front = await bind_streams("127.0.0.1")
            nursery.start_soon(StreamProxy(front, ("127.0.0.1", port), line, line).run)
            port = port_of(front.socket)
        async with members_of(there) as far, members_of(replace(here, peer="THERE", peer_port=port)) as near:
            yield near, far
        nursery.cancel_scope.cancel()


def _task(scenario: Scenario, *, trips: bool) -> MemberTask:
    return MemberTask("", scenario.members, scenario.order, *draw_group(), site="HERE", trips=trips)


async def measure_flat_out(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe, afterwards: Afterwards
) -> dict[str, dict[str, Any]]:
    """By size: messages a second at a member of the other site, and the CPU of all processes a message. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    line = Direction()
    async with two_sites(scenario, trips=False, line=line if scenario.round_trips_ms else None) as (near, far):
        for size in sizes:
            found: dict[str, dict[str, float]] = {}
            for round_trip_ms in scenario.round_trips_ms or (0,):
                line.set(Condition(delay_s=round_trip_ms / 2_000))
                results = []
                for run in range(1, runs + 1):
                    observe(f"{size} bytes, {round_trip_ms} ms, run {run} of {runs}")
                    sends, listens = Workload(size, WARM_UP_S, window_s), Workload(size, WARM_UP_S, window_s, 0.0)
                    for member in (*near, *far):
                        await member.tell(sends if member is near[-1] else listens)
                    results.append(_sum_up(await hear_all(near, sends), await hear_all(far, sends)))
                    await afterwards(size, window_s, results[-1])
                found[f"at {round_trip_ms} ms"] = medians(results)
            first, *_, last = [*found.values(), *found.values()]
            ratio = ratios([(last, first)], ("rate", "cpu_s_per_million"))
            ours[str(size)] = {**found, "ratio": ratio} if scenario.round_trips_ms else first
    return ours


def _sum_up(near: Sequence[dict[str, Any]], far: Sequence[dict[str, Any]]) -> dict[str, float]:
    crossed = max(sum(each["delivered"] for each in far) / len(far), 1)
    return {
        "rate": sum(each["delivered"] / each["seconds"] for each in far) / len(far),
        "cpu_s_per_million": sum(each["cpu_s"] for each in (*near, *far)) / crossed * 1e6,
        "cores": sum(each["cpu_s"] / each["seconds"] for each in (*near, *far)),
        "rss_sum_mb": sum(each["rss_mb"] for each in (*near, *far)),
    }
