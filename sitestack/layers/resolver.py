"""The resolver: from UUIDs to physical addresses, the last step before the wire.

It holds the transport's address cache, makes a multicast out of unicasts where the network has none, and keeps what is for a
member whose address is unknown until discovery has found it. It knows addresses only from SET_ and REMOVE_PHYSICAL_ADDRESS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import AddressCache, Contact
from sitestack.model.events import (
    Event,
    FindPhysical,
    Left,
    RemovePhysical,
    SetPhysical,
    TryNextPhysical,
    ViewInstalled,
)
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Transmit, Up
from sitestack.wire.codec import FRAME_OVERHEAD_BYTES

#: Chooses among a member's addresses, best first; `failures` counts how often the choice seemed dead (LA-6).
Picker = Callable[[Address, tuple[Physical, ...], int], Physical]


def pick_in_turn(_member: Address, physical: tuple[Physical, ...], failures: int) -> Physical:
    """The best address; after each failure the next one."""
    return physical[failures % len(physical)]


@dataclass(frozen=True, slots=True)
class ResolverConfig:
    """Defaults fit a LAN."""

    #: False: the network has no multicast, so each multicast goes to every known member one by one (LA-19).
    multicast: bool = True
    #: Addresses remembered; beyond it the one heard of longest ago makes room, unless it is in the view.
    contacts_max: int = 4_096
    #: A removed address stays refused for so long. Late copies are at most a minute old; two minutes are the least (A2).
    tombstone_s: float = 150.0
    #: WHO-HAS is asked for one member at most this often.
    ask_interval_s: float = 0.5
    #: Frames for a member that nobody has found for so long are dropped.
    give_up_s: float = 5.0
    #: Frames queued for one member; beyond it the oldest is dropped.
    queued_frames_max: int = 256
    #: Bytes queued for all members; beyond it the oldest frame of the member asked for longest ago is dropped.
    queued_bytes_max: int = 4 << 20
    #: Members asked for at a time, besides those of the view; frames for one more are dropped.
    waiting_members_max: int = 256
    #: The strategy that picks among several physical addresses.
    picker: Picker = pick_in_turn


@dataclass(frozen=True, slots=True)
class ResolverStatistics:
    """What the cache knows, and what came of asking."""

    tombstones: int
    fan_out: int
    asked: int
    unresolved: int


@dataclass(slots=True)
class _Waiting:
    """A member that is asked for. `frames` may be empty: asked for all the same, as a fan-out must reach the whole view."""

    #: When the oldest of the frames came.
    since: float
    asked_at: float
    frames: deque[Frame] = field(default_factory=deque)


class Resolver(Layer):
    """The address cache of TP in JGroups (LA-5, LA-6, LA-9, LA-10, LA-19; traps A1, A2, A5, A9).

    The lowest layer. Frames that waited keep their order among themselves; order on the whole is restored above (A5).
    """

    name = "resolver"
    FRAMES_UP = "own"

    def __init__(self, local: Local, config: ResolverConfig) -> None:
        self.local = local
        self.config = config
        self._contacts = AddressCache(config.contacts_max, config.tombstone_s)
        self._members: tuple[Address, ...] = ()
        self._failures: dict[Address, int] = {}
        #: What follows from the cache, so that sending costs one look-up.
        self._picked: dict[Address, Physical] = {}
        #: Where a multicast goes: what all hear that are known, and what only members may hear. None: to be found out.
        self._everybody: tuple[Physical, ...] | None = ()
        self._fellows: tuple[Physical, ...] | None = ()
        #: In order of `asked_at`: the first is due first.
        self._waiting: dict[Address, _Waiting] = {}
        self._queued_bytes = Level(config.queued_bytes_max)
        self._asked = 0
        self._unresolved = 0

    # -- sending ---------------------------------------------------------------------------------------------------

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Send frames; keep the cache."""
        if isinstance(event, Frame):
            return self._send(event, now)
        if isinstance(event, SetPhysical):
            return self._set(Contact(event.member, "", event.physical, event.version), now)
        if isinstance(event, RemovePhysical):
            self._contacts.remove(event.member, now)
            self._refresh()
        elif isinstance(event, TryNextPhysical) and event.member in self._contacts:
            self._failures[event.member] = self._failures.get(event.member, 0) + 1
            self._refresh()
        return [Down(event)]

    def _send(self, frame: Frame, now: float) -> list[Effect]:
        dest = frame.dest
        if dest is None:
            if self.config.multicast:
                return [Transmit(None, frame)]
            return [Transmit(to, frame) for to in self._fan_out(frame)]
        if not isinstance(dest, Address):
            return [Transmit(dest, frame)]
        picked = self._picked.get(dest)
        if picked is None:
            return self._queue(dest, frame, now)
        return [Transmit(picked, frame)]

    def _set(self, contact: Contact, now: float) -> list[Effect]:
        member = contact.address
        before = self._contacts.get(member)
        if not self._contacts.put(contact, now):
            return [Dropped("stale_physical")]
        if before is not None and before.physical == contact.physical:
            return []
        self._failures.pop(member, None)
        self._pick(contact)
        return self._release(member)

    def _pick(self, contact: Contact) -> None:
        """Pick for one that is new, or has moved. Strangers come in numbers: nothing here looks at all that are known."""
        if self._contacts.evicted is not None:
            self._picked.pop(self._contacts.evicted, None)
        if contact.address != self.local.address:
            self._picked[contact.address] = self.config.picker(contact.address, contact.physical, 0)
        self._everybody = self._fellows = None

    def _fan_out(self, frame: Frame) -> tuple[Physical, ...]:
        """A stream is for the members of the view. Anybody may say where he is, and even where somebody else is: he hears that
        others search, and no message."""
        if frame.unreliable or not self._members:
            if self._everybody is None:
                self._everybody = self._places(self._picked)
            return self._everybody
        if self._fellows is None:
            self._fellows = self._places(self._members)
        return self._fellows

    def _places(self, members: Iterable[Address]) -> tuple[Physical, ...]:
        """A host and port gets one copy of a multicast, whoever was there before (LA-19); I get none."""
        mine = self._contacts.get(self.local.address)
        own = () if mine is None else mine.physical
        places = [self._picked[each] for each in members if each in self._picked]
        return tuple(dict.fromkeys([each for each in places if each not in own]))

    def _release(self, member: Address) -> list[Effect]:
        """The member is found: send what waited for it, in order, once."""
        waiting = self._waiting.pop(member, None)
        if waiting is None:
            return []
        self._queued_bytes.now -= sum(map(_size, waiting.frames))
        return [Transmit(self._picked[member], frame) for frame in waiting.frames]

    def _refresh(self) -> None:
        """Pick for everybody anew."""
        picker, failures, me = self.config.picker, self._failures, self.local.address
        self._picked = {
            each.address: picker(each.address, each.physical, failures.get(each.address, 0))
            for each in self._contacts.all()
            if each.address != me
        }
        if len(failures) > len(self._picked):
            self._failures = {member: count for member, count in failures.items() if member in self._picked}
        self._everybody = self._fellows = None

    # -- asking ----------------------------------------------------------------------------------------------------

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
        size, dropped = _size(frame), 0
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
        self._asked += 1
        return waiting, [Up(FindPhysical(member))]

    def _drop_oldest(self, waiting: _Waiting) -> int:
        self._queued_bytes.now -= _size(waiting.frames.popleft())
        return 1

    def _give_up(self, frames: int) -> list[Effect]:
        self._unresolved += frames
        return [Dropped("unresolved", frames)]

    def expire(self, now: float) -> list[Effect]:
        """Ask again for whom something waits, or give up. A member of the view is asked for as long as it is one."""
        effects: list[Effect] = []
        for member, waiting in list(self._waiting.items()):
            if now < waiting.asked_at + self.config.ask_interval_s:
                break
            if now >= waiting.since + self.config.give_up_s and waiting.frames:
                effects += self._give_up(len(waiting.frames))
                self._queued_bytes.now -= sum(map(_size, waiting.frames))
                waiting.frames.clear()
            if waiting.frames or self._has_to_reach(member):
                effects += self._ask(member, now)[1]
            else:
                del self._waiting[member]
        return effects

    def deadline(self) -> float | None:
        """When the member asked for longest ago is asked for again."""
        for waiting in self._waiting.values():
            return waiting.asked_at + self.config.ask_interval_s
        return None

    def _has_to_reach(self, member: Address) -> bool:
        return not self.config.multicast and member in self._members and member not in self._contacts

    # -- membership ------------------------------------------------------------------------------------------------

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Frames pass. A view tells whom a fan-out has to reach."""
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

    def statistics(self) -> ResolverStatistics:
        """Counters since the start, and what is known."""
        return ResolverStatistics(self._contacts.tombstones, len(self._places(self._picked)), self._asked, self._unresolved)

    def levels(self) -> dict[str, Level]:
        """The cache, and what waits for it; the frames are those of the member for which most wait."""
        config, frames = self.config, max([len(each.frames) for each in self._waiting.values()], default=0)
        return {
            "contacts": Level.of(len(self._contacts), config.contacts_max, "addresses of the members of the site"),
            "waiting_members": Level.of(len(self._waiting), config.waiting_members_max + len(self._members)),
            "queued_frames": Level.of(frames, config.queued_frames_max),
            "queued_bytes": self._queued_bytes,
        }


def _size(frame: Frame) -> int:
    return FRAME_OVERHEAD_BYTES + (0 if frame.batch is None else len(frame.batch.body))
