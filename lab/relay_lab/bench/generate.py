"""Synthetic journals of any size: a quiet run of several sites, seeded, with faults planted where one asks for them.

All processes live to the end, every message goes to all processes and reaches the other sites with some lag.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId

_SECOND_NS = 1_000_000_000
#: Quiet time at the end: long enough that a message which is missing then counts as lost.
_QUIET_NS = 30 * _SECOND_NS
_EPOCH_NS = 1_767_225_600 * _SECOND_NS
#: The distance of planted faults in deliveries, so that each shows by itself.
_SLOT = 16


class Fault(Enum):
    #: It is missing.
    LOSS = "loss"
    #: It happens again.
    DUPLICATE = "duplicate"
    #: It changes places with the next one.
    SWAP = "swap"
    #: It names an origin that does not exist.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class GeneratorPlan:
    seed: int = 0
    sites: tuple[str, ...] = ("NYC", "SFO")
    #: In each site.
    members: int = 3
    #: Approximate number of messages delivered by all processes together.
    deliveries: int = 100_000
    #: Messages in a batch, on average.
    batch: int = 10
    size_bytes: int = 100
    #: Messages sent a second by all origins together.
    rate: int = 10_000
    #: Share of all batches that the first member of the first site sends; the others share the rest.
    skew: float = 0.0
    #: Mean lag between sites.
    lag_ms: float = 20.0
    #: How many of each to plant.
    faults: dict[Fault, int] = field(default_factory=dict)

    @property
    def processes(self) -> int:
        return len(self.sites) * self.members

    @property
    def batches(self) -> int:
        return max(1, self.deliveries // (self.batch * self.processes))


@dataclass(frozen=True, slots=True)
class Planted:
    fault: Fault
    site: str
    node: str
    uuid: Address
    batch: records.Deliver


@dataclass(slots=True)
class GeneratedProcess:
    site: str
    uuid: Address
    name: str
    sent: int = 0
    delivered: int = 0
    #: Faults by the number of the delivery, from 0.
    faults: dict[int, Fault] = field(default_factory=dict)
    #: A delivery that waits to come after the next one.
    swapped: records.Deliver | None = None


class Generator:
    """`run()` yields (process, record), for each process in the order of its journal; then `planted` is complete."""

    def __init__(self, plan: GeneratorPlan) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)
        self.planted: list[Planted] = []
        self.sites = {site: [self._member(site, number) for number in range(plan.members)] for site in plan.sites}
        self.processes = [member for members in self.sites.values() for member in members]
        self.vids = {site: ViewId(1, members[0].uuid) for site, members in self.sites.items()}
        self.gseq = dict.fromkeys(plan.sites, 0)
        self._sizes: dict[int, bytes] = {}
        self._plant()

    def run(self) -> Iterator[tuple[GeneratedProcess, records.Record]]:
        now = 0
        yield from self._begin()
        arrivals: list[tuple[int, int, str, records.Send]] = []
        latest: dict[tuple[str, str], int] = {}
        for number in range(self.plan.batches):
            origin = self._pick_origin()
            count = self.rng.randint(1, 2 * self.plan.batch - 1)
            now += max(1, int(count * _SECOND_NS / self.plan.rate))
            while arrivals and arrivals[0][0] <= now:
                at, _, site, relayed = heapq.heappop(arrivals)
                yield from self._deliver(site, relayed, at)
            send = self._send(origin, count, now)
            yield origin, send
            yield from self._deliver(origin.site, send, now + 200_000)
            for site in self.plan.sites:
                if site != origin.site:
                    arrival = now + int((0.5 + self.rng.expovariate(2.0)) * self.plan.lag_ms * 1e6)
                    arrival = latest[origin.site, site] = max(arrival, latest.get((origin.site, site), 0) + 1)
                    heapq.heappush(arrivals, (arrival, number, site, send))
        while arrivals:
            now, _, site, relayed = heapq.heappop(arrivals)
            yield from self._deliver(site, relayed, now)
        for process in self.processes:
            yield process, records.Stop(now + _QUIET_NS, _EPOCH_NS + now + _QUIET_NS, "end of the run")

    def _member(self, site: str, number: int) -> GeneratedProcess:
        return GeneratedProcess(site, Address.make(self.rng), f"{site}-{number + 1}")

    def _pick_origin(self) -> GeneratedProcess:
        if self.rng.random() < self.plan.skew:
            return self.processes[0]
        return self.rng.choice(self.processes)

    def _begin(self) -> Iterator[tuple[GeneratedProcess, records.Record]]:
        everybody = tuple((each.site, each.uuid) for each in self.processes)
        for process in self.processes:
            site, vid = process.site, self.vids[process.site]
            members = self.sites[site]
            uuids, names = tuple(each.uuid for each in members), tuple(each.name for each in members)
            others = tuple(each for each in self.plan.sites if each != site)
            role: Literal["member", "relay"] = "relay" if process is members[0] else "member"
            yield process, records.Start(0, _EPOCH_NS, site, process.uuid, process.name, 1, 1, "generated", self.plan.seed)
            yield process, records.View(0, _EPOCH_NS, vid, vid, uuids, names)
            yield process, records.Role(0, _EPOCH_NS, role, vid, others if role == "relay" else ())
            yield process, records.GlobalView(0, _EPOCH_NS, self.vids, everybody)

    def _send(self, origin: GeneratedProcess, count: int, now: int) -> records.Send:
        first = origin.sent + 1
        origin.sent += count
        sizes = self._sizes.get(count)
        if sizes is None:
            sizes = self._sizes[count] = struct.pack(f"<{count}I", *[self.plan.size_bytes] * count)
        digest = hashlib.sha256(b"%b %d" % (origin.uuid, first)).digest()
        wall = _EPOCH_NS + now
        return records.Send(now, wall, origin.site, origin.uuid, Scope.ALL, first, count, None, "", sizes, digest)

    def _deliver(self, site: str, send: records.Send, now: int) -> Iterator[tuple[GeneratedProcess, records.Record]]:
        self.gseq[site] += 1
        gseq, vid = self.gseq[site], self.vids[site]
        via: Literal["local", "relay"] = "local" if site == send.site else "relay"
        for process in self.sites[site]:
            delivery = records.Deliver(
                now,
                _EPOCH_NS + now,
                send.site,
                send.origin,
                send.scope,
                send.first,
                send.count,
                via,
                gseq,
                vid,
                self.vids,
                send.sizes,
                send.digest,
            )
            for each in self._spoil(process, delivery):
                yield process, each

    def _spoil(self, process: GeneratedProcess, delivery: records.Deliver) -> tuple[records.Deliver, ...]:
        fault = process.faults.get(process.delivered)
        process.delivered += 1
        if process.swapped is not None:
            late, process.swapped = process.swapped, None
            return (delivery, late)
        if fault is None:
            return (delivery,)
        self.planted.append(Planted(fault, process.site, process.name, process.uuid, delivery))
        if fault is Fault.LOSS:
            return ()
        if fault is Fault.DUPLICATE:
            return (delivery, delivery)
        if fault is Fault.FOREIGN:
            return (replace(delivery, origin=Address.make(self.rng)),)
        process.swapped = delivery
        return ()

    def _plant(self) -> None:
        """Assign each fault a different slot in the middle of the run."""
        wanted = [fault for fault, times in self.plan.faults.items() for _ in range(times)]
        slots = max(0, self.plan.batches // _SLOT - 2)
        if len(wanted) > slots * len(self.processes):
            raise ValueError(f"{len(wanted)} faults need more than {self.plan.batches} batches")
        for fault, slot in zip(wanted, self.rng.sample(range(slots * len(self.processes)), len(wanted)), strict=True):
            process = self.processes[slot % len(self.processes)]
            process.faults[(slot // len(self.processes) + 1) * _SLOT + self.rng.randrange(_SLOT // 2)] = fault
