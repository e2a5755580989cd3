"""Sites without lower layers: a tiny sequencer gives the relay layers of a site one stream; byte queues are the connections.

Frames really are encoded between members, and links cut the bytes wherever the test wants. `World.run` is the shell: turns
until nothing happens any more, then time jumps to the next deadline.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from relay.events import (
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeReceived,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
    Gap,
    GlobalView,
    Listen,
    StopListening,
)
from relay.gateway import GatewayConfig
from relay.headers import HEADERS
from relay.layer import RelayConfig, RelayLayer
from sitestack.address import Address, Physical, ProxyUUID
from sitestack.codec import Codec
from sitestack.events import Blocked, Disconnect, Event, Held, Stable, ViewInstalled
from sitestack.frame import Frame, Header
from sitestack.layer import Down, Dropped, Effect, Local, Up
from sitestack.message import Batch, Scope, pack_body
from sitestack.view import SubView, View, ViewId, next_lineage


@dataclass
class Pipe:
    """One direction of a connection."""

    target: Member
    connection: int
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    #: Where the bytes go when the test itself is the other end.
    sink: bytearray | None = None


class Member:
    """One relay layer, what came out of it, and its ends of the connections."""

    def __init__(self, site: FakeSite, name: str, seed: int) -> None:
        self.site = site
        self.name = name
        self.address = Address.make(random.Random(seed))
        self.physical = site.free_place()
        self.local = Local(site.name, self.address, name, random.Random(seed))
        self.layer = RelayLayer(self.local, site.config)
        self.events: list[Event | Frame] = []
        self.drops: dict[str, int] = {}
        self.listening = False
        self.alive = True
        self.pipes: dict[int, Pipe] = {}
        #: What the site had delivered when this member joined.
        self.base: dict[str, dict[Address, int]] = {}
        self._numbers: dict[tuple[Scope, object], int] = {}

    # -- what the test asks --------------------------------------------------------------------------------------------

    def send(self, text: str, scope: Scope = Scope.ALL, dest: Address | None = None) -> Batch:
        """One batch of one message, numbered as batching does."""
        key = (scope, dest)
        n = self._numbers[key] = self._numbers.get(key, 0) + 1
        site, target = "", None
        if dest is not None:
            scope = Scope.UNICAST
            site, target = (dest.site, dest.original) if isinstance(dest, ProxyUUID) else (self.site.name, dest)
        batch = Batch(self.site.name, self.address, scope, n, 1, pack_body([text.encode()]), target, site)
        self.site.carry_out(self, self.layer.down(Frame(self.address, dest, (), batch), self.site.world.now))
        return batch

    @property
    def sent(self) -> int:
        """The last number of scope ALL."""
        return self._numbers.get((Scope.ALL, None), 0)

    def delivered(self) -> list[str]:
        """All payloads, in the order of delivery."""
        frames = [event for event in self.events if isinstance(event, Frame) and event.batch is not None]
        return [payload.decode() for frame in frames if frame.batch for payload in frame.batch.payloads()]

    def frames(self) -> list[Frame]:
        """What was delivered."""
        return [event for event in self.events if isinstance(event, Frame)]

    def sources(self) -> list[Address]:
        """The sources of what was delivered."""
        return [event.source for event in self.events if isinstance(event, Frame)]

    def global_views(self) -> list[GlobalView]:
        return [event for event in self.events if isinstance(event, GlobalView)]

    def gaps(self) -> list[tuple[int, int]]:
        return [(event.first, event.last) for event in self.events if isinstance(event, Gap)]

    def say(self, event: Event) -> None:
        """An event from the shell."""
        self.site.carry_out(self, self.layer.down(event, self.site.world.now))


class FakeSite:
    """The layers below: total order at the coordinator, at the others at once or later, and a flush at every view."""

    def __init__(self, world: World, name: str, count: int, config: RelayConfig) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.codec = Codec(name, HEADERS)
        self.view: View | None = None
        #: What the coordinator has sequenced in this view, and how much of it each member has delivered.
        self.stream: list[bytes] = []
        self.reached: dict[Address, int] = {}
        #: None: everybody gets everything at once. Otherwise others than the coordinator get a random part of it every turn.
        self.lag: random.Random | None = None
        #: Nobody but the coordinator gets anything, until `release`.
        self.hold_back = False
        self.blocked = False
        self.stray = 0
        #: What was sent during a block: it waits in the origins' forward tables.
        self.waiting: list[Frame] = []
        self.members: list[Member] = []
        for n in range(count):
            self.members.append(Member(self, "ABCDEFGH"[n], world.seed * 1000 + len(world.sites) * 100 + n))
        self._said: tuple[int, int] = (0, 0)

    @property
    def relay(self) -> Member:
        return self.members[0]

    def member(self, address: Address) -> Member | None:
        return next((each for each in self.members if each.address == address), None)

    def install(self, lineage: ViewId | None = None) -> None:
        """A view of these members, after a flush: what some have, all deliver; the rest its living origins send again."""
        old, again = self.view, self._flush()
        counter = 1 if old is None else old.id.counter + 1
        addresses = tuple(each.address for each in self.members)
        view_id = ViewId(counter, addresses[0])
        named = lineage or (view_id if old is None else next_lineage(old, addresses, view_id))
        self.view = View(view_id, named, addresses, tuple(each.name for each in self.members))
        self.stream, self._said = [], (0, 0)
        self.reached = dict.fromkeys(addresses, 0)
        self.blocked = False
        joined = [each for each in self.members if old is None or each.address not in old.members]
        state = None if old is None or len(joined) == len(self.members) else self._state(old)
        for member in self.members:
            if member in joined and state is not None:
                member.layer.take_state(self.codec.parse(state))
                known = member.layer.state
                member.base = {self.name: dict(known.produced)}
                member.base |= {site: dict(remote.admitted) for site, remote in known.remotes.items()}
            previous = None if member in joined else old
            effects = member.layer.up(ViewInstalled(self.view, previous), self.world.now)
            member.events.append(ViewInstalled(self.view, previous))
            self.carry_out(member, effects)
        for frame in again:
            self._sequence(frame)

    def split(self, members: list[Member]) -> FakeSite:
        """These members do not hear the others any more: two parts, each with a view of its own."""
        other = FakeSite(self.world, self.name, 0, self.config)
        other.view, other.stream, other.reached = self.view, list(self.stream), dict(self.reached)
        other.members = members
        self.members = [each for each in self.members if each not in members]
        for member in members:
            member.site = other
        self.world.sites[f"{self.name} {self.world.joiner_seed()}"] = other
        for part in (self, other):
            part.block()
            part.install()
        return other

    def merge(self, other: FakeSite) -> None:
        """The two parts become one: each is brought to its cut, hands over its state, and installs the merge view."""
        again = []
        for part in (self, other):
            part.block()
            again += part._flush()
        assert self.view is not None
        assert other.view is not None
        views = {id(part): part.view for part in (self, other)}
        states = {id(part): self.codec.pack(part._given()) for part in (self, other)}
        everybody = [*self.members, *other.members]
        addresses = tuple(each.address for each in everybody)
        view_id = ViewId(max(self.view.id.counter, other.view.id.counter) + 1, addresses[0])
        names = tuple(each.name for each in everybody)
        parts = tuple(SubView(view.id, view.members) for view in (self.view, other.view))
        view = self.view = View(view_id, view_id, addresses, names, parts)
        self.stream, self._said, self.blocked = [], (0, 0), False
        self.reached = dict.fromkeys(addresses, 0)
        for member in everybody:
            stranger = other if member in self.members else self
            member.layer.merge_state(self.codec.parse(states[id(stranger)]))
        answers: list[tuple[Member, list[Effect]]] = []
        for member in everybody:
            event = ViewInstalled(view, views[id(member.site)])
            member.events.append(event)
            effects = member.layer.up(event, self.world.now)
            answers.append((member, effects))
        self.members, other.members = everybody, []
        for member in everybody:
            member.site = self
        self.world.sites = {name: site for name, site in self.world.sites.items() if site is not other}
        for member, effects in answers:
            self.carry_out(member, effects)
        for frame in again:
            self._sequence(frame)

    def _given(self) -> Header:
        state = self.members[-1].layer.give_state()
        assert state is not None
        return state

    def _flush(self) -> list[Frame]:
        best = max((self.reached.get(each.address, 0) for each in self.members), default=0)
        for member in self.members:
            if member.address in self.reached:
                self._give(member, best)
        frames = [self.codec.decode_frame(data, self.members[0].address, None) for data in self.stream[best:]]
        origins = [each.address for each in self.members]
        waiting, self.waiting = self.waiting, []
        data = [each for each in [*frames, *waiting] if not each.headers and each.batch is not None]
        return [each for each in data if each.batch is not None and each.batch.origin in origins]

    def _state(self, old: View) -> bytes:
        giver = next(each for each in self.members if each.address in old.members)
        state = giver.layer.give_state()
        assert state is not None
        return self.codec.pack(state)

    def free_place(self) -> Physical:
        """The first configured address that no living member has."""
        taken = [each.physical for site in self.world.sites.values() for each in site.members]
        taken += [each.physical for each in self.members]
        return next(each for each in places(self.name) if each not in taken)

    def join(self, name: str) -> Member:
        member = Member(self, name, self.world.joiner_seed())
        self.members.append(member)
        self.install()
        return member

    def block(self) -> None:
        self.blocked = True
        for member in self.members:
            self.carry_out(member, member.layer.up(Blocked(), self.world.now))

    def kill(self, member: Member, silent: bool = False) -> None:
        """The member is gone; the others install a view without it. What only it had delivered is lost with it."""
        self.world.vanish(member, silent)
        self.members.remove(member)
        if self.members:
            self.block()
            self.install()

    def carry_out(self, member: Member, effects: list[Effect]) -> None:
        """Depth first, as the stack does."""
        for effect in effects:
            if isinstance(effect, Up):
                if not self.world.bridge(member, effect.event):
                    member.events.append(effect.event)
            elif isinstance(effect, Dropped):
                member.drops[effect.reason] = member.drops.get(effect.reason, 0) + effect.count
            elif isinstance(effect, Down) and isinstance(effect.event, Frame):
                self._down(member, effect.event)

    def _down(self, member: Member, frame: Frame) -> None:
        assert not isinstance(frame.dest, ProxyUUID), "the relay layer lets no proxy through"
        if frame.dest is None:
            if frame.headers and member is not self.members[0]:
                self.stray += 1
            elif self.blocked:
                self.waiting += [] if frame.headers else [frame]
            else:
                self._sequence(frame)
            return
        target = self.member(frame.dest) if isinstance(frame.dest, Address) else None
        if target is not None and target.alive:
            data = self.codec.encode_frame(frame)
            back = self.codec.decode_frame(data, frame.source, frame.dest)
            self.carry_out(target, target.layer.up(back, self.world.now))

    def _sequence(self, frame: Frame) -> None:
        self.stream.append(self.codec.encode_frame(frame))
        self._give(self.members[0], len(self.stream))
        if not self.hold_back and self.lag is None:
            self.release()

    def _give(self, member: Member, number: int) -> None:
        """Deliver to one member up to a number."""
        while self.reached[member.address] < number:
            at = self.reached[member.address] = self.reached[member.address] + 1
            assert self.view is not None
            coordinator = self.view.coordinator
            frame = self.codec.decode_frame(self.stream[at - 1], coordinator, None)
            origin = frame.batch.origin if frame.batch is not None and not frame.headers else coordinator
            up = Frame(origin, None, frame.headers, frame.batch, False, at, coordinator)
            self.carry_out(member, member.layer.up(up, self.world.now))

    def release(self) -> None:
        """Everybody gets everything."""
        for member in list(self.members):
            self._give(member, len(self.stream))

    def end_turn(self) -> None:
        """The others get what they get, and stability says what that means."""
        if self.blocked or not self.members:
            return
        for member in self.members[1:]:
            missing = len(self.stream) - self.reached[member.address]
            if missing and not self.hold_back:
                part = missing if self.lag is None else self.lag.randint(0, missing)
                self._give(member, self.reached[member.address] + part)
        held = max((self.reached[each.address] for each in self.members[1:]), default=0)
        stable = min(self.reached[each.address] for each in self.members)
        if (held, stable) != self._said:
            self._said = (held, stable)
            self.tell(Held, held)
            self.tell(Stable, stable)

    def tell(self, kind: type[Held] | type[Stable], number: int) -> None:
        """Stability speaks."""
        for member in self.members:
            self.carry_out(member, member.layer.up(kind({self.members[0].address: number}), self.world.now))


class World:
    """Sites, connections and time."""

    def __init__(self, seed: int = 1, cut: int | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.sites: dict[str, FakeSite] = {}
        self.crossed: list[tuple[str, bytes]] = []
        #: So many bytes arrive at a time; all of them when None.
        self.cut = cut
        self.partitioned: dict[tuple[str, str], None] = {}
        #: Nothing arrives and nothing is reported.
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
        """Carry out what a gateway wants; False when it is not about the bridge."""
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
        """A process dies; its peers see the end of the connection after what was under way, or nothing at all."""
        member.alive = member.listening = False
        for connection in list(member.pipes):
            if silent:
                member.pipes.pop(connection)
            else:
                self._end(member, connection)

    def connect(self, dialer: Member, acceptor: Member, site: str, address: Physical) -> tuple[int, int]:
        """A connection comes up: the numbers of both ends."""
        near, far = self._connection + 1, self._connection + 2
        self._connection += 2
        dialer.pipes[near] = Pipe(acceptor, far)
        acceptor.pipes[far] = Pipe(dialer, near)
        acceptor.say(BridgeConnected(far, None))
        dialer.say(BridgeConnected(near, (site, address)))
        return near, far

    def break_links(self, one: str, other: str, rng: random.Random | None = None) -> None:
        """All connections between two sites break; a random prefix of what is under way arrives, or none of it."""
        for site in [each for each in self.sites.values() if each.name in (one, other)]:
            for member in site.members:
                for connection, pipe in list(member.pipes.items()):
                    if pipe.target.site.name in (one, other):
                        if rng is not None:
                            del pipe.data[rng.randint(0, len(pipe.data)) :]
                            self._deliver(pipe)
                        if member.pipes.pop(connection, None) is not None:
                            member.say(BridgeClosed(connection))

    def break_all(self, rng: random.Random) -> None:
        """Every connection breaks somewhere in its bytes."""
        for member in [each for site in self.sites.values() for each in site.members]:
            for connection, pipe in list(member.pipes.items()):
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
        """One turn of everybody; True when something happened."""
        self.end_turns()
        busy = bool(self._dials)
        while self._dials:
            self._dial(*self._dials.popleft())
        return self._move() or busy or any(due is not None and due <= self.now for due in self._deadlines())

    def forget_dials(self) -> None:
        """The calls of the gateways themselves are not answered; the test connects whom it likes."""
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
        """Bytes of one direction of one connection arrive: all, or so many. True when there were any."""
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
        """Turns until nothing moves."""
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


def places(site: str) -> tuple[Physical, ...]:
    """Where the members of a site may be."""
    return tuple(Physical(f"{site}-{each}".lower(), 7000) for each in "ABCDEFGH")


def leave(site: FakeSite) -> Member:
    """The relay leaves gracefully."""
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
