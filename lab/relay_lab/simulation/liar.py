"""A linked site that lies: after a sound HELLO its relay sends every frame of the bridge (`lies.py`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

from relay.gateway.wire import Data, FrameParser, Routed, State, encode
from relay_lab.sim.lies import ENDED, FRAMES_MAX, PAUSE_S, Lies
from relay_lab.sim.tcp_streams import TcpStream
from relay_lab.sim.world import World
from relay_lab.simulation.process import RelayProcess
from sitestack.model.address import Address, Physical
from sitestack.model.message import Batch, Scope, pack_body


class Liar:
    """The relay of one site. `told` counts its frames by kind."""

    def __init__(self, world: World, site: str, place: Physical, bridges: Sequence[Physical], others: Sequence[str]) -> None:
        """`bridges` are the places of the honest relays, and `others` the names of their sites."""
        self.told: Counter[str] = Counter()
        self._world, self._site, self._place = world, site, place
        self._bridges = bridges
        self._rng = random.Random(f"liar {world.seed}")
        self._lies = Lies(self._rng, site, others, self._members, self._piece)
        self._streams: list[TcpStream] = []
        self._stopped = False
        self._lie()

    @property
    def links(self) -> int:
        return self._lies.links

    def stop(self) -> None:
        self._stopped = True
        for stream in self._streams:
            stream.close()

    def _members(self) -> list[Address]:
        return [process.local.address for process in self._world.processes]

    def _lie(self) -> None:
        if self._stopped:
            return
        rng = self._rng
        self._streams = [stream for stream in self._streams if stream.open]
        if len(self._streams) < len(self._bridges):
            self._world.streams.dial(self._place, rng.choice(self._bridges), self._greet)
        for stream in self._streams:
            frames = [self._lies.frame() for _ in range(rng.randrange(FRAMES_MAX))]
            self.told.update([type(frame).__name__ for frame in frames])
            stream.send(b"".join([encode(frame) for frame in frames]))
            if rng.random() < ENDED:
                stream.close()
        self._world.schedule.after(PAUSE_S, self._lie)

    def _greet(self, stream: TcpStream | None) -> None:
        if stream is None or self._stopped:
            return
        stream.on_receive = partial(self._lies.keep, FrameParser(1 << 24))
        stream.send(encode(self._lies.hello()) + encode(State({})))
        self._streams.append(stream)

    def _piece(self) -> Routed | None:
        """Return a message of another site in the next piece of its route, as if this one had sent or forwarded that."""
        rng, living = self._rng, [each for each in self._world.alive() if isinstance(each, RelayProcess)]
        ends = [(each, *route) for each in living for route in each.relay.gateway.carrier.routes._routes.items()]
        if not ends:
            return None
        victim, route, end = rng.choice(ends)
        origin = rng.choice(
            [each.local.address for each in self._world.processes if each.local.site == route.site] or [self._lies.me]
        )
        number = victim.relay.state.remote(route.site).admitted.get(origin, 0) + 1
        forged = encode(Data((route.site,), Batch(route.site, origin, Scope.ALL, number, 1, pack_body([b"forged"]))))
        source, visited = rng.choice([(self._site, ()), (self._site, ()), (route.site, (self._site,))])
        return Routed(source, victim.local.site, route.opener, route.number, end.received, visited, False, forged)
