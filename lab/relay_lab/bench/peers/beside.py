"""Peers measured in turns with Relay, so that disturbances of the machine meet all of them.

A ratio is the median of the ratios of these pairs. All processes stay up throughout and idle while others are
measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import trio

from relay_lab.bench.harness import WARM_UP_S, BenchFailed, Observe, hear_all, medians, ratios
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.peers.processes import PeerGroup, peer_group
from relay_lab.bench.scenarios import Scenario, Workload

_COMPARED = ("rate", "cpu_s_per_million", "cores", "rss_sum_mb", "p50_us", "p90_us", "p99_us", "cpu_s_per_trip")
_DECIMALS = 6
#: Seconds in which a JVM compiles frequent code.
_COMPILING_S = 5.0
#: Lines of a process that are shown when it fails.
_SAID_LINES = 20

Figures = Mapping[str, Any]


@dataclass(slots=True)
class _Contender:
    installed: Installed
    group: PeerGroup
    scenario: Scenario
    directory: Path
    #: Size -> our figures and its own, a pair for each window.
    pairs: dict[str, list[tuple[Figures, Figures]]] = field(default_factory=dict)

    async def measure(self, size: int, window_s: float) -> Figures:
        """Measure one window. A Java program first runs an uncounted one, in which it is compiled."""
        if self.installed.peer.major and not self.pairs:
            await self._measure(size, _COMPILING_S)
        return await self._measure(size, window_s)

    async def _measure(self, size: int, window_s: float) -> Figures:
        if self.scenario.trip:
            return await self._ask(size, window_s)
        sends, listens = Workload(size, WARM_UP_S, window_s), Workload(size, WARM_UP_S, window_s, 0.0)
        task, members = self.group.task, self.group.members
        for number, member in enumerate(members):
            await member.tell(sends if task.work == "local" or number == task.asker else listens)
        results = await hear_all(members, sends)
        # A member counts its costs within its own window, which differs from ours on a busy machine.
        cpu_s = sum(each["cpu_s"] for each in results)
        found = put_together(results[len(results) // 2 :] if task.work == "relay" else results)
        # As with ours: the CPU of a delivery in one site, of a message that has crossed between two.
        cost = cpu_s / max(found["delivered"], 1) * 1e6 * (found["members"] if task.work == "relay" else 1)
        return {**found, "cpu_s_per_million": cost, "cores": cpu_s / window_s, "rss_sum_mb": sum(self.group.rss_mb())}

    async def _ask(self, size: int, window_s: float) -> Figures:
        asker = self.group.members[self.group.task.asker]
        idle = Workload(size, 0.0, 0.0, 0.0)
        for member in self.group.members:  # the first command ends the probes of each
            await member.tell(idle)
        await hear_all(self.group.members, idle)
        load = Workload(size, WARM_UP_S / 2, window_s, trip=self.scenario.trip)
        await asker.tell(load)
        await trio.sleep(load.warm_up_s)
        before = self.group.cpu_s()
        await trio.sleep(window_s)
        cpu_s = self.group.cpu_s() - before
        result = (await hear_all([asker], load))[0]
        return {**result, "cpu_s_per_trip": cpu_s / max(result["trips"], 1)}


def put_together(receivers: Sequence[Figures]) -> dict[str, float]:
    figures: dict[str, float] = {
        "rate": sum(each["delivered"] / each["seconds"] for each in receivers) / len(receivers),
        "delivered": sum(each["delivered"] for each in receivers),
        "members": len(receivers),
    }
    if all(each["p50_us"] is not None for each in receivers):
        figures["p50_us"] = median(each["p50_us"] for each in receivers)
        figures["p99_us"] = max(each["p99_us"] for each in receivers)
    return figures


class Beside:
    """The peers that take turns with Relay; none by default."""

    def __init__(self, contenders: Sequence[_Contender], observe: Observe) -> None:
        self._contenders = contenders
        self._observe = observe

    async def take_turns(self, size: int, window_s: float, ours: Figures) -> None:
        """After a window of ours, with these figures: one of each peer. Raises BenchFailed."""
        for contender in self._contenders:
            title = contender.installed.peer.title
            self._observe(f"{size} bytes, {title}")
            try:
                found = await contender.measure(size, window_s)
            except BenchFailed as error:
                raise BenchFailed(f"{title}: {error}{_said(contender.directory, contender.installed)}") from None
            contender.pairs.setdefault(str(size), []).append((ours, found))

    def figures(self) -> dict[str, Any]:
        return {
            each.installed.peer.name: {
                "version": each.installed.version,
                "sizes": {size: compare(pairs) for size, pairs in each.pairs.items()},
            }
            for each in self._contenders
        }


def compare(pairs: Sequence[tuple[Figures, Figures]]) -> dict[str, Any]:
    """Medians of a peer's windows, and of the ratios ours / theirs of the pairs, as far as both have a figure."""
    return {**medians([found for _, found in pairs], _COMPARED, _DECIMALS), "ratio": ratios(pairs, _COMPARED)}


@asynccontextmanager
async def beside(name: str, scenario: Scenario, peers: Sequence[Installed], observe: Observe) -> AsyncIterator[Beside]:
    """Those of the peers that do a scenario, all running. After the block none of their processes is left."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-bench-")))
        contenders = []
        for installed in peers:
            if installed.peer.why_not(name) is None:
                observe(f"starting {installed.peer.title}")
                try:
                    group = await stack.enter_async_context(peer_group(installed, name, scenario, directory))
                except BenchFailed as error:
                    raise BenchFailed(f"{installed.peer.title}: {error}{_said(directory, installed)}") from None
                contenders.append(_Contender(installed, group, scenario, directory))
        yield Beside(contenders, observe)


def _said(directory: Path, installed: Installed) -> str:
    files = sorted(directory.glob(f"{installed.peer.name}-*.err"))
    lines = [file.read_text(encoding="utf-8", errors="replace").splitlines()[-_SAID_LINES:] for file in files]
    return "".join(f"\n{line}" for each in lines for line in each)
