"""A fake site: one stream for its relay layers, a flush at every view, splits and merges."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from relay.layer import RelayConfig
from relay.replica.entries import HEADERS
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.events import Blocked, Held, Stable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.view import SubView, View, ViewId, next_lineage
from sitestack.stack.layer import Down, Dropped, Effect, Up
from sitestack.wire.codec import Codec
from tests.harness.messages import present
from tests.harness.relay.member import Member, places

if TYPE_CHECKING:
    from tests.harness.relay.world import World


class FakeSite:
    """The layers below: total order at the coordinator, at the others at once or later, and a flush at every view."""

    def __init__(self, world: World, name: str, count: int, config: RelayConfig) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.codec = Codec(name, HEADERS)
        self.view: View | None = None
        #: Frames that the coordinator has sequenced in this view, and the number of them that each member has
        #: delivered.
        self.stream: list[bytes] = []
        self.reached: dict[Address, int] = {}
        #: None: every member gets all of the stream at once. Otherwise all but the coordinator get a random part of it a turn.
        self.lag: random.Random | None = None
        #: True: no member but the coordinator gets anything of the stream, until `release`.
        self.hold_back = False
        self.blocked = False
        self.stray = 0
        #: Frames sent during a block, which wait as in their origins' forward tables.
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

    def install(self, lineage: ViewId | None = None, subviews: tuple[SubView, ...] = ()) -> None:
        """Install a view of these members after a flush: all deliver every known frame; live origins resend the
        rest.

        With `subviews` it is a merge view, whose commit no other member has got.
        """
        old, again = self.view, self._flush()
        made = ViewId(1 if old is None else old.id.counter + 1, self.relay.address)
        addresses = tuple(each.address for each in self.members)
        named = lineage or (made if old is None or subviews else next_lineage(old, addresses, made))
        stayed = [each for each in self.members if old is not None and each.address in old.members]
        if stayed and len(stayed) < len(self.members):
            state = self.codec.pack(self._given(stayed[0]))
            for member in [each for each in self.members if each not in stayed]:
                member.layer.take_state(self.codec.parse(state))
                known = member.layer.state
                member.base = {self.name: dict(known.produced)}
                member.base |= {site: dict(remote.admitted) for site, remote in known.remotes.items()}
        self._stand(made, named, subviews, {each.address: old if each in stayed else None for each in self.members})
        for frame in again:
            self._sequence(frame)

    def _stand(
        self, made: ViewId, lineage: ViewId, subviews: tuple[SubView, ...], previous: Mapping[Address, View | None]
    ) -> None:
        """Install the view at every member before any of them sends in it."""
        view = self.view = View(made, lineage, tuple(previous), tuple(each.name for each in self.members), subviews)
        self.stream, self._said, self.blocked = [], (0, 0), False
        self.reached = dict.fromkeys(previous, 0)
        answers: list[tuple[Member, list[Effect]]] = []
        for member in self.members:
            event = ViewInstalled(view, previous[member.address])
            member.events.append(event)
            answers.append((member, member.layer.up(event, self.world.now)))
        for member, effects in answers:
            self.carry_out(member, effects)

    def split(self, members: list[Member]) -> FakeSite:
        """Split off these members: two parts without traffic between them, each with a separate view."""
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
        """Merge the two parts: each is brought to its cut, hands over its state, and installs the merge view."""
        again = []
        for part in (self, other):
            part.block()
            again += part._flush()
        assert self.view is not None
        assert other.view is not None
        parts = tuple(SubView(view.id, view.members, view.lineage) for view in (self.view, other.view))
        given = [
            self.codec.pack(self._given(giver.members[-1], self._known(taker.members[0])))
            for giver, taker in ((other, self), (self, other))
        ]
        for state, stranger in zip(given, (self, other), strict=True):
            for member in stranger.members:
                member.layer.merge_state(self.codec.parse(state))
        previous = {each.address: part.view for part in (self, other) for each in part.members}
        self.members, other.members = [*self.members, *other.members], []
        for member in self.members:
            member.site = self
        self.world.sites = {name: site for name, site in self.world.sites.items() if site is not other}
        made = ViewId(max(self.view.id.counter, other.view.id.counter) + 1, self.relay.address)
        self._stand(made, made, parts, previous)
        for frame in again:
            self._sequence(frame)

    def _known(self, member: Member) -> Header:
        known = present(member.layer.give_known())
        return self.codec.parse(self.codec.pack(known))

    @staticmethod
    def _given(member: Member, *known: Header) -> Header:
        state = present(member.layer.give_rest(known))
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
        """Kill a member; the others install a view without it. Frames that only it had delivered are lost."""
        self.world.vanish(member, silent)
        self.members.remove(member)
        if self.members:
            self.block()
            self.install()

    def carry_out(self, member: Member, effects: list[Effect]) -> None:
        """Carry out effects depth first, as the stack does."""
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

    def cast(self, entry: Header) -> None:
        """Put an entry into the stream, as the coordinator's gateway would."""
        self._sequence(Frame(self.members[0].address, None, (entry,)))

    def _sequence(self, frame: Frame) -> None:
        self.stream.append(self.codec.encode_frame(frame))
        self._give(self.members[0], len(self.stream))
        if not self.hold_back and self.lag is None:
            self.release()

    def _give(self, member: Member, number: int) -> None:
        """Deliver to one member up to a number."""
        while self.reached[member.address] < number:
            at = self.reached[member.address] = self.reached[member.address] + 1
            coordinator = present(self.view).coordinator
            frame = self.codec.decode_frame(self.stream[at - 1], coordinator, None)
            origin = frame.batch.origin if frame.batch is not None and not frame.headers else coordinator
            up = Frame(origin, None, frame.headers, frame.batch, False, at, coordinator)
            self.carry_out(member, member.layer.up(up, self.world.now))

    def release(self) -> None:
        """Deliver all of the stream to every member."""
        for member in list(self.members):
            self._give(member, len(self.stream))

    def end_turn(self) -> None:
        """Deliver parts of the stream to the other members, as `lag` and `hold_back` allow, then report held and stable."""
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
        """Send every member a `Held` or a `Stable` with this number."""
        for member in self.members:
            self.carry_out(member, member.layer.up(kind({self.members[0].address: number}), self.world.now))
