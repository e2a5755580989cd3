"""The resolver: from UUIDs to physical addresses, the last step before the wire.

It holds the transport's address cache, fans out a multicast where the network has none, and queues
frames for a member until discovery has found it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import AddressCache, Contact
from sitestack.model.events import (
    Event,
    FindPhysical,
    Left,
    RemovePhysical,
    SendAlone,
    SetPhysical,
    TryNextPhysical,
    ViewInstalled,
)
from sitestack.model.frame import Frame
from sitestack.model.host import is_ipv6
from sitestack.model.level import Level
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, SendPart, Transmit, TransmitAlone, Up
from sitestack.wire.size import frame_bytes


@dataclass(frozen=True, slots=True)
class ResolverConfig:
    """Bounds and times of the address cache. The defaults fit a LAN."""

    #: Whether the network has multicast; without it each multicast goes to every known member one by one
    #: (LA-19).
    multicast: bool = True
    #: Remembered addresses of members; beyond, the oldest outside the view is evicted.
    contacts_max: int = 4_096
    #: Time that a removed address stays refused; at least 120, as late copies are up to a minute old (A2).
    tombstone_s: float = 150.0
    #: Least time between two WHO-HAS for one member.
    ask_interval_s: float = 0.5
    #: Time that frames wait for a member that is not found before they are dropped.
    give_up_s: float = 5.0
    #: Frames that queue for one member; beyond, the oldest is dropped.
    queued_frames_max: int = 256
    #: Bytes that queue for all members; beyond, the oldest frame of the member asked for longest ago is
    #: dropped.
    queued_bytes_max: int = 4 << 20
    #: Members asked for at a time, besides those of the view.
    waiting_members_max: int = 256


@dataclass(slots=True)
class _Waiting:
    """A member that is asked for. Without frames a fan-out must reach it."""

    since: float
    asked_at: float
    frames: deque[Frame] = field(default_factory=deque)


class Resolver(Layer):
    """The address cache of TP in JGroups (LA-5, LA-6, LA-9, LA-10, LA-19; traps A1, A2, A5, A9). The lowest layer."""

    name = "resolver"
    FRAMES_UP = "own"

    def __init__(self, local: Local, config: ResolverConfig) -> None:
        self.local = local
        self.config = config
        self._contacts = AddressCache(config.contacts_max, config.tombstone_s)
        self._members: tuple[Address, ...] = ()
        #: Failed addresses of a member, and when the last was given up.
        self._failures: dict[Address, tuple[int, float]] = {}
        self._picked: dict[Address, Physical] = {}
        #: The destinations of a multicast without network multicast: all known processes, and
        #: members only. None: not computed.
        self._everybody: tuple[Physical, ...] | None = ()
        self._fellows: tuple[Physical, ...] | None = ()
        #: In order of `asked_at`: the first is due first.
        self._waiting: dict[Address, _Waiting] = {}
        self._queued_bytes = Level(config.queued_bytes_max)

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            dest = event.dest
            if dest is None:
                return [Transmit(to, event) for to in self._everywhere(unreliable=event.unreliable)]
            if not isinstance(dest, Address):
                return [Transmit(dest, event)]
            picked = self._picked.get(dest)
            return self._queue(dest, event, now) if picked is None else [Transmit(picked, event)]
        if isinstance(event, SendAlone):
            return [TransmitAlone(to, event.frame) for to in self._places_for(event)] or self._give_up(1)
        if isinstance(event, SetPhysical):
            return self._set(Contact(event.member, "", event.physical, event.version), now)
        if isinstance(event, RemovePhysical):
            self._contacts.remove(event.member, now)
            self._refresh()
        elif isinstance(event, TryNextPhysical) and event.member in self._contacts:
            failures, changed_at = self._failures.get(event.member, (0, -inf))
            if event.since > changed_at:
                self._failures[event.member] = failures + 1, now
                self._refresh()
        return [Down(event)]

    def send_lane(self, dest: Address | None) -> SendPart | None:
        if dest is None:
            return SendPart(places=partial(self._everywhere, unreliable=False))
        return SendPart(places=lambda: () if (place := self._picked.get(dest)) is None else (place,))

    def _set(self, contact: Contact, now: float) -> list[Effect]:
        member = contact.address
        mine = self._contacts.get(self.local.address)
        if mine is not None and member != self.local.address:
            # This member cannot send to the other IP version.
            versions = {is_ipv6(each.host) for each in mine.physical}
            usable = tuple([each for each in contact.physical if is_ipv6(each.host) in versions])
            contact = replace(contact, physical=usable or contact.physical)
        before = self._contacts.get(member)
        if not self._contacts.put(contact, now):
            return [Dropped("stale_physical")]
        if before is not None and before.physical == contact.physical:
            return []
        self._failures.pop(member, None)
        self._pick(contact)
        return self._release(member)

    def _pick(self, contact: Contact) -> None:
        if self._contacts.evicted is not None:
            self._picked.pop(self._contacts.evicted, None)
        if contact.address != self.local.address:
            self._picked[contact.address] = contact.physical[0]
        self._everybody = self._fellows = None

    def _everywhere(self, *, unreliable: bool) -> tuple[Physical | None, ...]:
        """Return the destinations of a multicast: None for the network's, else addresses.

        Streams go to members, unreliable frames to all known processes. So a process that only
        announces itself is sent no message.
        """
        if self.config.multicast:
            return (None,)
        if unreliable or not self._members:
            if self._everybody is None:
                self._everybody = self._places(self._picked)
            return self._everybody
        if self._fellows is None:
            self._fellows = self._places(self._members)
        return self._fellows

    def _places(self, members: Iterable[Address]) -> tuple[Physical, ...]:
        """Return the members' distinct addresses (LA-19)."""
        mine = self._contacts.get(self.local.address)
        own = () if mine is None else mine.physical
        places = [self._picked[each] for each in members if each in self._picked]
        return tuple(dict.fromkeys([each for each in places if each not in own]))

    def _places_for(self, event: SendAlone) -> tuple[Physical, ...]:
        dest = event.frame.dest
        if not isinstance(dest, Address) or (picked := self._picked.get(dest)) is None:
            return ()
        contact = self._contacts.get(dest)
        return contact.physical if event.everywhere and contact is not None else (picked,)

    def _release(self, member: Address) -> list[Effect]:
        waiting = self._waiting.pop(member, None)
        if waiting is None:
            return []
        self._queued_bytes.now -= sum(map(frame_bytes, waiting.frames))
        return [Transmit(self._picked[member], frame) for frame in waiting.frames]

    def _refresh(self) -> None:
        failures, me = self._failures, self.local.address
        self._picked = {
            # after each failure the next address (LA-6)
            each.address: each.physical[failures.get(each.address, (0, 0.0))[0] % len(each.physical)]
            for each in self._contacts.all()
            if each.address != me
        }
        if len(failures) > len(self._picked):
            self._failures = {member: each for member, each in failures.items() if member in self._picked}
        self._everybody = self._fellows = None

    def _queue(self, member: Address, frame: Frame, now: float) -> list[Effect]:
        if member == self.local.address:
            return [Dropped("to_self")]
        waiting = self._waiting.get(member)
        if waiting is None and len(self._waiting) >= self.config.waiting_members_max + len(self._members):
            return self._give_up(1)
        effects: list[Effect] = []
        if waiting is None:
            waiting, effects = self._ask(member, now)
        if not waiting.frames:
            waiting.since = now
        waiting.frames.append(frame)
        size, dropped = frame_bytes(frame), 0
        if len(waiting.frames) > self.config.queued_frames_max:
            dropped += self._drop_oldest(waiting)
        while not self._queued_bytes.fits(size):
            dropped += self._drop_oldest(next(each for each in self._waiting.values() if each.frames))
        self._queued_bytes.add(size)
        return effects + (self._give_up(dropped) if dropped else [])

    def _ask(self, member: Address, now: float) -> tuple[_Waiting, list[Effect]]:
        waiting = self._waiting.pop(member, None) or _Waiting(now, now)
        waiting.asked_at = now
        self._waiting[member] = waiting
        self.stale.add(self)
        return waiting, [Up(FindPhysical(member))]

    def _drop_oldest(self, waiting: _Waiting) -> int:
        self._queued_bytes.now -= frame_bytes(waiting.frames.popleft())
        return 1

    def _give_up(self, frames: int) -> list[Effect]:
        return [Dropped("unresolved", frames)]

    def expire(self, now: float) -> list[Effect]:
        """Ask again for members that frames wait for, or drop the frames. Members of the view are asked for forever."""
        effects: list[Effect] = []
        for member, waiting in list(self._waiting.items()):
            if now < waiting.asked_at + self.config.ask_interval_s:
                break
            if now >= waiting.since + self.config.give_up_s and waiting.frames:
                effects += self._give_up(len(waiting.frames))
                self._queued_bytes.now -= sum(map(frame_bytes, waiting.frames))
                waiting.frames.clear()
            if waiting.frames or self._has_to_reach(member):
                effects += self._ask(member, now)[1]
            else:
                del self._waiting[member]
        return effects

    def deadline(self) -> float | None:
        for waiting in self._waiting.values():
            return waiting.asked_at + self.config.ask_interval_s
        return None

    def _has_to_reach(self, member: Address) -> bool:
        return not self.config.multicast and member in self._members and member not in self._contacts

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            return [Up(event)]
        if isinstance(event, ViewInstalled):
            return self._install(event.view.members, now)
        if isinstance(event, Left):
            self._members = ()
            return []
        return [Up(event)]

    def _install(self, members: tuple[Address, ...], now: float) -> list[Effect]:
        self._members = members
        self._contacts.pin((*members, self.local.address), now)
        self._refresh()
        effects: list[Effect] = []
        for member in members:
            if member in self._picked:
                effects += self._release(member)
            elif member != self.local.address and member not in self._waiting and self._has_to_reach(member):
                effects += self._ask(member, now)[1]
        return effects

    def levels(self) -> dict[str, Level]:
        """`queued_frames` is the level of the member with most of them."""
        config, frames = self.config, max([len(each.frames) for each in self._waiting.values()], default=0)
        return {
            "contacts": Level.of(len(self._contacts), config.contacts_max, "addresses of the members of the site"),
            "waiting_members": Level.of(len(self._waiting), config.waiting_members_max + len(self._members)),
            "queued_frames": Level.of(frames, config.queued_frames_max),
            "queued_bytes": self._queued_bytes,
        }
