"""One drill: start the sites, load them, inject faults, wait until they are at rest, stop, and judge
by the journals.

`observe` is called with the progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import trio

from relay.check import check_directories
from relay.journal import Problem, find_journals, read_journal
from relay_lab.drills.end_checks import lost_links, overfull, queues, unlike_others, unrest, wrong_views
from relay_lab.drills.executor import Executor, MemberDied, Place, PlaceFailed, Status
from relay_lab.drills.hostile.evidence import Attack, gather, hostile_faults, not_attacked, refusals
from relay_lab.drills.load import DrillPlan, Load
from relay_lab.drills.plan import ATTACK_VERBS, UNDOING, Action, Seat, draw_method
from relay_lab.drills.result import DrillResult, Moment
from relay_lab.drills.sites import POLL_S, NotReady, Sites
from relay_lab.drills.verdict import (
    MemberLog,
    delivery_rates,
    judge,
    longest_silence,
    missed_at_home,
    number_processes,
    read_log,
)
from relay_lab.sim.lies import without_site
from sitestack.promises import Report

Phase = Literal["starting", "sending", "quieting", "stopping", "checking", "done"]
#: Called with the phase, the deliveries so far at all members together, and the expected ones.
Observe = Callable[[Phase, int, int], None]

#: Seconds within which everything must come to rest.
REST_TIMEOUT_S = 60.0
#: Seconds without change that count as rest.
SETTLE_S = 1.0
#: Maximum number of kinds of packets in the report of an attack.
_KINDS_MAX = 8


async def run_drill(plan: DrillPlan, place: Place, observe: Observe) -> DrillResult:
    """Run it at a place.

    Raises NotReady when the sites do not come up, MemberDied when a member dies that was not killed, PlaceFailed.
    """
    try:
        async with place as executor:
            return await _Run(plan, executor, observe).run()
    except BaseExceptionGroup as group:
        cause: BaseException = group
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, NotReady | MemberDied | PlaceFailed):
            raise cause from None
        raise


class _Run:
    def __init__(self, plan: DrillPlan, executor: Executor, observe: Observe) -> None:
        self._plan = plan
        self._drill = plan.drill
        self._executor = executor
        self._observe = observe
        self._sites = Sites(plan.drill, executor)
        self._timeline: list[Moment] = []
        #: The beginning of the load, on trio's clock and on the journals' clock.
        self._began = 0.0
        self._began_ns = 0
        self._load = Load(plan, self._sites)
        #: Times of the first fault and of the end of the load, on the journals' clock; 0: not yet.
        self._harm_ns = self._end_ns = 0
        self._seen: dict[str, str] = {}
        self._at_end: dict[Seat, Status] = {}
        #: The last status of each member.
        self._heard: dict[Seat, Status] = {}
        self._at_begin: dict[Seat, Status] = {}
        self._attacks: list[Attack] = []
        #: Sentences on queues above their bounds, while a linked site lies.
        self._over: dict[str, None] = {}
        #: Member -> its memory at the first attack and at most, in bytes.
        self._memory: dict[Seat, tuple[int, int]] = {}

    async def run(self) -> DrillResult:
        started = trio.current_time()
        sites = self._sites
        self._observe("starting", 0, 1)
        await sites.start()
        await self._work()
        quiet_s, problems = await self._quiesce()
        self._observe("stopping", self._load.fed, self._load.fed)
        ended_w = time.time_ns()
        await sites.leave()
        self._observe("checking", self._load.fed, self._load.fed)
        journals = await self._executor.journals()
        report, logs = await trio.to_thread.run_sync(self._read, journals, ended_w)
        heard = {(log.site, log.name) for log in logs} | {(seat.site, seat.name) for seat in sites.full}
        problems += sites.problems
        problems += [
            f"{seat.name} of {seat.site} has left no journal." for seat in sites.seats if (seat.site, seat.name) not in heard
        ]
        problems += missed_at_home(logs)
        spans = (self._harm_ns, self._end_ns, self._began_ns)
        silence, own = [longest_silence(logs, *spans, own=own) if self._harm_ns else None for own in (False, True)]
        growth = {seat: most - first for seat, (first, most) in self._memory.items()}
        evidence = gather(self._attacks, logs, (self._began_ns, self._end_ns), growth, (self._at_begin, self._at_end))
        self._observe("done", self._load.fed, self._load.fed)
        return DrillResult(
            drill=self._drill,
            seed=self._plan.seed,
            sites={site: [seat.name for seat in sites.seats if seat.site == site] for site in self._drill.sites},
            members=tuple(judge(logs)),
            report=report,
            silence=silence,
            own_silence=own,
            rates=delivery_rates(logs, self._began_ns),
            means=tuple(self._executor.means()),
            seconds=trio.current_time() - started,
            quiet_s=quiet_s,
            queues=queues(self._at_end),
            timeline=tuple(self._timeline),
            evidence=evidence,
            unexercised=(*self._unexercised(), *not_attacked(evidence)),
            problems=(
                *problems,
                *hostile_faults(self._drill, evidence),
                *self._over,
                *unlike_others(sites, self._heard, self._at_end),
                *wrong_views(self._drill, self._at_end),
                *lost_links(self._drill, self._at_end),
            ),
        )

    def _unexercised(self) -> tuple[str, ...]:
        late = [f"The load had ended before {action} took effect." for action in self._load.late]
        return (*late, *self._executor.idle())

    async def _work(self) -> None:
        self._at_begin = await self._sites.statuses()
        self._began, self._began_ns = trio.current_time(), time.monotonic_ns()
        async with trio.open_nursery() as watching:
            watching.start_soon(self._watch)
            async with trio.open_nursery() as working:
                working.start_soon(self._harm)
                await self._load.run(self._began)
                self._end_ns = time.monotonic_ns()
            watching.cancel_scope.cancel()

    async def _harm(self) -> None:
        for at_s, action in draw_method(self._drill, self._plan.seed):
            await trio.sleep_until(self._began + at_s)
            await self._act(action)
            self._load.settled(action)

    async def _act(self, action: Action) -> None:
        began = trio.current_time()
        if not self._harm_ns and action.do not in UNDOING:
            self._harm_ns = time.monotonic_ns()
        if action.do in ATTACK_VERBS:
            await self._attack(action)
            return
        whom = await self._sites.act(action)
        took_s = trio.current_time() - began
        took = f", which took {took_s:.1f} s" if took_s > 2 * POLL_S else ""
        self._note(f"{action}{f' ({whom})' if whom else ''}{took}", began)

    async def _attack(self, action: Action) -> None:
        began, began_ns = trio.current_time(), time.monotonic_ns()
        before = await self._sites.statuses()
        report = await self._executor.attack(action, before)
        refused = refusals(before, await self._sites.statuses())
        self._attacks.append(Attack(action, report, began_ns, time.monotonic_ns(), refused))
        sent = ", ".join(f"{count:,} {kind}" for kind, count in report.sent.items()) if len(report.sent) < _KINDS_MAX else ""
        told = sent or f"{sum(report.sent.values()):,} of {len(report.sent)} kinds"
        self._note(f"{action}, which took {report.seconds:.1f} s: {told}", began)

    async def _watch(self) -> None:
        while True:
            statuses = await self._sites.statuses()
            self._look(statuses)
            self._weigh()
            if self._drill.liar:
                self._over.update(dict.fromkeys(overfull(statuses)))
            total = len(self._drill.sites) * self._plan.count * max(len(statuses), 1)
            self._observe("sending", _delivered(statuses), total)
            await trio.sleep(POLL_S)

    def _weigh(self) -> None:
        if not self._harm_ns or not self._drill.attacks:
            return
        for seat in self._sites.seats:
            size = self._executor.memory_bytes(seat)
            first, most = self._memory.setdefault(seat, (size, size))
            self._memory[seat] = (first, max(most, size))

    def _note(self, what: str, when: float | None = None) -> None:
        moment = Moment(round((when or trio.current_time()) - self._began, 2), what)
        self._timeline.append(moment)
        self._timeline.sort(key=lambda each: each.at_s)

    def _look(self, statuses: dict[Seat, Status]) -> None:
        self._heard.update(statuses)
        for site in self._drill.sites:
            here = {seat: status for seat, status in statuses.items() if seat.site == site}
            told = "; ".join([_scene(seat, here[seat]) for seat in here if here[seat].get("role") in ("relay", "coord")])
            told = told or f"no relay for {site}"
            before = self._seen.get(site)
            self._seen[site] = told
            if before is not None and told != before:
                self._note(f"{site}: {told}")

    async def _quiesce(self) -> tuple[float, list[str]]:
        """Wait until all queues stay at rest; return the seconds, and sentences on restless queues."""
        began = since = trio.current_time()
        delivered, found = -1, ["No member was asked."]
        while (now := trio.current_time()) < began + REST_TIMEOUT_S:
            self._at_end = await self._sites.statuses()
            self._look(self._at_end)
            found = unrest(self._at_end, self._sites.survivors())
            count = _delivered(self._at_end)
            self._observe("quieting", count, max(count, 1))
            if found or count != delivered:
                delivered, since = count, now
            elif now - since >= SETTLE_S:
                return round(since - began, 2), []
            await trio.sleep(POLL_S)
        return REST_TIMEOUT_S, [f"Not at rest after {REST_TIMEOUT_S:g} s: {each}" for each in found or ["deliveries continue."]]

    def _read(self, journals: Sequence[Path], ended_w: int) -> tuple[Report, list[MemberLog]]:
        select = partial(without_site, self._drill.liar) if self._drill.liar else None
        report = check_directories(journals, quiescent=True, ended_w=ended_w, select=select)
        found: list[Problem] = []
        order = {(seat.site, seat.name): place for place, seat in enumerate(self._sites.seats)}
        logs = []
        # Members on other machines have other monotonic clocks.
        wall_ns = None if self._executor.same_clock else time.time_ns() - time.monotonic_ns()
        for each in find_journals(journals, found):
            seat = Seat(each.site, each.name)
            log = read_log(each.site, each.name, each.uuid, read_journal(each, found), wall_ns)
            log.received = {stream: told for stream, told in log.received.items() if stream.site != self._drill.liar}
            log.part, log.apart = seat in self._sites.touched, seat in self._sites.apart
            logs.append(log)
        number_processes(logs)
        # A member that was started again has several logs.
        return report, sorted(logs, key=lambda log: (order[log.site, log.name], log.began_ns))


def _scene(seat: Seat, status: Status) -> str:
    view = ", ".join(status["view"]["members"])
    if status["role"] == "coord":
        return f"{seat.name} coordinates {view} and has no link"
    others = [site for site in (status.get("global_view") or {}).get("sites", {}) if site != seat.site]
    seen = f" and sees {', '.join(others)}" if others else " and sees no other site"
    return f"{seat.name} relays for {view}{seen}"


def _delivered(statuses: dict[Seat, Status]) -> int:
    return sum(sum(status["messages"]["delivered"].values()) for status in statuses.values())
