"""Channels across sites for programs on threads: `with relay.blocking.open_channel(config) as channel`.

See `sitestack/blocking.py`. The names, types, errors and rules are those of `relay`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from relay.events import GlobalView, Role
from relay.node.channel import RelayChannel as TrioChannel
from relay.node.channel import open_channel as open_on_trio
from relay.node.events import BetweenSites
from relay.structures.lock import Leader as TrioLeader
from relay.structures.lock import Lock as TrioLock
from relay.structures.lock import LockDoor
from relay.structures.map import Map as TrioMap
from relay.structures.map import MapDoor
from sitestack.blocking import BlockingDoor, blocked, computed, open_transport, opened, perform

__all__ = ["Leader", "Lock", "Map", "RelayChannel", "open_channel", "open_transport"]

V = TypeVar("V")


class RelayChannel(BlockingDoor[TrioChannel, BetweenSites]):
    """`relay.RelayChannel` on threads."""

    global_view: GlobalView | None
    role: Role | None
    state_arrived: tuple[int, int]

    switch_site = blocked(TrioChannel.switch_site)
    fetch_state = computed(TrioChannel.fetch_state)
    problems = computed(TrioChannel.problems)
    warnings = computed(TrioChannel.warnings)
    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, RelayChannel)


class Map(MapDoor[V]):
    """`relay.Map` on threads."""

    def __enter__(self) -> Map[V]:
        opening = opened(self._inner.replica.opened, lambda _: self)()
        opening.__enter__()
        self._opened = opening
        return self

    def __exit__(self, *exc: Any) -> bool | None:
        return self._opened.__exit__(*exc)

    put = blocked(TrioMap[V].put)
    update = blocked(TrioMap[V].update)
    delete = blocked(TrioMap.delete)
    compare = blocked(TrioMap.compare)


class Lock(LockDoor):
    """`relay.Lock` on threads."""

    release = computed(TrioLock.release)
    wait_lost = blocked(TrioLock.wait_lost)

    def acquire(self) -> int:
        """As `relay.Lock.acquire`."""
        granted: list[int] = []

        async def ask() -> None:
            granted.append(await self._await(TrioLock.acquire))

        try:
            perform(ask)
        except BaseException:
            if granted:  # as the thread was interrupted
                self.release()
            raise
        return granted[0]

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(self, *exc: Any) -> None:
        self.release()


class Leader(Lock):
    """`relay.Leader` on threads, as a lock: no thread can be cancelled, so read `token` while you lead."""

    kind = TrioLeader
