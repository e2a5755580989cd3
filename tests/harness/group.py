"""Members with the layers that a test names, over a wire in virtual time. Every datagram is really encoded and
parsed.

The test plays membership above the layers. Without a resolver, a stub below them finds every process at `place`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Event, Left, Unblocked, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Transmit
from sitestack.stack.stack import Stack
from tests.harness.addresses import local_of, name_of, place
from tests.harness.outcome import Outcome
from tests.harness.wire import Faults, Packet, Wire

L = TypeVar("L", bound=Layer)
#: Turns at one moment of virtual time above which a group is taken to run in circles.
TURNS_MAX = 10_000
#: The layers of a member, top to bottom.
LayersOf = Callable[[Local], Sequence[Layer]]


class Announcer(Layer):
    """Stands in for membership: sends up the events that the test gives it."""

    name = "announcer"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return [Announce(event)] if isinstance(event, ViewInstalled | Blocked | Unblocked | Left) else [Down(event)]


class KnownPlaces(Layer):
    """Stands in for the resolver: finds every member at its default place."""

    name = "known places"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if not isinstance(event, Frame):
            return []
        return [Transmit(place(name_of(event.dest)) if isinstance(event.dest, Address) else event.dest, event)]


class Member(Outcome):
    """One stack and its output."""

    def __init__(self, local: Local, layers: Sequence[Layer], places: Sequence[Physical], datagram_bytes_max: int) -> None:
        super().__init__()
        self.name = local.name
        self.address = local.address
        self.places = places
        self.stack = Stack(self.address, [Announcer(), *layers, KnownPlaces()], local.site, datagram_bytes_max)
        self.alive = True
        self.view: View | None = None
        #: Number of messages that the test has let this member send.
        self.sent = 0

    def layer(self, kind: type[L]) -> L:
        """Its layer of this kind."""
        return next(each for each in self.stack.layers if isinstance(each, kind))

    def states(self) -> tuple[Header, ...]:
        """The states that this member's layers give to a joiner."""
        return tuple(state for layer in self.stack.layers if (state := layer.give_state()) is not None)

    @property
    def drops(self) -> dict[str, int]:
        return self.stack.drops


class Group:
    """The members, the wire between them, and time."""

    #: Whether the wire carries multicasts.
    multicast = True

    def __init__(
        self,
        names: str,
        layers: LayersOf,
        seed: int = 0,
        faults: Faults | None = None,
        datagram_bytes_max: int = 1_400,
    ) -> None:
        self.rng = random.Random(seed)
        self.wire = Wire(self.rng, faults or Faults())
        self.now = 0.0
        self._layers = layers
        self._datagram_bytes_max = datagram_bytes_max
        self.members: dict[str, Member] = {}
        for name in names:
            self.add(name)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def add(self, name: str, *places: Physical) -> Member:
        """Add a member, at its default place or at these."""
        local = local_of(name, self.rng.random())
        member = Member(local, self._layers(local), places or (place(name),), self._datagram_bytes_max)
        self.members[name] = member
        return member

    def living(self) -> Iterator[Member]:
        """The members that have not been killed."""
        return (member for member in list(self.members.values()) if member.alive)

    def kill(self, name: str) -> None:
        """Kill a member without a farewell; packets held on its links are lost."""
        self[name].alive = False
        self.wire.cut(name)

    def down(self, name: str, event: Event | Frame) -> None:
        """Hand something to a member's stack, as one turn of its shell."""
        self[name].stack.down(event, self.now)
        self._end_turn(self[name])

    def install(self, view: View, at: str = "", blocked: bool = False) -> View:
        """Install a view at its living members, or at some. One that had no view before is given the states of one that had."""
        giver = next((self[name] for name in view.names if self[name].view), self[view.names[0]])
        states = giver.states()
        for member in [self[name] for name in at or view.names if self[name].alive]:
            previous, member.view = member.view, view
            given = () if previous or member is giver else states
            self.announce(member.name, ViewInstalled(view, previous, given, blocked))
        return view

    def announce(self, name: str, event: ViewInstalled) -> None:
        """Send an event of membership to one member."""
        self.down(name, event)

    def release(self, *link: str) -> None:
        """Let delayed packets travel, those of this link or all, and delay no more there."""
        for packet in self.wire.release(*link):
            self.wire.push(packet, self.now)

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let virtual time pass, with a turn for every arrival and every deadline."""
        end, expired = self.now + seconds, 0
        while True:
            dues = [(due, member) for member in self.living() if (due := member.stack.deadline()) is not None]
            due, waiting = min(dues, key=lambda each: each[0], default=(float("inf"), None))
            arrival = self.wire.next_arrival()
            if min(due, arrival) > end:
                break
            if min(due, arrival) > self.now:
                self.now, expired = min(due, arrival), 0
            if arrival <= due:
                self._arrive(self.wire.pop())
            elif waiting is not None:
                expired += 1
                assert expired < TURNS_MAX, f"{waiting.name} is due again and again"
                waiting.stack.expire(self.now)
                self._end_turn(waiting)
        self.now = end

    def turn(self, member: Member) -> bool:
        """Run one turn of a member: accept arrived packets, run due timers, flush. Returns False when it was idle."""
        arrived = self.wire.arrived(member.places, self.now)
        for packet in arrived:
            member.stack.receive(packet.data, place(packet.source), self.now)
        member.stack.expire(self.now)
        return self._end_turn(member) or bool(arrived)

    def settle(self) -> None:
        """Turns of all members until nothing more happens at this moment."""
        for _ in range(TURNS_MAX):
            if not [member for member in self.living() if self.turn(member)]:
                return
        raise AssertionError("the group never rests")

    # -- the shell of a member -------------------------------------------------------------------------------------

    def _arrive(self, packet: Packet) -> None:
        for member in [each for each in self.living() if packet.to in each.places]:
            member.stack.receive(packet.data, place(packet.source), self.now)
            self._end_turn(member)

    def _end_turn(self, member: Member) -> bool:
        turn = member.stack.flush(self.now)
        for event in turn.events:
            self.collect(member, event)
        for to, data in turn.datagrams:
            assert to is not None or self.multicast, "there is no multicast on this wire"
            packet = Packet(member.name, to, data, self.now, member.stack.codec)
            self.wire.sent.append(packet)
            others = [each.places[0] for each in self.living() if each is not member]
            for at in dict.fromkeys(others) if to is None else (to,):
                self.carry(replace(packet, to=at))
        return bool(turn.events or turn.datagrams)

    def collect(self, member: Member, event: Event | Frame) -> None:
        """An event or frame came out at the top of a member's stack."""
        member.events.append(event)

    def carry(self, packet: Packet) -> None:
        """Put a copy of a datagram on the wire."""
        self.wire.carry(packet, self.now)
