"""One process of a peer with a blocking library (ZeroMQ, Zenoh): the protocol of `bench.member` on standard input
and output.

Run by `python -m relay_lab.bench.peers.member TASK`. The second of the first two lines reports a message from
every member.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from relay_lab.bench.content import FILLER
from relay_lab.bench.peers.task import ANSWER, DATA, HEADER, NUMBERS, PROBE, PROBE_S, QUESTION, QUIET_S, PeerTask, Tally
from relay_lab.bench.round_trips import summary
from relay_lab.bench.scenarios import Workload

#: Messages that share one time stamp, as with our members.
_STAMP_MESSAGES = 16
#: The module for each peer: only the one that is needed is imported, and with it the library.
_LIBRARIES = {"zenoh": "eclipse_zenoh", "zeromq": "zeromq"}


class Transport(Protocol):
    """A peer's library as a member uses it. All methods block; only the library may lose messages."""

    def send(self, payload: bytes) -> None:
        """Send to all members, this one included."""

    def ask(self, question: bytes) -> bytes:
        """Send a question to the one that answers; its answer."""


#: Connects, and delivers arriving messages in another thread.
Connect = Callable[[PeerTask, Callable[[bytes], None]], Transport]


class PeerMember:
    def __init__(self, task: PeerTask, connect: Connect) -> None:
        self._task = task
        self._tally = Tally(task.members)
        self._transport = connect(task, self._tally.take)
        self._number = 0

    def run(self) -> None:
        _say({})
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(lines,), daemon=True).start()
        self._meet(lines)
        while line := lines.get():
            load = Workload(**json.loads(line))
            _say(self._ask(load) if load.trip else self._carry(load))

    def _meet(self, lines: queue.SimpleQueue[str]) -> None:
        """Probe until the first load arrives, also after all members have answered: others may receive later."""
        is_complete = False
        while lines.empty():
            self._transport.send(HEADER.pack(PROBE, self._task.index, HEADER.size, 0, 0))
            if not is_complete and len(self._tally.heard) == self._task.members:
                is_complete = True
                _say({})
            time.sleep(PROBE_S)

    def _carry(self, load: Workload) -> dict[str, Any]:
        tally, ends = self._tally, threading.Event()
        sender = threading.Thread(target=self._flood, args=(load.size, ends))
        if load.rate is None:
            sender.start()
        time.sleep(load.warm_up_s)
        began = tally.begin()
        time.sleep(load.window_s)
        result = tally.end(began)
        ends.set()
        if load.rate is None:
            sender.join()
        before = -1
        while tally.delivered != before:
            before = tally.delivered
            time.sleep(QUIET_S)
        return {**result, "wrong": tally.wrong}

    def _flood(self, size: int, ends: threading.Event) -> None:
        send, index, filler, number = self._transport.send, self._task.index, FILLER * (size - HEADER.size), self._number
        while not ends.is_set():
            now = time.monotonic_ns()
            for _ in range(_STAMP_MESSAGES):
                send(HEADER.pack(DATA, index, size & 0xFFFF, number, now) + filler)
                number = (number + 1) % NUMBERS
        self._number = number

    def _ask(self, load: Workload) -> dict[str, Any]:
        """Ask one question at a time; the answer is the question but for its first byte."""
        question, wrong = QUESTION + bytes(load.size - 1), 0
        trips: list[int] = []
        begins = time.monotonic() + load.warm_up_s
        while (now := time.monotonic()) < begins + load.window_s:
            asked = time.perf_counter_ns()
            answer = self._transport.ask(question)
            if now >= begins:
                trips.append(time.perf_counter_ns() - asked)
            wrong += answer != ANSWER + question[1:]
        return {**summary(trips), "wrong": wrong}


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


def _say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def main(task: PeerTask) -> None:
    """Run, and end at once: the libraries' own threads are not waited for."""
    connect: Connect = import_module(f"relay_lab.bench.peers.{_LIBRARIES[task.peer]}").connect
    PeerMember(task, connect).run()
    os._exit(0)


if __name__ == "__main__":
    main(PeerTask(**json.loads(sys.argv[1])))
