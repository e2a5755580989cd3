"""Frames of a linked site that lies: every frame of the bridge, invented, copied or aimed. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType
from typing import Any, Union, get_args, get_origin

from relay.gateway.wire import FRAMES, VERSION, Bye, FrameParser, Hello, Routed, encode
from sitestack.journal import records
from sitestack.model.address import UUID_BYTES, Address, ProxyUUID
from sitestack.model.envelope import Envelope
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch, pack_body
from sitestack.model.view import View, ViewId
from sitestack.wire.schema import hints_of

#: Seconds between two lies, and frames in one.
PAUSE_S = 0.1
FRAMES_MAX = 12
#: Frames of others that it keeps to send them again.
KEPT_MAX = 200
#: Share of frames that it has received before, of pieces of others' routes, of links that it ends, and of fields about itself.
REPEATED, AIMED, ENDED, OWN = 0.2, 0.3, 0.02, 0.7
#: The name of the site.
LIAR = "EVIL"


def opened(batch: Batch) -> list[tuple[Envelope, bytes]]:
    """Return the messages of a batch, none of a malformed one."""
    try:
        return list(batch.opened())
    except ProtocolError:
        return []


class Lies:
    """Source of one liar's frames."""

    def __init__(
        self,
        rng: random.Random,
        site: str,
        others: Sequence[str],
        known: Callable[[], Sequence[Address]],
        aim: Callable[[], Header | None],
    ) -> None:
        """`others`: the honest sites. `known` returns their members, and `aim` a forged frame, if it can."""
        self.me = Address.make(rng)
        #: Its links so far.
        self.links = 0
        #: The last frames that it has received.
        self.kept: list[Header] = []
        self._rng, self._site, self._others = rng, site, others
        self._known, self._aim = known, aim

    def hello(self) -> Hello:
        """Return a sound HELLO for its next link."""
        self.links += 1
        lineage = ViewId(1, self.me if self._rng.random() < OWN else self._address())
        epoch = ViewId(self.links, self.me)
        return Hello(VERSION, self._site, lineage, epoch, self.me, "liar", self.links, 1 << 20, 1 << 24)

    def keep(self, parser: FrameParser, data: bytes) -> None:
        """Keep received frames. Raises ProtocolError."""
        parser.feed(data)
        while (frame := parser.next_frame()) is not None:
            self.kept.append(frame)
        del self.kept[:-KEPT_MAX]

    def frame(self) -> Header:
        """Return a frame that can be encoded and read: one that it has received, or an invented one."""
        if self.kept and self._rng.random() < REPEATED:
            return self._rng.choice(self.kept)
        if self._rng.random() < AIMED and (piece := self._aim()) is not None:
            return piece
        kinds = [kind for kind in FRAMES.values() if kind not in (Hello, Bye)]
        while True:
            frame = self._invent(self._rng.choice(kinds))
            parser = FrameParser(1 << 24)
            parser.feed(encode(frame))
            try:
                parser.next_frame()
            except ProtocolError:
                continue  # a frame that the wire rejects would only end the link
            assert isinstance(frame, Header)
            return frame

    # -- contents --------------------------------------------------------------------------------------------------

    def _address(self) -> Address:
        return self._rng.choice([self.me, self.me, *self._known(), Address(self._rng.randbytes(UUID_BYTES))])

    def _name(self) -> str:
        return self._site if self._rng.random() < OWN else self._rng.choice([*self._others, "NOWHERE"])

    def _invent(self, kind: Any) -> Any:
        rng, args = self._rng, get_args(kind)
        if kind is Address:
            return self._address()
        if kind is ProxyUUID:
            return ProxyUUID(self._address(), self._name(), self._address())
        if kind is View:
            members = tuple(dict.fromkeys([self._address() for _ in range(rng.randint(1, 3))]))
            return View(self._invent(ViewId), self._invent(ViewId), members, tuple(["liar"] * len(members)))
        if kind is str:
            return self._name()
        if kind is bool:
            return rng.random() < 0.5
        if kind is int:
            return rng.choice([0, 1, 1, 2, 3, rng.randrange(1, 40), 1 << 40])
        if kind is float:
            return rng.random()
        if kind is bytes:
            kept = [frame.data for frame in self.kept if isinstance(frame, Routed)]
            return rng.choice([pack_body([b"lie"]), rng.randbytes(rng.randrange(1, 60)), *kept[-1:]])
        if isinstance(kind, type) and issubclass(kind, Enum):
            return rng.choice(list(kind))
        if NoneType in args:
            return None if rng.random() < 0.5 else self._invent(next(each for each in args if each is not NoneType))
        if get_origin(kind) is tuple:
            inner = args[:1] * rng.randrange(4) if args[-1] is Ellipsis else args
            return tuple([self._invent(each) for each in inner])
        if get_origin(kind) is dict:
            return {self._invent(args[0]): self._invent(args[1]) for _ in range(rng.randrange(4))}
        if get_origin(kind) is Union:
            return self._invent(rng.choice(args))
        hints = hints_of(kind)
        names = [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else kind._fields
        return kind(**{name: self._invent(hints[name]) for name in names})


def without_site(site: str, told: Iterable[records.Record]) -> list[records.Record]:
    """Return the records, without this other site and its messages."""
    kept: list[records.Record] = []
    for record in told:
        if isinstance(record, records.GlobalView):
            gvec = {each: vid for each, vid in record.gvec.items() if each != site}
            members = tuple([each for each in record.members if each[0] != site])
            kept.append(replace(record, gvec=gvec, members=members, down=tuple([each for each in record.down if each != site])))
        elif getattr(record, "site", "") != site:
            kept.append(record)
    return kept
