"""Numbered recent events of a node, read by any number of streams at their own pace.

The oldest events are evicted without waiting for readers. Streams without messages have a separate
ring.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import trio

from relay.node.output.event_json import event_objects, to_server_sent
from sitestack.channel.receiving.inbox import DELIVERY_BYTES, Delivery
from sitestack.model.events import Event
from sitestack.model.level import Level
from sitestack.model.view import View

#: Maximum held events, and their bytes including encoded ones.
EVENTS_MAX = 10_000
BYTES_MAX = 8 << 20
#: Maximum held events other than messages.
CHANGES_MAX = 256
#: Bytes sent to a stream at a time, but at least one event.
CHUNK_BYTES = 64 << 10


class UnknownId(Exception):
    """The text is not the id of an event."""


@dataclass(slots=True)
class _Entry:
    first: int
    count: int
    item: Delivery | View | Event
    #: Time of arrival (seconds since 1970).
    time: float
    size: int
    #: Encoded events, once a stream needs them.
    encoded: list[bytes] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class EventRing:
    """Events of one process. Numbers start at 1."""

    def __init__(
        self, site: str, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX, changes_max: int = CHANGES_MAX
    ) -> None:
        self.newest = 0
        #: Name of this process, part of every id.
        self.run = secrets.token_hex(6)
        self.site = site
        self._entries: deque[_Entry] = deque()
        self._changes: deque[_Entry] = deque(maxlen=changes_max)
        #: Number of the last evicted event that was no message.
        self._changes_gone = 0
        self._events = Level(events_max, "the last events, for streams that are resumed")
        self._bytes = Level(bytes_max, "the last events, for streams that are resumed")
        self._grown: trio.Event | None = None

    def put(self, item: Delivery | View | Event, time: float) -> None:
        if isinstance(item, Delivery):
            count, size = item.batch.count, DELIVERY_BYTES + len(item.batch.body)
        else:
            count, size = 1, DELIVERY_BYTES
        entry = _Entry(self.newest + 1, count, item, time, size)
        self.newest = entry.last
        self._entries.append(entry)
        if not isinstance(item, Delivery):
            if len(self._changes) == self._changes.maxlen:
                self._changes_gone = self._changes[0].first
            self._changes.append(entry)
        self._events.add(count)
        self._bytes.add(size)
        self._trim()
        if self._grown is not None:
            self._grown.set()
            self._grown = None

    def oldest(self, messages: bool) -> int:
        """Return the number of the oldest held event, else the next number."""
        if messages:
            return self._entries[0].first if self._entries else self.newest + 1
        return self._changes_gone + 1

    def number_of(self, event_id: str) -> int | None:
        """Return the number in an id, or None for another process. Raises UnknownId."""
        run, _, number = event_id.partition("-")
        if not (number.isascii() and number.isdecimal() and len(number) < 20 and run.isascii() and run.isalnum()):
            raise UnknownId
        return min(int(number), self.newest) if run == self.run else None

    def id_of(self, number: int) -> str:
        return f"{self.run}-{number}"

    def read(self, after: int, messages: bool) -> tuple[bytes, int]:
        """Return the next events, encoded, and the number to continue from.

        The caller has checked for evicted events (`oldest`).
        """
        chunk: list[bytes] = []
        size = 0
        for entry in self._after(after, messages):
            events = self._encoded(entry)[max(0, after + 1 - entry.first) :]
            for number, event in enumerate(events, max(after + 1, entry.first)):
                if chunk and size + len(event) > CHUNK_BYTES:
                    return b"".join(chunk), number - 1
                chunk.append(event)
                size += len(event)
            after = entry.last
        return b"".join(chunk), max(after, self.newest)

    async def grown(self, after: int) -> None:
        """Wait until there is an event after this number."""
        while self.newest <= after:
            if self._grown is None:
                self._grown = trio.Event()
            await self._grown.wait()

    def levels(self) -> dict[str, Level]:
        return {"events": self._events, "events_bytes": self._bytes}

    def _after(self, after: int, messages: bool) -> Iterator[_Entry]:
        """Return the entries with later events, oldest first; most readers are near the end."""
        found: list[_Entry] = []
        for entry in reversed(self._entries if messages else self._changes):
            if entry.last <= after:
                break
            found.append(entry)
        return reversed(found)

    def _encoded(self, entry: _Entry) -> list[bytes]:
        if not entry.encoded:
            entry.encoded = self._encode(entry)
            grown = sum(map(len, entry.encoded))
            if self._entries and entry.first >= self._entries[0].first:
                entry.size += grown
                self._bytes.add(grown)
                self._trim()
        return entry.encoded

    def _encode(self, entry: _Entry) -> list[bytes]:
        objects = event_objects(entry.item, self.site, entry.time)
        return [to_server_sent(self.id_of(number), each) for number, each in enumerate(objects, entry.first)]

    def _trim(self) -> None:
        while len(self._entries) > 1 and (self._events.is_over or self._bytes.is_over):
            gone = self._entries.popleft()
            self._events.now -= gone.count
            self._bytes.now -= gone.size
