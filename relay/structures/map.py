"""A replicated map across sites: local reads, and the last writer wins everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from typing import Any, Generic, TypeVar

import trio

from relay.node.channel import RelayChannel
from relay.structures.map_replica import MESSAGE_BYTES, Comparison, MapReplica
from relay.structures.map_state import LONGEST, Conflict
from sitestack.channel.portal import ChannelDoor, Door
from sitestack.model.address import Address
from sitestack.model.errors import ChannelClosed, LocalError, MessageTooLarge
from sitestack.model.message import Scope, copy_buffer
from sitestack.wire.plain import pack_plain

V = TypeVar("V")

#: Maximum characters of a key.
KEY_CHARS_MAX = 1_024


def _same(value: Any) -> Any:
    return value


class MapReads(Generic[V]):
    """The entries at this member, which any thread may read."""

    def __init__(self, replica: MapReplica, decode: Callable[[bytes], V]) -> None:
        self.replica = replica
        self._decode = decode

    @property
    def conflicts(self) -> int:
        """The number of conflicts that this member has seen."""
        return self.replica.conflicts

    def get(self, key: str) -> V | None:
        """Return the value of a key at this member, or None."""
        value = self.replica.state.get(key, self.replica.now_ms())
        return None if value is None else self._decode(value)

    def __contains__(self, key: str) -> bool:
        return self.replica.state.get(key, self.replica.now_ms()) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (key for key in list(self.replica.state.entries) if key in self)

    def items(self) -> Iterator[tuple[str, V]]:
        for key in self:
            if (value := self.get(key)) is not None:
                yield key, value


class Map(MapReads[V]):
    """A map that all members of all sites share: `async with relay.Map(channel, "carts") as carts`.

    Reads are local. A write is acknowledged once this member's site has it; other sites get it as
    they get messages. The write with the larger stamp wins, in whatever order writes arrive, so all
    members with the same writes are equal. An overwritten concurrent write is reported to `on_conflict`.
    """

    def __init__(
        self,
        channel: RelayChannel,
        name: str,
        *,
        owner: str = "",
        encode: Callable[[V], bytes] = _same,
        decode: Callable[[bytes], V] = _same,
        on_conflict: Callable[[Conflict], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`owner`: the site whose coordinator orders all writes. `encode` and `decode`: of values.

        `on_conflict` is called within the turn, so it must be short. `clock`: seconds since 1970.
        """
        if isinstance(channel, Door):
            raise LocalError("relay.Map needs a channel on trio; use relay.aio.Map on asyncio, relay.blocking.Map on threads")
        if owner and owner not in channel.sites:
            raise LocalError(f"owner: {owner} is neither {channel.site} nor one of its peers")
        super().__init__(MapReplica(channel, name, on_conflict, clock), decode)
        self._channel = channel
        self._owner = owner
        self._encode = encode
        self._numbers = 0
        #: The last write of a key that this member has not delivered yet.
        self._undelivered: dict[str, trio.Event] = {}

    async def __aenter__(self) -> Map[V]:
        opening = self.replica.opened()
        await opening.__aenter__()
        self._opened = opening
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._opened.__aexit__(*exc)

    def __len__(self) -> int:
        self.replica.state.expire(self.replica.now_ms())
        return self.replica.state.live

    async def put(self, key: str, value: V, *, ttl_s: float = 0.0) -> None:
        """Set a key; with `ttl_s` it expires after that time. Return once this site has the write.

        Raises as `Channel.send`, and LocalError for a key that is no string of 1 to `KEY_CHARS_MAX`
        characters. With `owner`, raises LocalError while that site is not in the global view; if its
        coordinator dies or lacks the map, use a timeout.
        """
        await self._write(key, self._encode(value), ceil(ttl_s * 1000))

    async def update(self, key: str, change: Callable[[V | None], V | None], *, ttl_s: float = 0.0) -> V | None:
        """Set a key to `change` of its value at this member, in one step; None deletes it. Return the new value.

        So each change that others made meanwhile is either the value passed to `change`, or a conflict. Raises
        as `put`, and LocalError with `owner`: there the value may have changed before the write arrives.
        """
        if self._owner:
            raise LocalError("update needs a map without owner: the owner writes, and may have another value; use put")
        while (earlier := self._undelivered.get(key)) is not None and not earlier.is_set():
            await earlier.wait()  # of another task
        value = change(self.get(key))
        await self._write(key, None if value is None else self._encode(value), ceil(ttl_s * 1000))
        return value

    async def delete(self, key: str) -> None:
        """Remove a key; as `put`. Other sites' concurrent writes with a larger stamp win."""
        await self._write(key, None, 0)

    async def _write(self, key: str, value: bytes | None, ttl_ms: int) -> None:
        if type(key) is not str or not 0 < len(key) <= KEY_CHARS_MAX:
            raise LocalError(f"a key is a string of 1 to {KEY_CHARS_MAX} characters")
        if self.replica.has_left:
            raise ChannelClosed("the map is not open, or the channel is closed")
        if value is not None:
            value = copy_buffer("a value, after encode=", value)
        self._numbers += 1
        number = self._numbers
        delivered = self.replica.unacknowledged[number] = self._undelivered[key] = trio.Event()
        try:
            await self._submit_write(key, value, ttl_ms, number)
            await delivered.wait()
        finally:
            del self.replica.unacknowledged[number]
            delivered.set()
            if self._undelivered.get(key) is delivered:
                del self._undelivered[key]
        if self.replica.has_left:
            raise ChannelClosed("the map or the channel is closed; the write may have been sent")

    async def _submit_write(self, key: str, value: bytes | None, ttl_ms: int, number: int) -> None:
        target, me, replica = self._owner_member(), bytes(self._channel.me), self.replica
        if target is None:
            entry = replica.state.write(key, value, self._channel.site, me, replica.now_ms(), ttl_ms)
            await replica.submit(["W", entry.pack(key), me, number], Scope.ALL)
        else:
            size = len(pack_plain(replace(LONGEST, value=value).pack(key))) + MESSAGE_BYTES  # of the owner's message
            if size > (limit := replica.message_bytes_max):
                raise MessageTooLarge(f"{size} bytes are more than the allowed {limit} (protocols.batching.message_bytes_max)")
            await replica.submit(["F", key, value, ttl_ms, me, number], Scope.UNICAST, target)

    def _owner_member(self) -> Address | None:
        """Return the member to forward a write to; None to write here. Raises LocalError."""
        channel = self._channel
        if not self._owner:
            return None
        if self._owner == channel.site:
            coordinator = channel.view.coordinator
            return None if coordinator == channel.me else coordinator
        view = channel.global_view
        found = [member for member in (() if view is None else view.members) if member.site == self._owner]
        if not found:
            raise LocalError(f"the owner {self._owner} has no member in the global view; nothing was sent")
        return found[0]

    async def compare(self, *, timeout_s: float = 5.0) -> Comparison:
        """Ask all members of all sites whether their entries equal those of this member.

        Entries that are on their way, or just expire, differ. Raises as `Channel.send`.
        """
        return await self.replica.compare(timeout_s)


class MapDoor(Door[Map[V]], MapReads[V]):
    """A map for programs outside of trio. Its functions run in the channel's thread, but `decode` at the reader."""

    def __init__(
        self,
        channel: ChannelDoor[RelayChannel],
        name: str,
        *,
        owner: str = "",
        encode: Callable[[V], bytes] = _same,
        decode: Callable[[bytes], V] = _same,
        on_conflict: Callable[[Conflict], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """As `Map`."""
        made = Map(channel._inner, name, owner=owner, encode=encode, decode=decode, on_conflict=on_conflict, clock=clock)
        Door.__init__(self, made)
        MapReads.__init__(self, self._inner.replica, decode)
