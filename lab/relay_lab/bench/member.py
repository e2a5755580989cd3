"""One process of a benchmark: it joins, carries the loads of standard input, and reports their costs.

Every input line is a `Workload`, answered by a line of figures. Before those, one line reports the join
and one that all members are there. All lines are JSON objects.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import trio

import relay
from relay.keys.directory import read_key_ring
from relay.node.output.lines import LineSink, LineSource
from relay_lab.bench.content import FILLER, Content
from relay_lab.bench.round_trips import RoundTrips, percentiles_us
from relay_lab.bench.scenarios import MemberTask, Workload
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.gap import Gap
from sitestack.transport.udp import UdpStatistics

_STAMP = struct.Struct("<Q")
#: Messages that share one time stamp: taking a stamp for each message would cost more than sending the message.
_STAMP_MESSAGES = 16
#: Seconds without a delivery that must pass between two loads.
_QUIET_S = 0.5
_COMMAND_BYTES_MAX = 64 * 1024


class BenchMember:
    def __init__(self, channel: Channel[Any], members: int, trips: bool) -> None:
        self._channel = channel
        self._trips = RoundTrips(channel) if trips else None
        self._members = members
        self._content = Content(_STAMP.size)
        self._delivered = self._batches = 0
        self._latencies_ns: list[int] | None = None
        self.complete = trio.Event()

    async def receive(self) -> None:
        """Take everything, a batch at a time; the time stamp in the first message of each batch gives the latency."""
        async for item in self._channel.batches():
            if isinstance(item, Delivery) and self._trips is not None:
                await self._trips.take(item)
            elif isinstance(item, Delivery):
                batch = item.batch
                self._content.take(batch)
                self._delivered += batch.count
                self._batches += 1
                if self._latencies_ns is not None:
                    self._latencies_ns.append(time.monotonic_ns() - _STAMP.unpack_from(batch.body, 4 * batch.count)[0])
            elif isinstance(item, Gap):
                self._content.skip(item)
            elif len(self._channel.view.members) == self._members:
                self.complete.set()

    async def carry(self, load: Workload) -> dict[str, Any]:
        if self._trips is not None:
            if load.trip is None:
                return self._trips.spent()
            return await self._trips.ask(load.trip, load.size, load.warm_up_s, load.window_s)
        async with trio.open_nursery() as nursery:
            if load.rate is None:
                nursery.start_soon(self._send, load.size)
            elif load.rate > 0:
                nursery.start_soon(self._send_steadily, load.size, load.rate)
            await trio.sleep(load.warm_up_s)
            result = await self._measure(load.window_s)
            nursery.cancel_scope.cancel()
        before = -1
        while self._delivered != before:
            before = self._delivered
            await trio.sleep(_QUIET_S)
        return {**result, "total": self._delivered, "wrong": self._content.wrong, "missed": self._content.missed}

    async def _send(self, size: int) -> None:
        send, filler = self._channel.send, FILLER * (size - _STAMP.size)
        while True:
            payload = _STAMP.pack(time.monotonic_ns()) + filler
            for _ in range(_STAMP_MESSAGES):
                await send(payload)

    async def _send_steadily(self, size: int, rate: float) -> None:
        send, filler = self._channel.send, FILLER * (size - _STAMP.size)
        started, sent = trio.current_time(), 0
        while True:
            if (due := started + sent / rate) > trio.current_time():
                await trio.sleep_until(due)
            await send(_STAMP.pack(time.monotonic_ns()) + filler)
            sent += 1

    async def _measure(self, window_s: float) -> dict[str, Any]:
        latencies: list[int] = []
        self._latencies_ns = latencies
        turns = self._channel.statistics().driver.turns
        delivered, batches, used, started = self._delivered, self._batches, os.times(), time.perf_counter()
        before = self._sent()
        await trio.sleep(window_s)
        seconds = time.perf_counter() - started
        now, sent = os.times(), self._sent()
        self._latencies_ns = None
        return {
            "delivered": self._delivered - delivered,
            "batches": self._batches - batches,
            "seconds": seconds,
            "sent_bytes": sent.sent_bytes - before.sent_bytes,
            "sent_datagrams": sent.sent_datagrams - before.sent_datagrams,
            "cpu_s": now.user + now.system - used.user - used.system,
            "turns": self._channel.statistics().driver.turns - turns,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **percentiles_us(latencies, 50, 99),
        }

    def _sent(self) -> UdpStatistics:
        transport = self._channel.statistics().transport
        assert isinstance(transport, UdpStatistics)
        return transport


async def run(task: MemberTask) -> None:
    """Until standard input ends."""
    sink = LineSink("-")
    async with _open(task) as channel:
        member = BenchMember(channel, task.members, task.trips)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.receive)
            await sink.write(["{}"])
            await member.complete.wait()
            await sink.write(["{}"])
            async for line in LineSource("-", _COMMAND_BYTES_MAX).lines():
                await sink.write([json.dumps(await member.carry(Workload(**json.loads(line))))])
            nursery.cancel_scope.cancel()


def _open(task: MemberTask) -> AbstractAsyncContextManager[Channel[Any]]:
    if task.peer:
        return relay.open_channel(task.node_config(), name=task.name, insecure=True)
    keys = read_key_ring(Path(task.keys)) if task.keys else None
    return open_channel(task.site_config(), name=task.name, keys=keys)


if __name__ == "__main__":
    trio.run(run, MemberTask(**json.loads(sys.argv[1])))
