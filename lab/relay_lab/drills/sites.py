"""The sites of a drill: running members, roles, and faults. An `Executor` carries everything out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import trio

from relay_lab.drills.executor import Executor, MemberDied, Status
from relay_lab.drills.plan import (
    MEMBER_VERBS,
    UNDOING,
    Action,
    Drill,
    Place,
    Seat,
    parse_link,
    parse_place,
    seat_members,
)

POLL_S = 0.1
#: Seconds until all members must see each other.
START_TIMEOUT_S = 120.0
#: Seconds to wait for a site's relay.
RELAY_TIMEOUT_S = 20.0
#: Seconds for a graceful leave, after which the process is killed.
LEAVE_TIMEOUT_S = 15.0

State = Literal["waiting", "joining", "running", "paused", "excluded", "leaving", "gone"]


class NotReady(Exception):
    """The members did not all see each other in time; the text lists their views."""


class NotStarted(NotReady):
    """The sites did not come up, so nothing was done to them."""


class Sites:
    def __init__(self, drill: Drill, executor: Executor) -> None:
        self.seats = seat_members(drill.sites, drill.members)
        #: Members with faults: only the checkers know which messages they may lack.
        self.touched: dict[Seat, None] = {}
        #: Members that were paused or cut off from their site.
        self.apart: dict[Seat, None] = {}
        #: Members whose disks were full, so that their journals have holes.
        self.full: dict[Seat, None] = {}
        self.problems: list[str] = []
        self._drill = drill
        self._executor = executor
        self._states: dict[Seat, State] = dict.fromkeys(self.seats, "waiting")
        #: Whether all members have been there.
        self._complete = False
        #: Role or name -> the member at the time of the fault.
        self._had: dict[Place, Seat] = {}

    def of(self, site: str) -> list[Seat]:
        return [seat for seat in self.seats if seat.site == site and self._states[seat] == "running"]

    def sender_of(self, site: str) -> Seat | None:
        """Return the member of a site that publishes: the last one that runs."""
        return next(reversed(self.of(site)), None)

    def if_there(self, seat: Seat) -> Seat | None:
        """Return this member, unless it has ended."""
        return seat if self._states[seat] in ("running", "paused") else None

    def survivors(self) -> list[Seat]:
        """Return all members that should be in the views now, paused ones included."""
        return [seat for seat in self.seats if self._states[seat] in ("joining", "running", "paused")]

    async def start(self) -> None:
        """Start the first and the second in line of each site, then the others; return once every
        member sees all members.

        Raises NotStarted, MemberDied.
        """
        with trio.move_on_after(START_TIMEOUT_S) as waiting:
            for seats in self._waves():
                for seat in seats:
                    await self._start(seat)
                await self._joined(seats)
            await _until(self._all_see_all)
            self._complete = True
        if waiting.cancelled_caught:
            raise NotStarted(await self._explain())

    async def statuses(self) -> dict[Seat, Status]:
        """Return the status of every running member that answers. Raises MemberDied."""
        answers: dict[Seat, Status | None] = {}

        async def ask(seat: Seat) -> None:
            answers[seat] = await self._status(seat)

        async with trio.open_nursery() as nursery:
            for seat in self.seats:
                nursery.start_soon(ask, seat)
        return {seat: status for seat in self.seats if (status := answers[seat]) is not None}

    async def feed(self, seat: Seat, lines: Iterable[bytes]) -> None:
        """Let a member publish. Raises MemberDied, unless the drill has stopped it."""
        try:
            await self._executor.feed(seat, b"".join([line + b"\n" for line in lines]))
        except MemberDied:
            if self._states[seat] in ("running", "paused"):
                raise

    async def leave(self) -> None:
        async with trio.open_nursery() as nursery:
            for seat in self.survivors():
                nursery.start_soon(self._leave, seat)

    async def act(self, action: Action) -> str:
        """Carry out an action; return the name of its target. Raises NotReady without a member of the role, MemberDied."""
        if action.do not in MEMBER_VERBS:
            return await self._harm_link(action)
        seat = await self._whom(parse_place(action.target, self._drill.sites, self._drill.members), action.do)
        self.touched[seat] = None
        await self._harm_member(action, seat)
        return seat.name

    async def find(self, place: Place) -> Seat:
        """Return the member of a role, as soon as there is one. Raises NotReady at the timeout."""
        named = [seat for seat in self.seats if (seat.site, seat.name) == (place.site, place.who)]
        if named:
            return named[0]
        with trio.move_on_after(RELAY_TIMEOUT_S):
            while True:
                for seat in self.of(place.site):
                    status = await self._status(seat)
                    if status is not None and status.get("role") in ("relay", "coord"):
                        names = status["view"]["members"]
                        wanted = {"relay": 0, "second": min(1, len(names) - 1), "member": -1}[place.who]
                        return Seat(place.site, names[wanted])
                await trio.sleep(POLL_S)
        raise NotReady(f"There has been no relay for {place.site} for {RELAY_TIMEOUT_S:g} s.")

    async def _harm_member(self, action: Action, seat: Seat) -> None:
        match action.do:
            case "kill":
                self._states[seat] = "gone"
                await self._executor.kill(seat)
            case "pause" | "block":
                self._states[seat] = "paused"
                self.apart[seat] = None
                await (self._executor.pause if action.do == "pause" else self._executor.block)(seat)
            case "resume" | "unblock":
                await (self._executor.resume if action.do == "resume" else self._executor.unblock)(seat)
                self._states[seat] = "running"
            case "stop-reader":
                # its site excludes it, and it ends
                self._states[seat] = "excluded"
                self.apart[seat] = None
                await self._executor.stop_reader(seat)
            case "leave":
                await self._leave(seat)
            case "restart" | "upgrade":
                if self._states[seat] != "gone":
                    await self._leave(seat)
                await self._start(seat, self._executor.upgrade if action.do == "upgrade" else None)
                await self._joined([seat])
            case "start" if self._states[seat] == "gone":
                await self._start(seat)
            case "start":
                self.problems.append(f"{seat.name} of {seat.site} was to be started, and had not ended.")
            case "fill-disk":
                self.full[seat] = None
                await self._executor.fill_disk(seat)
            case "free-disk":
                await self._executor.free_disk(seat)

    async def _harm_link(self, action: Action) -> str:
        one, other, both = parse_link(action.link, self._drill.sites, self._drill.members)
        sources, destinations = await self._end(one, action.do), await self._end(other, action.do)
        pairs = [(source, destination) for source in sources for destination in destinations if source != destination]
        if both:
            pairs += [(destination, source) for source, destination in pairs]
        distinct = list(dict.fromkeys(pairs))
        if one.site == other.site:
            # Of one member and all others the one is affected.
            alone = [seat for place, end in ((one, sources), (other, destinations)) if place.who for seat in end]
            harmed = dict.fromkeys(alone or sources)
            self.touched.update(harmed)
            self.apart.update(harmed)
        await self._executor.harm_links(distinct, action.do, action.amount)
        return ""

    async def _end(self, place: Place, do: str) -> list[Seat]:
        if not place.who:
            return [seat for seat in self.seats if seat.site == place.site]
        return [await self._whom(place, do)]

    async def _whom(self, place: Place, do: str) -> Seat:
        """Return the member that a place means; to end a fault, the earlier one."""
        if do not in UNDOING or place not in self._had:
            self._had[place] = await self.find(place)
        return self._had[place]

    async def _start(self, seat: Seat, start: Callable[[Seat], Awaitable[None]] | None = None) -> None:
        await (start or self._executor.start)(seat)
        self._states[seat] = "joining"

    async def _joined(self, seats: Sequence[Seat]) -> None:
        """Wait until they have joined or ended; before that they cannot send."""
        await _until(partial(self._have_joined, seats))
        self._states.update({seat: "running" for seat in seats if self._states[seat] == "joining"})

    async def _leave(self, seat: Seat) -> None:
        self._states[seat] = "leaving"
        wrong = await self._executor.leave(seat, LEAVE_TIMEOUT_S)
        if wrong:
            self.problems.append(wrong)
        self._states[seat] = "gone"

    async def _status(self, seat: Seat) -> Status | None:
        if self._states[seat] not in ("joining", "running"):
            return None
        try:
            status = await self._executor.status(seat)
            if self._complete and self._states[seat] == "joining" and is_member(status):
                self._states[seat] = "running"
            return status
        except MemberDied as error:
            if self._states[seat] == "joining" and self._complete:
                # A member that cannot join again is a result of the drill.
                self._states[seat] = "gone"
                self.problems.append(str(error))
            elif self._states[seat] in ("joining", "running"):
                raise
            return None

    def _waves(self) -> list[list[Seat]]:
        """Return members that start together: the first of each site, the second of each, all others."""
        ranked = [(place % self._drill.members, seat) for place, seat in enumerate(self.seats)]
        return [[seat for rank, seat in ranked if min(rank, 2) == wave] for wave in range(3)]

    async def _have_joined(self, seats: Sequence[Seat]) -> bool:
        return all([is_member(await self._status(seat)) or self._states[seat] == "gone" for seat in seats])

    async def _all_see_all(self) -> bool:
        statuses = await self.statuses()
        return len(statuses) == len(self.seats) and all(sees(status, self.seats) for status in statuses.values())

    async def _explain(self) -> str:
        statuses = await self.statuses()
        seen = [
            f"{seat.name} sees {', '.join(name for _, name in _seen(statuses[seat], False)) or 'nobody'}"
            if seat in statuses
            else f"{seat.name} does not answer"
            for seat in self.seats
        ]
        return f"After {START_TIMEOUT_S:g} s the members do not all see each other: {'; '.join(seen)}."


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - other processes have no event to wait for
        await trio.sleep(POLL_S)


def is_member(status: Status | None) -> bool:
    return status is not None and status.get("state") == "member"


def sees(status: Status, seats: Sequence[Seat]) -> bool:
    alone = len({seat.site for seat in seats}) == 1
    return _seen(status, alone) == sorted((seat.site, seat.name) for seat in seats)


def _seen(status: Status, alone: bool) -> list[tuple[str, str]]:
    """Return (site, name) of all members that a status shows."""
    if alone:
        return sorted((str(status.get("site")), name) for name in (status.get("view") or {}).get("members", ()))
    sites = (status.get("global_view") or {}).get("sites", {})
    return sorted((site, name) for site, names in sites.items() for name in names)
