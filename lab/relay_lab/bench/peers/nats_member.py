"""One process of NATS as a peer, on asyncio: the same lines in and out as `peers.member`.

Core NATS drops messages of a slow subscriber, so senders wait for credit here. Each subscriber acknowledges, and
no sender is
ahead of the slowest by more than a window. A program that may lose messages is faster.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from relay_lab.bench.content import FILLER
from relay_lab.bench.peers.processes import client_port
from relay_lab.bench.peers.task import (
    ANSWER,
    DATA,
    HEADER,
    LOST_S,
    NUMBERS,
    PROBE,
    PROBE_S,
    QUESTION,
    QUIET_S,
    PeerTask,
    Tally,
)
from relay_lab.bench.round_trips import summary
from relay_lab.bench.scenarios import Workload

#: Messages that a sender may be ahead of the slowest subscriber, and the interval of acknowledgements.
_WINDOW = 8_192
_CREDIT_EVERY = _WINDOW // 8
#: Messages that share one time stamp, after which the sender lets the library work: it does not wait by itself.
_STAMP_MESSAGES = 16
#: No command is longer.
_COMMAND_BYTES_MAX = 64 * 1024
_ALL, _ASKED = "bench.all", "bench.asked"


class NatsMember:
    """Sends, delivers, measures."""

    def __init__(self, task: PeerTask, client: Client) -> None:
        self._task = task
        self._client = client
        self._tally = Tally(task.members)
        self._number = 0
        #: Messages of this member that each subscriber has acknowledged.
        self._taken = [0] * task.members
        self._credit = asyncio.Event()

    async def subscribe(self) -> None:
        """Subscribe to all members, to credit, and to questions."""
        task, client = self._task, self._client
        await client.subscribe(_ALL, cb=self._take)
        await client.subscribe(f"bench.credit.{task.index}", cb=self._note)
        # One member is asked, or all of both sites are and one of them answers.
        if task.trips and (task.work == "relay" or task.index == task.answerer):
            await client.subscribe(_ASKED, cb=self._answer)
        await client.flush()

    async def _take(self, message: Msg) -> None:
        data = message.data
        self._tally.take(data)
        if data[:1] == DATA:
            origin = data[1]
            taken = self._tally.expected[origin]
            if not taken % _CREDIT_EVERY:
                await self._client.publish(f"bench.credit.{origin}", b"%d %d" % (self._task.index, taken))

    async def _note(self, message: Msg) -> None:
        member, taken = message.data.split()
        self._taken[int(member)] = int(taken)
        self._credit.set()

    async def _answer(self, message: Msg) -> None:
        if self._task.index == self._task.answerer:
            await message.respond(ANSWER + message.data[1:])

    async def meet(self, reader: asyncio.StreamReader) -> bytes:
        """Send probes until the first load arrives; returns its line."""
        first, is_complete = asyncio.ensure_future(reader.readline()), False
        while not first.done():
            await self._client.publish(_ALL, HEADER.pack(PROBE, self._task.index, HEADER.size, 0, 0))
            if not is_complete and len(self._tally.heard) == self._task.members:
                is_complete = True
                _say({})
            await asyncio.sleep(PROBE_S)
        return await first

    async def carry(self, load: Workload) -> dict[str, Any]:
        """Send and deliver, measure the window, and wait until everything that was sent has come."""
        tally, ends = self._tally, asyncio.Event()
        sending = asyncio.ensure_future(self._flood(load.size, ends)) if load.rate is None else None
        await asyncio.sleep(load.warm_up_s)
        began = tally.begin()
        await asyncio.sleep(load.window_s)
        result = tally.end(began)
        ends.set()
        if sending is not None:
            await sending
        before = -1
        while tally.delivered != before:
            before = tally.delivered
            await asyncio.sleep(QUIET_S)
        return {**result, "wrong": tally.wrong}

    async def _flood(self, size: int, ends: asyncio.Event) -> None:
        publish, filler, index = self._client.publish, FILLER * (size - HEADER.size), self._task.index
        while not ends.is_set():
            while (self._number - min(self._taken)) % NUMBERS >= _WINDOW:
                self._credit.clear()
                await asyncio.wait_for(self._credit.wait(), LOST_S)
            now = time.monotonic_ns()
            for _ in range(_STAMP_MESSAGES):
                await publish(_ALL, HEADER.pack(DATA, index, size & 0xFFFF, self._number, now) + filler)
                self._number = (self._number + 1) % NUMBERS
            await asyncio.sleep(0)

    async def ask(self, load: Workload) -> dict[str, Any]:
        """One question at a time. The answer must be the question but for its first byte."""
        question, wrong = QUESTION + bytes(load.size - 1), 0
        trips: list[int] = []
        begins = time.monotonic() + load.warm_up_s
        while (now := time.monotonic()) < begins + load.window_s:
            asked = time.perf_counter_ns()
            answer = await self._client.request(_ASKED, question, timeout=LOST_S)
            if now >= begins:
                trips.append(time.perf_counter_ns() - asked)
            wrong += answer.data != ANSWER + question[1:]
        return {**summary(trips), "wrong": wrong}


def _say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


async def run(task: PeerTask) -> None:
    """Until standard input ends."""
    client = await nats.connect(f"nats://127.0.0.1:{client_port(task)}", allow_reconnect=False)
    member = NatsMember(task, client)
    await member.subscribe()
    reader = asyncio.StreamReader(limit=_COMMAND_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _say({})
    line = await member.meet(reader)
    while line:
        load = Workload(**json.loads(line))
        _say(await (member.ask(load) if load.trip else member.carry(load)))
        line = await reader.readline()
    await client.close()


if __name__ == "__main__":
    asyncio.run(run(PeerTask(**json.loads(sys.argv[1]))))
