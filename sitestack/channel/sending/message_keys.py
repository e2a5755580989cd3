"""Message keys: members recognise a message that was sent again.

A member does not show its application a message whose key it has already delivered. It remembers
the keys of the last `KEYS_MAX` messages with keys, for `KEY_AGE_S`; a joiner starts with those of
the application's state (`state_extras.py`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import trio

from sitestack.channel.receiving.state_extras import StateKey
from sitestack.model.address import Address, Place
from sitestack.model.envelope import KEY, KEY_BYTES_MAX, NO_HEADERS, Envelope, wrap, wrap_keyed
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Batch, MessageId, Scope

#: Maximum number of keys, about 30 MB.
KEYS_MAX = 65_536
#: Seconds for which a key is remembered: longer than the default of `relay.budget.age_s`.
KEY_AGE_S = 3_600.0


class DeliveredKey(NamedTuple):
    #: An id of a message of its batch.
    stem: MessageId
    number: int
    #: SHA-256 of its payload.
    digest: bytes
    #: When it was delivered (s).
    at: float
    #: Keys of this member up to the end of its batch; 0 for an adopted key.
    place: int

    @property
    def id(self) -> MessageId:
        return MessageId(self.stem.site, self.stem.origin, self.stem.scope, self.number)


def require_fit(key: object, target: Address | Place | None, oob: bool) -> None:
    """Raise LocalError unless a message to `target` (None: a multicast) can have this key."""
    if target is not None or oob:
        raise LocalError("only a multicast can have a key")
    if not isinstance(key, bytes):
        raise TypeError(f"a key must be bytes or a text, not {type(key).__name__}")
    if len(key) > KEY_BYTES_MAX:
        raise LocalError(f"a key has at most {KEY_BYTES_MAX} bytes, not {len(key)}")


def require_free(headers: Mapping[str, bytes]) -> None:
    if KEY in headers:
        raise LocalError(f"the header {KEY} is reserved for keys; send the message with key= instead")


def wrap_one(
    payload: bytes, headers: Mapping[str, bytes] | None, key: bytes | str, target: Address | Place | None, oob: bool = False
) -> bytes:
    """Return the payload in its envelope. Raise LocalError for unfit headers or an unfit key."""
    require_free(headers or NO_HEADERS)
    if not key:
        return wrap(Envelope(headers=headers or NO_HEADERS), payload)
    key = key.encode() if isinstance(key, str) else key
    require_fit(key, target, oob)
    return wrap_keyed(key, headers, payload)


def wrap_all(
    payloads: list[bytes],
    headers: Sequence[Mapping[str, bytes]] | None,
    keys: Sequence[bytes | str] | None,
    target: Address | None,
) -> list[bytes]:
    if any(each is not None and len(each) != len(payloads) for each in (headers, keys)) or not all(keys or ()):
        raise LocalError("headers and keys must have an item for each message, and no key may be empty")
    items = zip(payloads, headers or repeat(None), keys or repeat(b""), strict=False)
    return [wrap_one(*each, target) for each in items]


class MessageKeys:
    def __init__(self, keys_max: int = KEYS_MAX, age_s: float = KEY_AGE_S) -> None:
        #: Messages not shown because their keys were repeats.
        self.repeats = 0
        self.stored = 0
        self._keys_max = keys_max
        self._age_s = age_s
        #: In the order of delivery; a dict evicts slowly.
        self._known: OrderedDict[bytes, DeliveredKey] = OrderedDict()
        self._high = 0
        #: Bounded by the callers of this channel: each waits for one key.
        self._awaited: dict[bytes, trio.Event] = {}

    def known(self, key: bytes) -> DeliveredKey | None:
        """Return the message that was delivered with this key; None if none was or it has expired."""
        self._forget(trio.current_time())
        return self._known.get(key)

    async def delivered(self, key: bytes) -> DeliveredKey:
        while (known := self.known(key)) is None:
            awaited = self._awaited.setdefault(key, trio.Event())
            try:
                await awaited.wait()
            finally:
                # A cancelled wait must leave no entry.
                if self._awaited.get(key) is awaited and not awaited.statistics().tasks_waiting:
                    del self._awaited[key]
        return known

    def unseen(self, batch: Batch) -> Sequence[Batch]:
        """Return the parts of a batch that repeat no delivered key, and store their keys."""
        if not (keyed := batch.keyed()):
            return (batch,)
        now = trio.current_time()
        self._forget(now)
        self.stored += len(keyed)
        stem, place, known = MessageId(batch.site, batch.origin, batch.scope, batch.first), self.stored, self._known
        repeats: list[int] = []
        for number, (key, payload) in enumerate(keyed, batch.first):
            if key in known:
                repeats.append(number)
            elif key:
                known[key] = DeliveredKey(stem, number, hashlib.sha256(payload).digest(), now, place)
                if self._awaited:
                    self._wake(key)
        self.repeats += len(repeats)
        self._bound()
        return batch.without(repeats)

    def carried(self, place: int) -> tuple[StateKey, ...]:
        """Return the keys stored up to this place, for a state that contains their messages."""
        if not self._known:
            return ()
        now = trio.current_time()
        self._forget(now)
        return tuple(
            StateKey(key, each.stem.site, each.stem.origin, each.stem.scope, each.number, each.digest, now - each.at)
            for key, each in self._known.items()
            if each.place <= place
        )

    def adopt(self, keys: Collection[StateKey]) -> None:
        """Add the keys of an adopted state. They replace own ones: the state has the first message."""
        if not keys:
            return
        now = trio.current_time()
        for each in keys:
            at = now - max(0.0, each.age_s)
            stem = MessageId(each.site, each.origin, each.scope, each.n)
            self._known[each.key] = DeliveredKey(stem, each.n, each.digest, at, 0)
            self._wake(each.key)
        self._known = OrderedDict(sorted(self._known.items(), key=lambda item: item[1].at))
        self._bound()

    def forget(self, batch: Batch) -> None:
        """Forget the keys of messages that became a gap: repeats are shown."""
        for number, (key, _) in enumerate(batch.keyed(), batch.first):
            known = self._known.get(key)
            if known is not None and known.id == MessageId(batch.site, batch.origin, batch.scope, number):
                del self._known[key]

    def forget_lost(self, gaps: Collection[Gap]) -> None:
        """Forget the keys of messages that a state lacks: repeats of them are shown."""
        lost: dict[tuple[str, Address, Scope], list[Gap]] = {}
        for gap in gaps:
            lost.setdefault((gap.site, gap.origin, gap.scope), []).append(gap)
        for key, known in list(self._known.items()) if lost else ():
            of = known.id
            if any(gap.first <= of.n <= gap.last for gap in lost.get((of.site, of.origin, of.scope), ())):
                del self._known[key]

    def level(self) -> Level:
        return Level.of(len(self._known), self._keys_max, "keys by which messages are recognised for an hour", high=self._high)

    def _bound(self) -> None:
        while len(self._known) > self._keys_max:
            self._known.popitem(last=False)
        self._high = max(self._high, len(self._known))

    def _wake(self, key: bytes) -> None:
        if (awaited := self._awaited.pop(key, None)) is not None:
            awaited.set()

    def _forget(self, now: float) -> None:
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if now - oldest.at < self._age_s:
                return
            del self._known[key]
