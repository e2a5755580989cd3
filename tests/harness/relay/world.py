"""Sites without lower layers: a tiny sequencer gives the relay layers of a site one stream; byte queues are the connections.

Frames really are encoded between members, and the test cuts connections anywhere in their bytes. `World.run` is the shell:
turns until nothing happens any more, then time jumps to the next deadline.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from relay.events import (
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeReceived,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
    Listen,
    StopListening,
)
from relay.gateway.config import GatewayConfig
from relay.layer import RelayConfig
from sitestack.model.address import Physical
from sitestack.model.events import Disconnect, Event
from sitestack.model.frame import Frame
from tests.harness.relay.member import Member, Pipe, places
from tests.harness.relay.site import FakeSite


class World:
    """Sites, connections and time."""

    def __init__(self, seed: int = 1, cut: int | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.sites: dict[str, FakeSite] = {}
        self.crossed: list[tuple[str, bytes]] = []
        #: Number of bytes that arrive at a time; None: all of them.
        self.cut = cut
        self.partitioned: dict[tuple[str, str], None] = {}
        #: True: no bytes arrive, and the shell reports nothing.
        self.mute = False
        self.watch: Callable[[Member, Event], None] | None = None
        self._connection = 0
        self._joined = 0
        self._ended: deque[Pipe] = deque()
        self._dials: deque[tuple[Member, Dial]] = deque()

    def site(self, name: str, count: int, config: RelayConfig | None = None) -> FakeSite:
        site = FakeSite(self, name, count, config or RelayConfig())
        self.sites[name] = site
        return site

    def joiner_seed(self) -> int:
        self._joined += 1
        return self.seed * 1_000_000 + self._joined

    # -- the bridge ----------------------------------------------------------------------------------------------------

    def bridge(self, member: Member, event: Event | Frame) -> bool:
        """Carry out an effect of a gateway; False when it is none on the bridge."""
        if self.watch is not None and isinstance(event, Event):
            self.watch(member, event)
        if isinstance(event, Listen):
            member.listening = True
        elif isinstance(event, StopListening):
            member.listening = False
        elif isinstance(event, Dial):
            self._dials.append((member, event))
        elif isinstance(event, BridgeSend):
            pipe = member.pipes.get(event.connection)
            if pipe is not None:
                pipe.data += event.data
                self.crossed.append((member.site.name, event.data))
        elif isinstance(event, BridgeClose):
            self._end(member, event.connection)
        else:
            return False
        return True

    def _end(self, member: Member, connection: int) -> None:
        pipe = member.pipes.pop(connection, None)
        if pipe is not None:
            pipe.ended = True
            self._ended.append(pipe)

    def vanish(self, member: Member, silent: bool = False) -> None:
        """Kill a process; its peers see the end of the connection after the data under way, or nothing at all."""
        member.alive = member.listening = False
        for connection in list(member.pipes):
            if silent:
                member.pipes.pop(connection)
            else:
                self._end(member, connection)

    def connect(self, dialer: Member, acceptor: Member, site: str, address: Physical) -> tuple[int, int]:
        """Connect two members; returns the connection's numbers at both ends."""
        near, far = self._connection + 1, self._connection + 2
        self._connection += 2
        dialer.pipes[near] = Pipe(acceptor, far)
        acceptor.pipes[far] = Pipe(dialer, near)
        acceptor.say(BridgeConnected(far, None))
        dialer.say(BridgeConnected(near, (site, address)))
        return near, far

    def break_links(self, *sites: str, rng: random.Random | None = None) -> None:
        """Break all connections between these sites; a random prefix of the data under way arrives, or none."""
        for member in [each for site in self.sites.values() if site.name in sites for each in site.members]:
            for connection, pipe in list(member.pipes.items()):
                if pipe.target.site.name not in sites:
                    continue
                if rng is not None:
                    del pipe.data[rng.randint(0, len(pipe.data)) :]
                    self._deliver(pipe)
                if member.pipes.pop(connection, None) is not None:
                    member.say(BridgeClosed(connection))

    def part(self, one: str, other: str) -> None:
        """No connection between these sites, until `heal`."""
        self.partitioned[(one, other)] = self.partitioned[(other, one)] = None
        self.break_links(one, other)

    def heal(self) -> None:
        self.partitioned.clear()

    # -- the shell -----------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """One turn of every member; True when something happened."""
        self.end_turns()
        busy = bool(self._dials)
        while self._dials:
            self._dial(*self._dials.popleft())
        return self._move() or busy or any(due is not None and due <= self.now for due in self._deadlines())

    def forget_dials(self) -> None:
        """Leave the gateways' calls unanswered, because the test makes the connections itself."""
        self._dials.clear()

    def end_turns(self) -> None:
        for site in self.sites.values():
            for member in list(site.members):
                due = member.layer.deadline()
                if due is not None and due <= self.now:
                    site.carry_out(member, member.layer.expire(self.now))
                site.carry_out(member, member.layer.flush(self.now))
            site.end_turn()

    def _deadlines(self) -> list[float | None]:
        return [member.layer.deadline() for site in self.sites.values() for member in site.members]

    def _dial(self, dialer: Member, dial: Dial) -> None:
        members = [each for site in self.sites.values() for each in site.members]
        found = next((each for each in members if each.physical == dial.address and each.listening), None)
        if found is None or not dialer.alive or (dialer.site.name, found.site.name) in self.partitioned:
            dialer.say(DialFailed(dial.site, dial.address))
        else:
            self.connect(dialer, found, dial.site, dial.address)

    def _move(self) -> bool:
        busy = False
        for member in [each for site in self.sites.values() for each in site.members]:
            for connection in list(member.pipes):
                busy = self.move_some(member, connection) or busy
        while self._ended:
            busy = True
            pipe = self._ended.popleft()
            if pipe.data:
                self._deliver(pipe)
            back = pipe.target.pipes.pop(pipe.connection, None)
            if back is not None and pipe.target.alive:
                pipe.target.say(BridgeClosed(pipe.connection))
        return busy

    def move_some(self, member: Member, connection: int, count: int | None = None) -> bool:
        """Let bytes of one direction of a connection arrive: `count` of them, or all. True when there were any."""
        pipe = member.pipes.get(connection)
        if pipe is None or not pipe.data or self.mute:
            return False
        self._deliver(pipe, count)
        if connection in member.pipes and not pipe.data:
            member.say(BridgeWritten(connection))
        return True

    def _deliver(self, pipe: Pipe, count: int | None = None) -> None:
        data = bytes(pipe.data[:count])
        del pipe.data[:count]
        if pipe.sink is not None:
            pipe.sink += data
        step = self.cut or max(1, len(data))
        for start in range(0, len(data), step):
            if pipe.connection in pipe.target.pipes:
                pipe.target.say(BridgeReceived(pipe.connection, data[start : start + step]))

    def settle(self, turns: int = 200) -> None:
        """Take turns until nothing moves."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError("it never comes to rest")

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            self.settle()
            due = min([each for each in self._deadlines() if each is not None], default=end)
            if due > end:
                break
            self.now = max(due, self.now + 0.001)
        self.now = max(end, self.now)


def leave(site: FakeSite) -> Member:
    """Let the relay of a site leave gracefully."""
    relay = site.relay
    relay.say(Disconnect())
    site.kill(relay)
    return relay


def two_sites(count: int = 3, cut: int | None = None, **config: object) -> tuple[World, FakeSite, FakeSite]:
    """NYC and SFO, each knows all addresses of the other; views are installed, nothing has run yet."""
    world, sites = sites_of({"NYC": count, "SFO": count}, cut, **config)
    return world, sites["NYC"], sites["SFO"]


def sites_of(counts: dict[str, int], cut: int | None = None, **config: object) -> tuple[World, dict[str, FakeSite]]:
    """A full mesh of sites."""
    world = World(cut=cut)
    gateway = config.pop("gateway", {})
    assert isinstance(gateway, dict)
    for name, count in counts.items():
        peers = {other: places(other) for other in counts if other != name}
        world.site(name, count, RelayConfig(gateway=GatewayConfig(peers=peers, **gateway), **config))  # type: ignore[arg-type]
    for site in world.sites.values():
        site.install()
    return world, world.sites


def two_linked_sites(count: int = 3, cut: int | None = None, **config: object) -> tuple[World, FakeSite, FakeSite]:
    """NYC and SFO a second later, when they are linked."""
    world, nyc, sfo = two_sites(count, cut, **config)
    world.run(1)
    return world, nyc, sfo


def split_sfo() -> tuple[World, FakeSite, FakeSite, FakeSite]:
    """NYC and SFO of four members each, which are linked; the second half of SFO has just split off."""
    world, nyc, sfo = two_linked_sites(4)
    return world, nyc, sfo, sfo.split(sfo.members[2:])
