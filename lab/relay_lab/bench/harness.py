"""Runs the processes of a benchmark and puts their measurements together."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import trio

from relay.keys.directory import make_key_directory
from relay_lab.bench.scenarios import MemberTask, Scenario, Workload
from relay_lab.drills.layout import draw_group
from relay_lab.drills.tether import tie


def describe_machine() -> dict[str, Any]:
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


WARM_UP_S = 2.0
_JOIN_TIMEOUT_S = 60.0
#: Seconds after its window in which a load may deliver messages under way, on a slow machine.
_SLACK_S = 60.0
_END_TIMEOUT_S = 10.0

#: Called with the name of the current measurement.
Observe = Callable[[str], None]
#: Is called after each window with the size, the seconds, and the figures: others may have a window now.
Afterwards = Callable[[int, float, Mapping[str, Any]], Awaitable[None]]


class BenchFailed(Exception):
    """A process of the benchmark died or took too long."""


class BenchProcess:
    def __init__(self, name: str, process: trio.Process) -> None:
        self._name = name
        self._process = process
        self._rest = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def tell(self, load: Workload) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(asdict(load)).encode() + b"\n")

    async def hear(self, timeout_s: float) -> dict[str, Any]:
        """Return the next object. Raises BenchFailed when there is none in time."""
        assert self._process.stdout is not None
        with trio.move_on_after(timeout_s):
            while b"\n" not in self._rest:
                chunk = await self._process.stdout.receive_some()
                if not chunk:
                    raise BenchFailed(f"Member {self._name} of the benchmark ended before it had answered.")
                self._rest += chunk
            line, _, self._rest = self._rest.partition(b"\n")
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise BenchFailed(f"Member {self._name} of the benchmark did not answer within {timeout_s:g} s.")

    async def end(self) -> None:
        """Close the standard input, at which the process leaves; kill it when that takes too long."""
        with trio.CancelScope(shield=True):
            assert self._process.stdin is not None
            await self._process.stdin.aclose()
            with trio.move_on_after(_END_TIMEOUT_S):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()


@dataclass(frozen=True, slots=True)
class Conditions:
    #: With keys.
    secured: bool = False
    #: With short ids in place of uuids.
    short_ids: bool = False


async def measure(
    scenario: Scenario,
    sizes: Sequence[int],
    window_s: float,
    runs: int,
    conditions: Conditions,
    observe: Observe,
    afterwards: Afterwards,
) -> dict[str, dict[str, Any]]:
    """By size: rate, cost, latency, memory, and bytes of a datagram. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    async with _members(scenario, conditions) as members:
        for size in sizes:
            results = []
            for run in range(1, runs + 1):
                observe(f"{size} bytes, run {run} of {runs}")
                results.append(summarise(await carry(members, Workload(size, WARM_UP_S, window_s))))
                await afterwards(size, window_s, results[-1])
            ours[str(size)] = {**medians(results), "runs": runs}
    return ours


async def measure_halves(
    scenario: Scenario, sizes: Sequence[int], window_s: float, runs: int, observe: Observe
) -> dict[str, dict[str, Any]]:
    """Return rate and latency at full load and at half of that rate, and ratios of the pairs, by size. Raises BenchFailed."""
    ours: dict[str, dict[str, Any]] = {}
    async with _members(scenario, Conditions()) as members:
        for size in sizes:
            pairs = []
            for run in range(1, runs + 1):
                observe(f"{size} bytes, run {run} of {runs}")
                full = summarise(await carry(members, Workload(size, WARM_UP_S, window_s)))
                rate = full["rate"] / 2 / len(members)
                pairs.append((full, summarise(await carry(members, Workload(size, WARM_UP_S, window_s, rate)))))
            ours[str(size)] = {
                "full load": medians([full for full, _ in pairs]),
                "half load": medians([half for _, half in pairs]),
                "ratio": ratios(pairs, ("rate", "p50_us", "p99_us")),
            }
    return ours


async def carry(members: Sequence[BenchProcess], load: Workload) -> list[dict[str, Any]]:
    """Let all members carry a load. Returns the figures of each. Raises BenchFailed after a wrong delivery."""
    for member in members:
        await member.tell(load)
    return await hear_all(members, load)


async def hear_all(members: Sequence[BenchProcess], load: Workload) -> list[dict[str, Any]]:
    results = [await member.hear(load.warm_up_s + load.window_s + _SLACK_S) for member in members]
    if wrong := sum(result.get("wrong", 0) for result in results):
        raise BenchFailed(f"{wrong} batches had a wrong sequence number or wrong bytes.")
    if missed := sum(result.get("missed", 0) for result in results):
        raise BenchFailed(f"A member was left out meanwhile, and received gaps of {missed} messages: the machine was too busy.")
    return results


def summarise(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return one run in figures: mean rate, median latency, worst 99th percentile and memory of a
    member, CPU time of all members.
    """
    delivered = sum(result["delivered"] for result in results)
    datagrams = sum(result["sent_datagrams"] for result in results)
    summary = {
        "rate": sum(result["delivered"] / result["seconds"] for result in results) / len(results),
        "cpu_s_per_million": sum(result["cpu_s"] for result in results) / max(delivered, 1) * 1e6,
        "batch_messages": delivered / max(sum(result["batches"] for result in results), 1),
        "datagram_bytes": sum(result["sent_bytes"] for result in results) / max(datagrams, 1),
        "datagrams_per_million": datagrams / max(delivered, 1) * 1e6,
        "cores": sum(result["cpu_s"] / result["seconds"] for result in results),
        "turns_per_thousand": sum(result["turns"] for result in results) / max(delivered, 1) * 1e3,
        "rss_mb": max(result["rss_mb"] for result in results),
        "rss_sum_mb": sum(result["rss_mb"] for result in results),
    }
    if all(result["p50_us"] is not None for result in results):
        summary["p50_us"] = median(result["p50_us"] for result in results)
        summary["p99_us"] = max(result["p99_us"] for result in results)
    return summary


def medians(results: Sequence[Mapping[str, Any]], keys: Iterable[str] = (), decimals: int = 3) -> dict[str, float]:
    """Return the medians of these figures, or of all that each result has."""
    common = [key for key in keys or results[0] if all(key in result for result in results)]
    return {key: round(median(result[key] for result in results), decimals) for key in common}


def ratios(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], keys: Iterable[str]) -> dict[str, float]:
    """Return the medians of the ratios of pairs, as far as both have a figure."""
    common = [key for key in keys if all(key in one and other.get(key) for one, other in pairs)]
    return {key: round(median(one[key] / other[key] for one, other in pairs), 3) for key in common}


@asynccontextmanager
async def _members(scenario: Scenario, conditions: Conditions) -> AsyncIterator[list[BenchProcess]]:
    """The processes, all in one view. After the block none is left."""
    group, port = draw_group()
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as directory:
        task = MemberTask("", scenario.members, scenario.order, group, port, short_ids=conditions.short_ids)
        if conditions.secured:
            keys = Path(directory) / "keys"
            make_key_directory(keys, [task.site])
            task = replace(task, keys=str(keys / task.site))
        async with members_of(task) as members:
            yield members


def members_of(task: MemberTask) -> AbstractAsyncContextManager[list[BenchProcess]]:
    tasks = [replace(task, name=f"M{number + 1}") for number in range(task.members)]
    return start_members([[sys.executable, "-m", "relay_lab.bench.member", json.dumps(asdict(each))] for each in tasks])


@asynccontextmanager
async def start_members(commands: Sequence[Sequence[str]], errors: Sequence[Path] = ()) -> AsyncIterator[list[BenchProcess]]:
    """The processes, once each sees all. `errors`: files of their standard errors."""
    async with AsyncExitStack() as stack:
        members: list[BenchProcess] = []
        for number, command in enumerate(commands):
            stderr = stack.enter_context(errors[number].open("wb")) if errors else None
            process = await trio.lowlevel.open_process(
                tie(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
            members.append(BenchProcess(f"M{number + 1}", process))
            stack.push_async_callback(members[-1].end)
            await members[-1].hear(_JOIN_TIMEOUT_S)
        for member in members:
            await member.hear(_JOIN_TIMEOUT_S)
        yield members
