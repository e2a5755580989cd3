"""Deliveries of members by their journals: lost, duplicated, reordered, gaps, order, and the longest
silence.

Losses are counted more strictly than by the checkers: for a member without faults, only a reported
gap excuses a missing message.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.promises import Fate, History, Ranges, Reception, Stream

#: When (ns), and how many messages.
Arrival = tuple[int, int]


@dataclass(slots=True)
class MemberLog:
    site: str
    name: str
    uuid: Address
    #: Whether the process ended without a farewell.
    crashed: bool
    sent: Ranges
    received: Mapping[Stream, Reception]
    #: Site -> arrivals of its messages, in order (monotonic clock of the machine, ns).
    arrivals: Mapping[str, Sequence[Arrival]]
    #: From the first record to the last, on the same clock.
    began_ns: int
    ended_ns: int
    #: SHA-256 over the ids in the order of delivery.
    order_hash: str
    #: Whether the member had a fault; then only the checkers know which messages it may miss.
    part: bool = False
    #: Whether the member was paused or cut off from its site.
    apart: bool = False
    #: First number -> when the batch was accepted, on the same clock.
    sends: Mapping[int, int] = field(default_factory=dict)
    #: Origin, first number, time and count of each batch of another site.
    relayed: Sequence[tuple[Address, int, int, int]] = ()
    #: Number of the process of this name, from 1 on.
    incarnation: int = 1

    @property
    def title(self) -> str:
        """The name, with the number of the process after the first."""
        return _title(self.name, self.incarnation)


def read_log(site: str, name: str, uuid: Address, journal: Iterable[records.Record], wall_ns: int | None = None) -> MemberLog:
    """Return the log of one process from its records.

    `wall_ns`: the reader's wall clock less its monotonic clock, for a process with another
    monotonic clock, whose times are converted.
    """
    told = list(journal)
    shift = told[0].w - told[0].t - wall_ns if told and wall_ns is not None else 0
    # the first record may be damaged
    history = History.of([records.Start(0, 0, site, uuid, name, 0, 0, ""), *told])
    order = hashlib.sha256()
    arrivals: dict[str, list[Arrival]] = {}
    relayed = []
    for deliver in (each for stay in history.stays for each in stay.delivers if each.scope is Scope.ALL):
        arrivals.setdefault(deliver.site, []).append((deliver.t + shift, deliver.count))
        if deliver.site != site:
            relayed.append((deliver.origin, deliver.first, deliver.t + shift, deliver.count))
        order.update(f"{deliver.site} {deliver.origin.hex()} {deliver.first} {deliver.last}\n".encode())
    return MemberLog(
        site,
        name,
        uuid,
        crashed=history.fate is Fate.CRASHED,
        sent=history.sent.get(Stream(site, uuid, Scope.ALL, None), Ranges()),
        received={stream: each for stream, each in history.receptions.items() if stream.scope is Scope.ALL},
        arrivals=arrivals,
        began_ns=told[0].t + shift if told else 0,
        ended_ns=told[-1].t + shift if told else 0,
        order_hash=order.hexdigest()[:16],
        sends={each.first: each.t + shift for each in history.sends if each.scope is Scope.ALL},
        relayed=relayed,
    )


@dataclass(frozen=True, slots=True)
class MemberVerdict:
    site: str
    name: str
    crashed: bool
    part: bool
    sent: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    #: Messages of other sites that were declared lost.
    gaps: int
    #: Messages both delivered and reported lost.
    overstated: int
    order_hash: str
    #: Number of the process of this name, from 1 on.
    incarnation: int = 1

    @property
    def title(self) -> str:
        """The name, with the number of the process after the first."""
        return _title(self.name, self.incarnation)


def _title(name: str, incarnation: int) -> str:
    return name if incarnation == 1 else f"{name}#{incarnation}"


def number_processes(logs: Iterable[MemberLog]) -> None:
    """Number the processes of each name in the order in which they began."""
    earlier: Counter[tuple[str, str]] = Counter()
    for log in sorted(logs, key=lambda log: log.began_ns):
        earlier[log.site, log.name] += 1
        log.incarnation = earlier[log.site, log.name]


def judge(logs: Sequence[MemberLog]) -> list[MemberVerdict]:
    """Return a verdict for each process. The journals must cover the whole life of every process."""
    number_processes(logs)
    due = _due(logs)
    return [_judge_member(log, due) for log in logs]


def _due(logs: Sequence[MemberLog]) -> dict[Stream, Ranges]:
    """Return the messages that every member must have: all of survivors; of a crashed member, those
    that a survivor delivered.
    """
    due: dict[Stream, Ranges] = {}
    for log in logs:
        stream = Stream(log.site, log.uuid, Scope.ALL, None)
        if log.crashed:
            held = [other.received[stream].delivered for other in logs if not other.crashed and stream in other.received]
            due[stream] = reduce(Ranges.__or__, held, Ranges())
        else:
            due[stream] = log.sent
    return due


def _judge_member(log: MemberLog, due: Mapping[Stream, Ranges]) -> MemberVerdict:
    received = log.received.values()
    missing = [log.received[stream].wants_of(wanted) if stream in log.received else wanted for stream, wanted in due.items()]
    return MemberVerdict(
        site=log.site,
        name=log.name,
        crashed=log.crashed,
        part=log.part,
        sent=len(log.sent),
        delivered=sum(len(each.delivered) for each in received),
        lost=0 if log.crashed or log.part else sum(map(len, missing)),
        duplicated=sum(last - first + 1 for each in received for first, last in each.duplicates),
        reordered=sum(len(each.late) for each in received),
        gaps=sum(len(each.gaps) for stream, each in log.received.items() if stream.site != log.site),
        overstated=sum(len(each.gaps & each.delivered) for each in received),
        order_hash=log.order_hash,
        incarnation=log.incarnation,
    )


def missed_at_home(logs: Sequence[MemberLog]) -> list[str]:
    """Return sentences on messages that reached another site and not the sender's, without a gap
    there.

    Members with faults are left out.
    """
    told = []
    for sender in logs:
        stream = Stream(sender.site, sender.uuid, Scope.ALL, None)
        away = [each.received[stream].delivered for each in logs if each.site != sender.site and stream in each.received]
        abroad = reduce(Ranges.__or__, away, Ranges())
        for mate in logs:
            if mate.site != sender.site or mate.crashed or mate.part:
                continue
            known = mate.received.get(stream)
            missed = len(abroad if known is None else abroad - known.delivered - known.gaps)
            if missed:
                told.append(
                    f"{missed} messages of {sender.title} of {sender.site} are at another site, and {mate.title} of "
                    f"{mate.site} has neither these messages nor a gap for them."
                )
    return told


def order_agrees(verdicts: Sequence[MemberVerdict]) -> bool:
    """Return whether all members without faults of each site delivered the same messages in the same order."""
    hashes: dict[str, set[str]] = {}
    for verdict in verdicts:
        if not verdict.crashed and not verdict.part:
            hashes.setdefault(verdict.site, set()).add(verdict.order_hash)
    return all(len(same) == 1 for same in hashes.values())


@dataclass(frozen=True, slots=True)
class Silence:
    """Silence of a site at a member, in seconds after the load began."""

    begin_s: float
    end_s: float
    member: str
    site: str

    @property
    def seconds(self) -> float:
        return round(self.end_s - self.begin_s, 3)


def longest_silence(
    logs: Sequence[MemberLog], since_ns: int, until_ns: int, zero_ns: int, *, own: bool = False
) -> Silence | None:
    """Return the longest silence of another site (`own`: of its own) at a permanent member after a
    fault, under load.

    It begins before the load ended at `until_ns`, and ends after the fault at `since_ns`; None
    without an arrival after the fault. `zero_ns`: the beginning of the load.
    """
    silences = [
        Silence(round((before - zero_ns) / 1e9, 3), round((after - zero_ns) / 1e9, 3), log.title, site)
        for log in logs
        if not log.crashed and not log.apart
        for site, arrivals in log.arrivals.items()
        if (site == log.site) is own
        for (before, _), (after, _) in pairwise(arrivals)
        if after > since_ns and before < until_ns
    ]
    return max(silences, key=lambda silence: silence.seconds, default=None)


#: Maximum steps of a chart, and the shortest step in seconds.
_STEPS_MAX = 200
_STEP_S_MIN = 0.2


@dataclass(frozen=True, slots=True)
class Rates:
    #: Beginning of the first step, in seconds after the load began.
    begin_s: float = 0.0
    step_s: float = _STEP_S_MIN
    #: (receiving site, sending site) -> messages per second in each step.
    rows: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)


def delivery_rates(logs: Sequence[MemberLog], zero_ns: int) -> Rates:
    """Return for each pair of sites the mean over the running members of the receiving site.

    Without members that were paused or cut off, unless all were.
    """
    ends = [arrivals[-1][0] for log in logs for arrivals in log.arrivals.values()]
    begins = [arrivals[0][0] for log in logs for arrivals in log.arrivals.values()]
    if not ends:
        return Rates()
    begin_s = min(min(begins) - zero_ns, 0) / 1e9
    length_s = (max(ends) - zero_ns) / 1e9 - begin_s
    step_s = max(_STEP_S_MIN, round(length_s / _STEPS_MAX + 0.05, 1))
    steps = int(length_s / step_s) + 1
    first_ns = zero_ns + int(begin_s * 1e9)
    senders = dict.fromkeys([*[log.site for log in logs], *[site for log in logs for site in log.arrivals]])
    rows = {}
    for receiver in dict.fromkeys(log.site for log in logs):
        listeners = _listeners(logs, receiver)
        for sender in senders:
            rows[receiver, sender] = _row(listeners, sender, first_ns, step_s, steps)
    return Rates(begin_s, step_s, rows)


def _listeners(logs: Sequence[MemberLog], site: str) -> list[MemberLog]:
    ours = [log for log in logs if log.site == site]
    return [log for log in ours if not log.apart] or ours


def _row(logs: Sequence[MemberLog], sender: str, first_ns: int, step_s: float, steps: int) -> tuple[float, ...]:
    totals = [0] * steps
    running = [0] * steps
    for log in logs:
        begin, end = [int((when - first_ns) / 1e9 / step_s) for when in (log.began_ns, log.ended_ns)]
        for step in range(max(begin, 0), min(end + 1, steps)):
            running[step] += 1
        for when_ns, count in log.arrivals.get(sender, ()):
            totals[min(int((when_ns - first_ns) / 1e9 / step_s), steps - 1)] += count
    return tuple([round(total / max(count, 1) / step_s, 1) for total, count in zip(totals, running, strict=True)])
