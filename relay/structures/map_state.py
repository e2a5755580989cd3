"""The state of a replicated map: one entry for each key, merged by the larger stamp.

A stamp is a hybrid logical clock (Kulkarni et al., 2014) with the site and the origin as tie-break.
Merging takes the entry with the larger stamp. It is commutative, associative and idempotent, so all
members with the same entries are equal, in whatever order these arrived. A delete is an entry
without a value: a tombstone, which outlives older writes that are still on their way.

An entry lists the last stamp of each member whose writes of the key its writer had seen: a version
vector, bounded. An entry that replaces another without having seen it is a conflict.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

from sitestack.config import SITE_CHARS_MAX
from sitestack.model.address import UUID_BYTES
from sitestack.model.errors import ProtocolError

#: Buckets of keys. Two members compare one digest of 8 bytes for each.
BUCKETS = 256
DIGEST_BYTES = 8
#: Stamps that an entry lists, of as many members. Another member's write that is older than a full
#: list counts as seen.
SEEN_MAX = 8
#: Times of replaced entries that are kept, beyond one for each live entry.
REPLACED_MAX = 1_024
#: The clock counts in 2**-16 milliseconds since 1970.
TICKS_PER_MS = 1 << 16


class Stamp(NamedTuple):
    """The time of a write (ticks), and its writer. Stamps are unique and ordered."""

    time: int
    site: str
    origin: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    stamp: Stamp
    #: None for a tombstone.
    value: bytes | None
    #: Milliseconds since 1970, by the writer's clock; 0 for never.
    expires_ms: int
    #: The last stamp of each member whose writes of this key the writer had seen, newest first.
    seen: tuple[Stamp, ...]

    def pack(self, key: str) -> list[Any]:
        return [key, *self.stamp, self.value, self.expires_ms, [list(each) for each in self.seen]]


_LAST = Stamp(2**64 - 1, "\U0010ffff" * SITE_CHARS_MAX, bytes(UUID_BYTES))
#: The entry with the most bytes beside key and value.
LONGEST = Entry(_LAST, None, 2**64 - 1, (_LAST,) * SEEN_MAX)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two concurrent writes of a key: one was kept, one was overwritten. None stands for a delete."""

    key: str
    kept: bytes | None
    lost: bytes | None
    kept_by: Stamp
    lost_by: Stamp


def parse_entry(data: Any) -> tuple[str, Entry]:
    """Return the key and the entry of a packed entry. Raises ProtocolError."""
    try:
        key, time, site, origin, value, expires_ms, seen = data
        stamps = tuple([_stamp(*each) for each in seen])
        entry = Entry(_stamp(time, site, origin), value, expires_ms, stamps)
    except (TypeError, ValueError):
        raise ProtocolError("map_entry") from None
    sound = type(key) is str and type(expires_ms) is int and (value is None or type(value) is bytes)
    if not sound or len(stamps) > SEEN_MAX:
        raise ProtocolError("map_entry")
    return key, entry


def _stamp(time: int, site: str, origin: bytes) -> Stamp:
    """Return a stamp that shares its site and origin with others. Raises ValueError for values of no member."""
    if type(time) is not int or time < 0 or type(site) is not str or type(origin) is not bytes:
        raise ValueError("a stamp has a time, a site and an origin")
    if len(site) > SITE_CHARS_MAX or len(origin) != UUID_BYTES:
        raise ValueError("a stamp names a member")
    return Stamp(time, *_shared(site, origin))


@lru_cache(maxsize=1_024)
def _shared(site: str, origin: bytes) -> tuple[str, bytes]:
    return site, origin


def bucket_of(key: str) -> int:
    return crc32(key.encode()) % BUCKETS


def are_concurrent(newer: Entry, older: Entry) -> bool:
    """Return whether the writer of `newer` had not seen `older`. Writes of one origin follow each other."""
    if newer.stamp.origin == older.stamp.origin:
        return False
    for stamp in newer.seen:
        if stamp.origin == older.stamp.origin:
            return older.stamp > stamp
    return len(newer.seen) < SEEN_MAX or older.stamp > newer.seen[-1]


class MapState:
    """The entries of one member, with digests of its live entries for each bucket."""

    def __init__(self, tombstones_max: int, drift_ms: int) -> None:
        """`tombstones_max`: beyond it the oldest is forgotten.

        `drift_ms`: a received stamp that is further ahead of this clock does not advance it.
        """
        self.entries: dict[str, Entry] = {}
        self.live = 0
        #: Tombstones in the order in which they came.
        self.tombstones: OrderedDict[str, None] = OrderedDict()
        self._buckets: list[dict[str, None]] = [{} for _ in range(BUCKETS)]
        self._digests = [0] * BUCKETS
        self._tombstones_max = tombstones_max
        self._drift_ms = drift_ms
        #: When entries expire, replaced ones too.
        self._expiring: list[tuple[int, str]] = []
        self._time = 0
        #: The last time that this member gave an entry which a clock ahead of its own had stamped.
        self._ahead = 0

    def write(self, key: str, value: bytes | None, site: str, origin: bytes, now_ms: int, ttl_ms: int = 0) -> Entry:
        """Return a new entry, to be sent and merged. Its stamp is above that of the present one."""
        present = self.entries.get(key)
        seen: tuple[Stamp, ...] = ()
        if present is not None:
            earlier = [stamp for stamp in present.seen if stamp.origin != present.stamp.origin]
            seen = (present.stamp, *earlier[: SEEN_MAX - 1])
        self._time = max(self._time + 1, now_ms * TICKS_PER_MS)
        time = self._time
        if present is not None and present.stamp.time >= time:
            time = self._ahead = max(present.stamp.time, self._ahead) + 1
        return Entry(Stamp(time, site, origin), value, now_ms + ttl_ms if ttl_ms else 0, seen)

    def clock(self, now_ms: int) -> int:
        """Return the time of this member's clock (ticks); later writes have larger stamps."""
        self._time = max(self._time, now_ms * TICKS_PER_MS)
        return self._time

    def observe(self, time: int, now_ms: int) -> bool:
        """Advance the clock to a received time; return False if that is too far ahead."""
        if time > (now_ms + self._drift_ms) * TICKS_PER_MS:
            return False
        self._time = max(self._time, time)
        return True

    def get(self, key: str, now_ms: int) -> bytes | None:
        entry = self.entries.get(key)
        if entry is None or (entry.expires_ms and entry.expires_ms <= now_ms):
            return None
        return entry.value

    def merge(self, key: str, entry: Entry) -> Conflict | None:
        """Keep the entry with the larger stamp; return a conflict if the writers missed each other."""
        present = self.entries.get(key)
        if present is None:
            self._put(key, None, entry)
            return None
        if entry.stamp == present.stamp:
            return None
        newer, older = (entry, present) if entry.stamp > present.stamp else (present, entry)
        if newer is entry:
            self._put(key, present, entry)
        if not are_concurrent(newer, older):
            return None
        return Conflict(key, newer.value, older.value, newer.stamp, older.stamp)

    def expire(self, now_ms: int) -> None:
        """Turn entries whose time is over into tombstones with the same stamp."""
        while self._expiring and self._expiring[0][0] <= now_ms:
            due, key = heapq.heappop(self._expiring)
            entry = self.entries.get(key)
            if entry is not None and entry.value is not None and entry.expires_ms == due:
                self._put(key, entry, replace(entry, value=None))

    def purge(self, time: int) -> None:
        """Forget the tombstones up to this time: every site has them, and all older writes."""
        for key in [key for key in self.tombstones if self.entries[key].stamp.time <= time]:
            self._forget(key)

    def _put(self, key: str, before: Entry | None, entry: Entry) -> None:
        bucket = bucket_of(key)
        if before is not None and before.value is not None:
            self.live -= 1
            self._digests[bucket] ^= _digest(key, before.stamp)
        if entry.value is not None:
            self.live += 1
            self._digests[bucket] ^= _digest(key, entry.stamp)
            if entry.expires_ms:
                heapq.heappush(self._expiring, (entry.expires_ms, key))
        self.entries[key] = entry
        self._buckets[bucket][key] = None
        self.tombstones.pop(key, None)
        if entry.value is None:
            self.tombstones[key] = None
            if len(self.tombstones) > self._tombstones_max:
                self._forget(next(iter(self.tombstones)))
        if len(self._expiring) > 2 * self.live + REPLACED_MAX:
            live = [(key, each) for key, each in self.entries.items() if each.value is not None]
            self._expiring = [(each.expires_ms, key) for key, each in live if each.expires_ms]
            heapq.heapify(self._expiring)

    def _forget(self, key: str) -> None:
        del self.tombstones[key], self.entries[key], self._buckets[bucket_of(key)][key]

    def digests(self) -> bytes:
        return b"".join([digest.to_bytes(DIGEST_BYTES, "big") for digest in self._digests])

    def differing(self, digests: bytes) -> tuple[int, ...]:
        """Return the buckets that differ from another member's digests. Raises ProtocolError."""
        if type(digests) is not bytes or len(digests) != BUCKETS * DIGEST_BYTES:
            raise ProtocolError("map_digests")
        mine = self.digests()
        size = DIGEST_BYTES
        return tuple([n for n in range(BUCKETS) if mine[n * size : n * size + size] != digests[n * size : n * size + size]])

    def in_bucket(self, bucket: int) -> Iterator[list[Any]]:
        """Yield the packed entries of a bucket, tombstones too; the map may change meanwhile."""
        for key in list(self._buckets[bucket]):
            entry = self.entries.get(key)
            if entry is not None:
                yield entry.pack(key)


def _digest(key: str, stamp: Stamp) -> int:
    text = f"{key}\0{stamp.time}\0{stamp.site}\0".encode() + stamp.origin
    return int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest(), "big")
