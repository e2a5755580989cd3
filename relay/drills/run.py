"""One drill: start the sites, load them, do harm, wait until it is quiet, stop, and judge by the journals.

Nothing in it prints: `observe` hears how far it is, and the answer holds everything there is to show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import trio

from relay.check import Report, check_directories
from relay.drills.layout import Discovery, Seat, seat_members
from relay.drills.member import MemberProcess
from relay.drills.sites import POLL_S, Sites, Status, is_member, running_sites
from relay.drills.verdict import MemberLog, MemberVerdict, judge, longest_silence_s, order_agrees, read_log
from relay.journal import Problem, find_journals, read_journal

Phase = Literal["starting", "sending", "quieting", "stopping", "checking", "done"]
#: Hears the phase, and how many deliveries of how many there have been at all members together.
Observe = Callable[[Phase, int, int], None]

#: The fault: who is killed when half of the messages of the first site are sent.
Kill = Literal["relay", "none"]

#: Nothing more is delivered anywhere for so long: longer than it takes to find out that a member died and to replace it.
QUIET_S = 15.0
#: Then everybody gets this long to hear that everybody has everything, before the first one leaves.
SETTLE_S = 1.0
#: Messages are handed to a member in portions of at least this length in time.
_FEED_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class DrillPlan:
    """What to do."""

    #: What one member of each site publishes, line by line.
    lines: Sequence[bytes]
    sites: tuple[str, ...] = ("NYC", "SFO")
    #: Members of each site.
    members: int = 3
    #: Lines per second of each sender.
    rate: float = 100.0
    kill: Kill = "none"
    discovery: Discovery = "multicast"


@dataclass(frozen=True, slots=True)
class DrillResult:
    """What came of it."""

    sites: dict[str, list[str]]
    members: tuple[MemberVerdict, ...]
    report: Report
    #: The longest silence at a member of another site around the fault; None when there was no fault.
    failover_s: float | None
    seconds: float
    #: What went wrong besides what was delivered, in sentences.
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing at all was wrong."""
        right = not any(each.lost or each.duplicated or each.reordered or each.gaps for each in self.members)
        return right and order_agrees(self.members) and self.report.verdict == "pass" and not self.problems

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        hashes: dict[str, dict[str, str]] = {site: {} for site in self.sites}
        for each in self.members:
            hashes[each.site][each.name] = each.order_hash
        return {
            "sites": self.sites,
            "sent": sum(each.sent for each in self.members),
            "delivered": {each.name: each.delivered for each in self.members},
            "lost": sum(each.lost for each in self.members),
            "duplicated": sum(each.duplicated for each in self.members),
            "reordered": sum(each.reordered for each in self.members),
            "gaps": sum(each.gaps for each in self.members),
            "failover_s": self.failover_s,
            "failover_worst_s": self.failover_s,
            "order_hash": hashes,
            "seconds": round(self.seconds, 3),
            "verdict": "pass" if self.passed else "fail",
            "problems": list(self.problems),
        }


async def run_drill(plan: DrillPlan, directory: Path, journal: Path, observe: Observe) -> DrillResult:
    """Run it; `directory` takes sockets, logs and configurations, `journal` the journals.

    Raises NotReady and MemberDied when the sites cannot even be started, or somebody dies who was not killed.
    """
    started = trio.current_time()
    seats = seat_members(plan.sites, plan.members)
    async with running_sites(seats, plan.discovery, directory, journal) as sites:
        observe("starting", 0, 1)
        await sites.start()
        fed = await _load(plan, sites, observe)
        problems = await _quiesce(sites, fed, observe)
        observe("stopping", fed, fed)
        await sites.leave()
    problems += [member.last_words() for member in sites.members if member.killed_ns is None and member.exit_code != 0]
    observe("checking", fed, fed)
    report, logs = await trio.to_thread.run_sync(_read, journal, sites.members)
    problems += [f"Member {member.seat.name} of {member.seat.site} has left no journal." for member in _unheard(sites, logs)]
    names = {site: [seat.name for seat in seats if seat.site == site] for site in plan.sites}
    seconds = trio.current_time() - started
    observe("done", fed, fed)
    return DrillResult(names, tuple(judge(logs)), report, _failover_s(plan, sites, logs), seconds, tuple(problems))


async def _load(plan: DrillPlan, sites: Sites, observe: Observe) -> int:
    """The last member of each site publishes all lines, while the fault happens. Answers how many lines were published."""
    senders = [sites.of(site)[-1] for site in plan.sites]
    half = trio.Event()

    async def feed(sender: MemberProcess) -> None:
        began, sent = trio.current_time(), 0
        while sent < len(plan.lines):
            due = min(len(plan.lines), math.ceil((trio.current_time() - began) * plan.rate + 1e-9))
            if due > sent:
                await sender.feed(b"".join([line + b"\n" for line in plan.lines[sent:due]]))
                sent = due
            if sender is senders[0] and 2 * sent >= len(plan.lines):
                half.set()
            await trio.sleep(_FEED_INTERVAL_S)

    async def watch() -> None:
        while True:
            observe("sending", *_progress(sites, await sites.statuses(), len(senders) * len(plan.lines)))
            await trio.sleep(POLL_S)

    async with trio.open_nursery() as watching:
        watching.start_soon(watch)
        async with trio.open_nursery() as feeding:
            for sender in senders:
                feeding.start_soon(feed, sender)
            if plan.kill == "relay":
                await half.wait()
                await (await sites.relay_of(plan.sites[0])).kill()
        watching.cancel_scope.cancel()
    return len(senders) * len(plan.lines)


async def _quiesce(sites: Sites, fed: int, observe: Observe) -> list[str]:
    """Wait until everybody alive has everything and is at rest, or nothing moves any more; then say so."""
    best, since = -1, trio.current_time()
    while trio.current_time() - since < QUIET_S:
        statuses = await sites.statuses()
        delivered, due = _progress(sites, statuses, fed)
        observe("quieting", delivered, due)
        if delivered >= due and all(is_member(status) for status in statuses.values()):
            await trio.sleep(SETTLE_S)
            return []
        if delivered > best:
            best, since = delivered, trio.current_time()
        await trio.sleep(POLL_S)
    return [f"Of {due} deliveries {due - delivered} had not come {QUIET_S:g} s after the last one."]


def _progress(sites: Sites, statuses: dict[Seat, Status], fed: int) -> tuple[int, int]:
    """How many deliveries there have been at all members alive, and how many there have to be."""
    alive = sum(member.killed_ns is None for member in sites.members)
    return sum(sum(status["messages"]["delivered"].values()) for status in statuses.values()), fed * alive


def _read(journal: Path, members: Sequence[MemberProcess]) -> tuple[Report, list[MemberLog]]:
    """The invariants' report, and every member's log in the order of the seats."""
    report = check_directories([journal], quiescent=True)
    found: list[Problem] = []
    journals = {(each.site, each.name): each for each in find_journals([journal], found)}
    logs = []
    for member in members:
        each = journals.get((member.seat.site, member.seat.name))
        if each is not None:
            killed = member.killed_ns is not None
            logs.append(read_log(each.site, each.name, each.uuid, read_journal(each, found), killed))
    return report, logs


def _unheard(sites: Sites, logs: Sequence[MemberLog]) -> list[MemberProcess]:
    heard = {(log.site, log.name) for log in logs}
    return [member for member in sites.members if (member.seat.site, member.seat.name) not in heard]


def _failover_s(plan: DrillPlan, sites: Sites, logs: Sequence[MemberLog]) -> float | None:
    killed = [member for member in sites.members if member.killed_ns is not None]
    silences = [
        longest_silence_s(logs, member.seat.site, member.killed_ns) for member in killed if member.killed_ns is not None
    ]
    found = [each for each in silences if each is not None]
    return round(max(found), 3) if found else None
