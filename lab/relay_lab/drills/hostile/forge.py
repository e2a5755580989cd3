"""Forged datagrams: every header that members exchange, with contents that fit the site. Pure.

The forger knows the members' UUIDs and their view.
"""

from __future__ import annotations

import random
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, NamedTuple, Union, get_args, get_origin

from sitestack.layers.discovery.headers import WhoIsThere
from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.layers.membership.headers import JoinRequest, ViewTag
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.unicast.headers import UnicastData
from sitestack.model.address import UUID_BYTES, Address, Physical, ProxyUUID
from sitestack.model.address_cache import Contact
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import MAGIC, VERSION, Codec
from sitestack.wire.schema import hints_of, is_outer
from sitestack.wire.slices import DIGEST_BYTES, SLICES_MAX, Slice

#: Numbers at which a window, a counter or a connection may break.
_NUMBERS = (0, 1, 2, 3, 100, 1 << 20, 1 << 40)
_BODY = b"forged...."
#: Depth from which sequences in sequences are empty.
_DEEP = 3


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The forger's knowledge of a site, and an address for answers."""

    site: str
    members: tuple[Address, ...]
    view: ViewId
    me: Address
    physical: Physical


class Forged(NamedTuple):
    """One forged datagram, for a member or for all (None)."""

    kind: str
    dest: Address | None
    data: bytes


class Forger:
    def __init__(self, headers: Mapping[int, type[Header]], known: Knowledge, rng: random.Random) -> None:
        self.codec = Codec(known.site, headers)
        self._headers = headers
        self._inner = [kind for kind in headers.values() if not is_outer(kind)]
        self._known = known
        self._rng = rng

    def rounds(self) -> Iterator[Forged]:
        """Yield every header in every form, without end, in the names of members and of a stranger."""
        while True:
            for kind in self._headers.values():
                for dest in (None, self._rng.choice(self._known.members)):
                    yield from self._forms(kind, dest)

    def _forms(self, kind: type[Header], dest: Address | None) -> Iterator[Forged]:
        """Yield a header bare, numbered, and with the tag of the view."""
        known, rng = self._known, self._rng
        source = rng.choice((*known.members, known.me))
        header = self.header(kind)
        if dest is None:
            ends: tuple[tuple[Header, ...], ...] = ((), (Cast(known.view, source, rng.choice(_NUMBERS) + 1),))
        else:
            number = UnicastData(rng.choice(_NUMBERS), rng.choice((1, 2, 1 << 40)), 1, True)
            ends = ((), (number,), (ViewTag(known.view), number))
        for end in ends:
            body = self._batch(source) if rng.random() < 0.3 else None
            yield self.datagram(source, dest, (header, *end), body)

    def datagram(
        self, source: Address, dest: Address | None, headers: tuple[Header, ...], batch: Batch | None = None
    ) -> Forged:
        frame = self.codec.encode_frame(Frame(source, dest, headers, batch, len(headers) == 1))
        return Forged(type(headers[0]).__name__, dest, self.codec.encode_datagram(source, dest, [frame]))

    def header(self, kind: type[Header]) -> Header:
        made = self._value(kind, 0)
        assert isinstance(made, Header)
        return made

    def contact(self, address: Address) -> Contact:
        return Contact(address, "forged", (self._known.physical,), 1 << 40)

    def _batch(self, origin: Address) -> Batch:
        sized = len(_BODY).to_bytes(4, "little") + _BODY
        return Batch(self._known.site, origin, Scope.ALL, self._rng.choice(_NUMBERS) + 1, 1, sized)

    def _value(self, hint: Any, depth: int) -> Any:
        rng = self._rng
        special = self._special(hint, depth)
        if special is not None:
            return special
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            inner = [each for each in args if each is not type(None)]
            return None if rng.random() < 0.3 else self._value(inner[0], depth)
        if origin is tuple and args[1:] == (Ellipsis,):
            return tuple([self._value(args[0], depth + 1) for _ in range(rng.randrange(3) if depth < _DEEP else 0)])
        if origin is tuple:
            return tuple([self._value(each, depth + 1) for each in args])
        if origin is dict:
            count = rng.randrange(3) if depth < _DEEP else 0
            return {self._value(args[0], depth + 1): self._value(args[1], depth + 1) for _ in range(count)}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return rng.choice(list(hint))
        made = self._record(hint, depth)
        while hasattr(hint, "is_sound") and not made.is_sound():
            made = self._record(hint, _DEEP)  # empty sequences go together, and numbers are soon in range
        return made

    def _record(self, kind: Any, depth: int) -> Any:
        names = kind._fields if hasattr(kind, "_fields") else [each.name for each in fields(kind) if each.init]
        hints = hints_of(kind)
        return kind(**{name: self._value(hints[name], depth + 1) for name in names})

    def _special(self, hint: Any, depth: int) -> Any:
        """Return a value that fits the site; None for other types."""
        known, rng = self._known, self._rng
        anybody = (*known.members, known.me)
        if hint is Address:
            return rng.choice(anybody)
        if hint is ProxyUUID:
            return ProxyUUID(rng.choice(anybody), known.site, rng.choice(anybody))
        if hint is ViewId:
            return ViewId(known.view.counter + rng.randrange(3), rng.choice((known.view.creator, *anybody)))
        if hint is View:
            return self._view()
        if hint is Contact:
            return self.contact(rng.choice(anybody))
        if hint is Batch:
            return self._batch(rng.choice(anybody))
        if hint is Header:
            return self._value(rng.choice(self._inner), depth + 2)
        atoms = {
            int: rng.choice(_NUMBERS),
            bool: rng.random() < 0.5,
            float: rng.random(),
            str: known.site,
            bytes: rng.randbytes(32),
            Physical: known.physical,
        }
        return atoms.get(hint) if isinstance(hint, type) else None

    def _view(self) -> View:
        """Return the next view, with the forger as a member, perhaps the first."""
        known = self._known
        members = self._rng.choice(((known.me, *known.members), (*known.members, known.me), known.members[:1]))
        after = ViewId(known.view.counter + 1, members[0])
        return View(after, self._rng.choice((known.view, after)), members, tuple([f"forged{at}" for at in range(len(members))]))


#: Close to the largest datagram.
_LARGE_BYTES = 58_000
_PREFIX = MAGIC + bytes([VERSION])
#: The number of a view that does not exist.
_LATER = 99_999


def bombs(forger: Forger, site: str, dest: Address, rng: random.Random) -> Iterator[Forged]:
    """Yield one of each kind, without end, each in the name of another stranger."""
    while True:
        stranger = Address(rng.randbytes(UUID_BYTES))
        yield Forged(
            "nested arrays", dest, _PREFIX + (b"\xdd" + _LARGE_BYTES.to_bytes(4, "big")) * 1_000 + bytes(_LARGE_BYTES - 5_000)
        )
        yield Forged("empty lists", None, _PREFIX + b"\xdd" + _LARGE_BYTES.to_bytes(4, "big") + b"\x90" * _LARGE_BYTES)
        yield Forged("garbage", None, rng.randbytes(1_000))
        yield Forged("truncated", None, _PREFIX + b"\x95")
        yield from _never_whole(forger, stranger, dest, rng)
        yield from _never_due(forger, site, stranger, dest)
        asks = WhoIsThere(forger.contact(stranger), None, None, "order total, agreement survivors")
        yield _renamed("strangers", forger.datagram(stranger, None, (asks,)))
        number = UnicastData(1, 1, 1, True)
        yield _renamed("join requests", forger.datagram(stranger, dest, (JoinRequest("forged", True), number)))


def _never_whole(forger: Forger, stranger: Address, dest: Address, rng: random.Random) -> Iterator[Forged]:
    """Yield first pieces of a frame and of a datagram that are never completed."""
    first = FragmentHeader(1, 0, 1 << 20, bytes(_LARGE_BYTES))
    yield _renamed("first fragments", forger.datagram(stranger, dest, (first, UnicastData(1, 1, 1, True))))
    piece = Slice(stranger, rng.randbytes(DIGEST_BYTES), 0, SLICES_MAX, bytes(_LARGE_BYTES))
    yield Forged("first slices", dest, forger.codec.encode_slice(piece))


def _never_due(forger: Forger, site: str, stranger: Address, dest: Address) -> Iterator[Forged]:
    """Yield frames that wait for an earlier unicast, or a later view, that never comes."""
    piece = FragmentHeader(1, 0, 1 << 20, bytes(_LARGE_BYTES))
    yield _renamed("unicasts ahead", forger.datagram(stranger, dest, (piece, UnicastData(1, 2, 2, False))))
    body = (_LARGE_BYTES - 4).to_bytes(4, "little") + bytes(_LARGE_BYTES - 4)
    batch = Batch(site, stranger, Scope.ALL, 1, 1, body)
    later = ViewId(_LATER, stranger)
    yield _renamed("later views", forger.datagram(stranger, None, (Cast(later, stranger, 1),), batch))
    tagged = (ViewTag(later), UnicastData(1, 1, 1, True))
    yield _renamed("later tags", forger.datagram(stranger, dest, tagged, batch))


def _renamed(kind: str, forged: Forged) -> Forged:
    return forged._replace(kind=kind)
