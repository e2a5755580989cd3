"""A linked site that lies: after a sound HELLO its relay sends every frame of the bridge, invented, copied or aimed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Union, get_args, get_origin

from relay.gateway.wire import FRAMES, VERSION, Bye, Data, FrameParser, Hello, Routed, State, encode
from relay_lab.sim.tcp_streams import TcpStream
from relay_lab.sim.world import World
from relay_lab.simulation.process import RelayProcess
from sitestack.model.address import UUID_BYTES, Address, Physical, ProxyUUID
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope, pack_body
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


class Liar:
    """The relay of one site. `told` counts its frames by kind."""

    def __init__(self, world: World, site: str, place: Physical, bridges: Sequence[Physical], others: Sequence[str]) -> None:
        """`bridges` are the places of the honest relays, and `others` the names of their sites."""
        self.told: dict[str, int] = {}
        self.links = 0
        self._world, self._site, self._place = world, site, place
        self._bridges, self._others = bridges, others
        self._rng = random.Random(f"liar {world.seed}")
        self._me = Address.make(self._rng)
        self._streams: list[TcpStream] = []
        self._kept: list[Header] = []
        self._stopped = False
        self._lie()

    def stop(self) -> None:
        self._stopped = True
        for stream in self._streams:
            stream.close()

    def _lie(self) -> None:
        if self._stopped:
            return
        rng = self._rng
        self._streams = [stream for stream in self._streams if stream.open]
        if len(self._streams) < len(self._bridges):
            self._world.streams.dial(self._place, rng.choice(self._bridges), self._greet)
        for stream in self._streams:
            frames = [self._frame() for _ in range(rng.randrange(FRAMES_MAX))]
            for frame in frames:
                self.told[type(frame).__name__] = self.told.get(type(frame).__name__, 0) + 1
            stream.send(b"".join([encode(frame) for frame in frames]))
            if rng.random() < ENDED:
                stream.close()
        self._world.schedule.after(PAUSE_S, self._lie)

    def _greet(self, stream: TcpStream | None) -> None:
        if stream is None or self._stopped:
            return
        self.links += 1
        parser = FrameParser(1 << 24)
        stream.on_receive = partial(self._keep, parser)
        lineage = ViewId(1, self._me if self._rng.random() < OWN else self._address())
        hello = Hello(
            VERSION, self._site, lineage, ViewId(self.links, self._me), self._me, "liar", self.links, 1 << 20, 1 << 24
        )
        stream.send(encode(hello) + encode(State({})))
        self._streams.append(stream)

    def _keep(self, parser: FrameParser, data: bytes) -> None:
        parser.feed(data)
        while (frame := parser.next_frame()) is not None:
            self._kept.append(frame)
        del self._kept[:-KEPT_MAX]

    def _frame(self) -> Header:
        """Return a frame that can be encoded and read: one that it has received, or an invented one."""
        if self._kept and self._rng.random() < REPEATED:
            return self._rng.choice(self._kept)
        if self._rng.random() < AIMED and (piece := self._piece()) is not None:
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

    def _piece(self) -> Routed | None:
        """Return a message of another site in the next piece of its route, as if this one had sent or
        forwarded that.
        """
        rng, living = self._rng, [each for each in self._world.alive() if isinstance(each, RelayProcess)]
        ends = [(each, *route) for each in living for route in each.relay.gateway.carrier.routes._routes.items()]
        if not ends:
            return None
        victim, route, end = rng.choice(ends)
        origin = rng.choice([each.local.address for each in self._world.processes if each.local.site == end.site] or [self._me])
        number = victim.relay.state.remote(end.site).admitted.get(origin, 0) + 1
        forged = encode(Data((end.site,), Batch(end.site, origin, Scope.ALL, number, 1, pack_body([b"forged"]))))
        source, visited = rng.choice([(self._site, ()), (self._site, ()), (end.site, (self._site,))])
        return Routed(source, victim.local.site, *route, end.received, visited, False, forged)

    # -- contents --------------------------------------------------------------------------------------------------

    def _address(self) -> Address:
        known = [process.local.address for process in self._world.processes]
        return self._rng.choice([self._me, self._me, *known, Address(self._rng.randbytes(UUID_BYTES))])

    def _name(self) -> str:
        return self._site if self._rng.random() < OWN else self._rng.choice([*self._others, "NOWHERE"])

    def _invent(self, kind: Any) -> Any:
        """Return a random value of a field's type."""
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
            kept = [frame.data for frame in self._kept if isinstance(frame, Routed)]
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
