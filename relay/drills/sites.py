"""The sites of a drill: all their members, started in an order that makes the first of each site its relay, and ended again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from relay.drills.layout import Discovery, Seat, configurations
from relay.drills.member import MemberProcess

#: The members are asked how they are at this interval.
POLL_S = 0.1
#: How long it may take until everybody sees everybody, on a slow machine.
START_TIMEOUT_S = 60.0
#: How long a site may be without a relay when one is to be killed.
RELAY_TIMEOUT_S = 20.0
#: How long a graceful leave may take before the process is killed.
LEAVE_TIMEOUT_S = 15.0
#: The same when the drill is being given up.
ABORT_TIMEOUT_S = 3.0

Status = dict[str, Any]


class NotReady(Exception):
    """The sites did not come to see each other. The text says how far they came."""


class Sites:
    """The members of all sites, in the order of their seats. Made by `running_sites`."""

    def __init__(self, members: Sequence[MemberProcess]) -> None:
        self.members = tuple(members)

    def of(self, site: str) -> list[MemberProcess]:
        """The members of a site that have not been killed."""
        return [member for member in self.members if member.seat.site == site and member.killed_ns is None]

    async def start(self) -> None:
        """Start the first and the second in line of each site, then the others; return when all of them see all of them.

        Raises NotReady, MemberDied.
        """
        with trio.move_on_after(START_TIMEOUT_S) as waiting:
            for members in self._waves():
                for member in members:
                    await member.start()
                await _until(partial(self._have_joined, members))
            await _until(self._all_see_all)
        if waiting.cancelled_caught:
            raise NotReady(await self._explain())

    def _waves(self) -> list[list[MemberProcess]]:
        """Who starts together: the ranks that matter in a failover are those of the seats."""
        waves: list[list[MemberProcess]] = [[], [], []]
        ranks: dict[str, int] = {}
        for member in self.members:
            rank = ranks.get(member.seat.site, 0)
            ranks[member.seat.site] = rank + 1
            waves[min(rank, 2)].append(member)
        return waves

    async def statuses(self) -> dict[Seat, Status]:
        """What everybody alive says. Raises MemberDied."""
        answers = {member.seat: await member.status() for member in self.members}
        return {seat: status for seat, status in answers.items() if status is not None}

    async def relay_of(self, site: str) -> MemberProcess:
        """The member that relays for a site now, or as soon as one does. Raises NotReady when that takes too long."""
        with trio.move_on_after(RELAY_TIMEOUT_S):
            while True:
                for member in self.of(site):
                    status = await member.status()
                    if status is not None and status.get("role") == "relay":
                        return member
                await trio.sleep(POLL_S)
        raise NotReady(f"Nobody has been relaying for {site} for {RELAY_TIMEOUT_S:g} s.")

    async def leave(self, timeout_s: float = LEAVE_TIMEOUT_S) -> None:
        """Everybody leaves gracefully; who does not in time is killed."""
        async with trio.open_nursery() as nursery:
            for member in self.members:
                nursery.start_soon(member.end, timeout_s)

    async def _have_joined(self, members: Sequence[MemberProcess]) -> bool:
        return all([is_member(await member.status()) for member in members])

    async def _all_see_all(self) -> bool:
        everybody = sorted((member.seat.site, member.seat.name) for member in self.members)
        alone = len({site for site, _ in everybody}) == 1
        statuses = await self.statuses()
        return len(statuses) == len(self.members) and all(_seen(status, alone) == everybody for status in statuses.values())

    async def _explain(self) -> str:
        statuses = await self.statuses()
        seen = [
            f"{seat.name} sees {', '.join(name for _, name in _seen(statuses[seat], False)) or 'nobody'}"
            if seat in statuses
            else f"{seat.name} does not answer"
            for seat in [member.seat for member in self.members]
        ]
        return f"After {START_TIMEOUT_S:g} s the members do not all see each other: {'; '.join(seen)}."


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - other processes have no event to wait for
        await trio.sleep(POLL_S)


def is_member(status: Status | None) -> bool:
    """Whether a node says that it has joined its site."""
    return status is not None and status.get("state") == "member"


def _seen(status: Status, alone: bool) -> list[tuple[str, str]]:
    """(site, name) of all that a node sees; a site that is alone has no global view."""
    if alone:
        return sorted((str(status.get("site")), name) for name in (status.get("view") or {}).get("members", ()))
    sites = (status.get("global_view") or {}).get("sites", {})
    return sorted((site, name) for site, names in sites.items() for name in names)


@asynccontextmanager
async def running_sites(seats: Sequence[Seat], discovery: Discovery, directory: Path, journal: Path) -> AsyncIterator[Sites]:
    """Processes for all seats, not yet started. After the block none of them is left, whatever happened in it."""
    with configurations(seats, discovery, directory) as files:
        sites = Sites([MemberProcess(seat, files[seat], directory, journal) for seat in seats])
        try:
            yield sites
        finally:
            with trio.CancelScope(shield=True):
                await sites.leave(ABORT_TIMEOUT_S)
