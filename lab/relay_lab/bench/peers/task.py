from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import Any, Literal

from relay_lab.bench.content import FILLER
from relay_lab.bench.round_trips import percentiles_us

#: The work: all send and all deliver in one site; one asks another one; the same across two sites, through a relay in each.
Work = Literal["local", "relay"]

#: Kind, origin, the lower half of the size, number, and the time at which it was sent in nanoseconds.
HEADER = struct.Struct("<cBHIQ")
NUMBERS = 1 << 32
#: Kinds of messages, also used as topics: probes (until all members have received one of each), data, questions,
#: answers.
PROBE, DATA, QUESTION, ANSWER = b"p", b"d", b"?", b"!"
PROBE_S = 0.05
#: Each message whose number is a multiple of this has its content looked at and its latency taken.
SAMPLED = 16
#: Seconds without a delivery that must pass between two loads.
QUIET_S = 0.5
#: Seconds after which a question counts as lost, which ends the comparison.
LOST_S = 30.0


@dataclass(frozen=True, slots=True)
class PeerTask:
    """The task of one process, which is passed on the command line as JSON."""

    peer: str
    #: Its number, from 0; the second half of the members of the work "relay" is the other site.
    index: int
    members: int
    work: Work
    trips: bool
    #: Free ports of this machine, equal for all processes; each peer assigns them.
    ports: tuple[int, ...]

    @property
    def site(self) -> int:
        """0 is where messages are sent, 1 the other site."""
        return self.index * 2 // self.members if self.work == "relay" else 0

    @property
    def relays(self) -> bool:
        """Whether it is the one of its site through which messages cross."""
        return self.work == "relay" and self.index % (self.members // 2) == 0

    @property
    def asker(self) -> int:
        """Who asks and, in the work "relay", sends: the last one of its site, which does not relay."""
        return self.members - 1 if self.work == "local" else self.members // 2 - 1

    @property
    def answerer(self) -> int:
        """Who answers: the first one of the site, or the last one of the other."""
        return 0 if self.work == "local" else self.members - 1


class Tally:
    """Counts deliveries; `wrong` counts those out of order or with wrong bytes."""

    def __init__(self, members: int) -> None:
        self.delivered = 0
        self.wrong = 0
        #: The origins of which something has come.
        self.heard: set[int] = set()
        #: The number that each origin's next message must have.
        self.expected = [0] * members
        self._latencies_ns: list[int] | None = None

    def take(self, payload: bytes) -> None:
        kind, origin, size, number, sent_ns = HEADER.unpack_from(payload)
        if kind == DATA:
            if number != self.expected[origin] or size != len(payload) & 0xFFFF:
                self.wrong += 1
            self.expected[origin] = (number + 1) % NUMBERS
            self.delivered += 1
            if not number % SAMPLED:
                self._look(payload, sent_ns)
        elif kind == PROBE:
            self.heard.add(origin)

    def _look(self, payload: bytes, sent_ns: int) -> None:
        if not payload.endswith(FILLER * (len(payload) - HEADER.size)):
            self.wrong += 1
        if self._latencies_ns is not None:
            self._latencies_ns.append(time.monotonic_ns() - sent_ns)

    def begin(self) -> tuple[int, float, float]:
        self._latencies_ns = []
        return self.delivered, time.perf_counter(), time.process_time()

    def end(self, began: tuple[int, float, float]) -> dict[str, Any]:
        latencies, self._latencies_ns = self._latencies_ns or [], None
        return {
            "delivered": self.delivered - began[0],
            "seconds": time.perf_counter() - began[1],
            "cpu_s": time.process_time() - began[2],
            **percentiles_us(latencies, 50, 99),
        }
