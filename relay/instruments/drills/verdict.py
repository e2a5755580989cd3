"""What the members delivered, by their own journals: lost, duplicated, reordered, gaps, order, and the longest silence.

It counts what a user cares about, per member; whether every invariant holds is for `relay.instruments.check` to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope

#: Whose messages: site and uuid.
Origin = tuple[str, Address]
#: First and last number of a run of messages.
Span = tuple[int, int]
#: When (ns), and how many messages.
Arrival = tuple[int, int]


@dataclass(slots=True)
class MemberLog:
    """What one process sent and delivered with scope ALL, out of its journal."""

    site: str
    name: str
    uuid: Address
    #: It did not stop gracefully: nobody is left to miss what it did not get.
    crashed: bool = True
    #: Something was done to it, so that only the checkers know what it may miss.
    part: bool = False
    #: It stood still or was cut off from its site, so that its own silence and gaps say nothing of the others.
    apart: bool = False
    sent: list[Span] = field(default_factory=list)
    #: By origin, in the order of delivery.
    delivered: dict[Origin, list[Span]] = field(default_factory=dict)
    gaps: dict[Origin, list[Span]] = field(default_factory=dict)
    #: When messages of each site arrived (monotonic clock of the machine, ns), in order, and how many at once.
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict)
    #: From the first record to the last, on the same clock.
    began_ns: int = 0
    ended_ns: int = 0
    #: SHA-256 over the ids in the order of delivery.
    order_hash: str = ""


def read_log(site: str, name: str, uuid: Address, journal: Iterable[records.Record], wall_ns: int | None = None) -> MemberLog:
    """The log of one process out of its records.

    `wall_ns` is the reader's wall clock less its monotonic clock. It is given when the process had another monotonic clock: its
    times are told in the reader's then, as exactly as the wall clocks of both agree. One offset serves the whole life of a
    process, so that differences between its times stay exact.
    """
    log = MemberLog(site, name, uuid)
    order = hashlib.sha256()
    shift = 0
    for record in journal:
        if not log.began_ns:
            shift = 0 if wall_ns is None else record.w - record.t - wall_ns
            log.began_ns = record.t + shift
        log.ended_ns = record.t + shift
        if isinstance(record, records.Deliver) and record.scope is Scope.ALL:
            origin = (record.site, record.origin)
            log.delivered.setdefault(origin, []).append((record.first, record.last))
            log.arrivals.setdefault(record.site, []).append((record.t + shift, record.count))
            order.update(f"{record.site} {record.origin.hex()} {record.first} {record.last}\n".encode())
        elif isinstance(record, records.Send) and record.scope is Scope.ALL:
            log.sent.append((record.first, record.last))
        elif isinstance(record, records.Gap):
            log.gaps.setdefault((record.site, record.origin), []).append((record.first, record.last))
        elif isinstance(record, records.Stop):
            log.crashed = False
    log.order_hash = order.hexdigest()[:16]
    return log


@dataclass(frozen=True, slots=True)
class MemberVerdict:
    """What became of the messages at one member."""

    site: str
    name: str
    crashed: bool
    part: bool
    apart: bool
    sent: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    gaps: int
    #: Messages that were delivered and declared lost: a gap must not say more than what is missing.
    overstated: int
    order_hash: str


def judge(logs: Sequence[MemberLog]) -> list[MemberVerdict]:
    """One verdict a member, in the order of the logs. The journals must cover the whole life of every process."""
    due = _due(logs)
    return [_judge_member(log, due) for log in logs]


def _due(logs: Sequence[MemberLog]) -> dict[Origin, list[Span]]:
    """What everybody must have: all that the survivors sent; of those that crashed, what some survivor has delivered."""
    due: dict[Origin, list[Span]] = {}
    for log in logs:
        origin = (log.site, log.uuid)
        if log.crashed:
            due[origin] = _union(span for other in logs if not other.crashed for span in other.delivered.get(origin, ()))
        else:
            due[origin] = _union(log.sent)
    return due


def _judge_member(log: MemberLog, due: Mapping[Origin, list[Span]]) -> MemberVerdict:
    delivered = duplicated = reordered = lost = 0
    for spans in log.delivered.values():
        total = _count(spans)
        distinct = _count(_union(spans))
        delivered += distinct
        duplicated += total - distinct
        reordered += sum(after[0] < before[0] for before, after in pairwise(spans))
    if not log.crashed and not log.part:
        for origin, wanted in due.items():
            had = _union([*log.delivered.get(origin, ()), *log.gaps.get(origin, ())])
            lost += _count(wanted) - _overlap(wanted, had)
    gaps = sum(_count(_union(spans)) for spans in log.gaps.values())
    overstated = sum(_overlap(_union(spans), _union(log.delivered.get(origin, ()))) for origin, spans in log.gaps.items())
    return MemberVerdict(
        site=log.site,
        name=log.name,
        crashed=log.crashed,
        part=log.part,
        apart=log.apart,
        sent=_count(log.sent),
        delivered=delivered,
        lost=lost,
        duplicated=duplicated,
        reordered=reordered,
        gaps=gaps,
        overstated=overstated,
        order_hash=log.order_hash,
    )


def order_agrees(verdicts: Sequence[MemberVerdict]) -> bool:
    """Whether all members of each site to whom nothing was done delivered the same messages in the same order."""
    hashes: dict[str, set[str]] = {}
    for verdict in verdicts:
        if not verdict.crashed and not verdict.part:
            hashes.setdefault(verdict.site, set()).add(verdict.order_hash)
    return all(len(same) == 1 for same in hashes.values())


@dataclass(frozen=True, slots=True)
class Silence:
    """A member heard nothing of a site from one moment to another."""

    begin_ns: int
    end_ns: int
    member: str
    #: Of whom.
    site: str

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end_ns - self.begin_ns) / 1e9


def longest_silence(logs: Sequence[MemberLog], since_ns: int, until_ns: int) -> Silence | None:
    """How long, at worst, a member that was there all the time heard nothing of another site after a fault, under load.

    It is the longest time between two arrivals of which the first came before the load ended, and the second after the fault;
    None when nothing came after it.
    """
    silences = [
        Silence(before, after, log.name, site)
        for log in logs
        if not log.crashed and not log.apart
        for site, arrivals in log.arrivals.items()
        if site != log.site
        for (before, _), (after, _) in pairwise(arrivals)
        if after > since_ns and before < until_ns
    ]
    return max(silences, key=lambda silence: silence.seconds, default=None)


def _union(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in disjoint spans, in order."""
    union: list[Span] = []
    for first, last in sorted(spans):
        if union and first <= union[-1][1] + 1:
            union[-1] = (union[-1][0], max(union[-1][1], last))
        else:
            union.append((first, last))
    return union


def _count(spans: Iterable[Span]) -> int:
    return sum(last - first + 1 for first, last in spans)


def _overlap(left: Sequence[Span], right: Sequence[Span]) -> int:
    """How many numbers are in both; each is disjoint and in order."""
    common = 0
    at = 0
    for first, last in left:
        while at < len(right) and right[at][1] < first:
            at += 1
        place = at
        while place < len(right) and right[place][0] <= last:
            common += min(last, right[place][1]) - max(first, right[place][0]) + 1
            place += 1
    return common
