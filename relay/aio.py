"""Channels across sites for programs on asyncio: `async with relay.aio.open_channel(config) as channel`.

See `sitestack/aio.py`. The names, types, errors and rules are those of `relay`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from relay.events import GlobalView, Role
from relay.node.channel import RelayChannel as TrioChannel
from relay.node.channel import open_channel as open_on_trio
from relay.node.events import BetweenSites
from relay.structures.lock import RETRY_S, LockDoor
from relay.structures.lock import Leader as TrioLeader
from relay.structures.lock import Lock as TrioLock
from relay.structures.map import Map as TrioMap
from relay.structures.map import MapDoor
from sitestack.aio import AsyncDoor, awaited, computed, open_transport, opened
from sitestack.model.errors import NoMajority

__all__ = ["Leader", "Lock", "Map", "RelayChannel", "open_channel", "open_transport"]

V = TypeVar("V")


class RelayChannel(AsyncDoor[TrioChannel, BetweenSites]):
    """`relay.RelayChannel` on asyncio."""

    global_view: GlobalView | None
    role: Role | None
    state_arrived: tuple[int, int]

    switch_site = awaited(TrioChannel.switch_site)
    fetch_state = computed(TrioChannel.fetch_state)
    problems = computed(TrioChannel.problems)
    warnings = computed(TrioChannel.warnings)
    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, RelayChannel)


class Map(MapDoor[V]):
    """`relay.Map` on asyncio."""

    async def __aenter__(self) -> Map[V]:
        opening = opened(self._inner.replica.opened, lambda _: self)()
        await opening.__aenter__()
        self._opened = opening
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._opened.__aexit__(*exc)

    put = awaited(TrioMap[V].put)
    update = awaited(TrioMap[V].update)
    delete = awaited(TrioMap.delete)
    compare = awaited(TrioMap.compare)


class Lock(LockDoor):
    """`relay.Lock` on asyncio."""

    acquire = awaited(TrioLock.acquire)
    release = computed(TrioLock.release)
    wait_lost = awaited(TrioLock.wait_lost)

    async def __aenter__(self) -> int:
        return await self.acquire()

    async def __aexit__(self, *exc: Any) -> None:
        await self.release()


class Leader(Lock):
    """`relay.Leader` on asyncio."""

    kind = TrioLeader

    async def run(self, duty: Callable[[int], Awaitable[None]]) -> None:
        """As `relay.Leader.run`; `duty` runs in this event loop."""

        async def work(token: int) -> None:
            await duty(token)

        while True:
            try:
                token = await self.acquire()
            except NoMajority:
                await asyncio.sleep(RETRY_S)
                continue
            at_work, lost = asyncio.create_task(work(token)), asyncio.create_task(self.wait_lost())
            try:
                await asyncio.wait({at_work, lost}, return_when=asyncio.FIRST_COMPLETED)
                if at_work.done():
                    return at_work.result()
            finally:
                at_work.cancel()
                lost.cancel()
                cancelled: asyncio.CancelledError | None = None
                while not (at_work.done() and lost.done()):
                    try:
                        await asyncio.wait({at_work, lost})
                    except asyncio.CancelledError as error:
                        cancelled = error
                await self.release()
                if cancelled is not None:
                    raise cancelled
            if not at_work.cancelled() and (failure := at_work.exception()) is not None:
                raise failure
