"""Discovery: who is there, who coordinates, and where a member can be reached.

Two ways to ask, which may be combined: by multicast (PING) and at configured seeds (TCPPING). What is learnt on the way fills
the address cache of the resolver below, by events only. Without multicast a request "to all" is a fan-out to everybody known,
and each answer makes more of them known.

A is alone, B starts:

    B -> all    WhoIsThere(B at b:1)                 A caches B
    A -> B      IAmHere(A at a:1, coordinator A)     B caches A; `Found` a moment later

C has something for B and does not know where B is; later B leaves:

    C -> all    WhoHas(B, asked by C)                everybody caches C
    B -> C      IHave(B at b:1)                      C sends what has waited
    B -> all    Invalidate(B)                        everybody forgets B, and remembers that it has forgotten
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sitestack.address import Address, Physical
from sitestack.contacts import Contact, is_reachable, printable
from sitestack.events import (
    Connect,
    Event,
    FindMembers,
    FindPhysical,
    Found,
    Left,
    RemovePhysical,
    SetPhysical,
    SetSeeds,
    ViewInstalled,
    Watch,
    WatchAt,
)
from sitestack.frame import Destination, Frame, Header
from sitestack.layer import Down, Dropped, Effect, Layer, Local, Up
from sitestack.layers.discovery_directory import CONTACTS_PER_FRAME, Directory
from sitestack.layers.discovery_headers import (
    IAmHere,
    IHave,
    Invalidate,
    KnownContacts,
    WhoHas,
    WhoIsThere,
)
from sitestack.layers.discovery_search import Search
from sitestack.rate_limit import RateLimit
from sitestack.view import View

#: A change of my own address is announced so often, since nobody acknowledges it.
ANNOUNCEMENTS = 3
#: Seeds that are asked; a name that stands for more places than this is asked at the first ones.
SEEDS_MAX = 256


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Defaults fit a LAN."""

    #: Asked directly, besides the multicast: any members that are likely to be up (initial hosts).
    seeds: tuple[Physical, ...] = ()
    #: A name that stands for all members, those that are not ready included (a headless service), with the port of all of them.
    #: It is looked up again and again while the member runs.
    dns: Physical | None = None
    #: How long a joiner waits before it takes itself for the first.
    join_wait_s: float = 1.0
    #: The request is repeated at this interval while waiting: it may be lost, and others may start a little later.
    request_interval_s: float = 0.25
    #: A search ends so long after a coordinator has answered.
    settle_s: float = 0.1
    #: One requester is answered the same question at most this often.
    answer_interval_s: float = 0.1
    #: Requesters that this is remembered of; beyond it the oldest is forgotten.
    answered_max: int = 1_024
    #: Answers that one search takes in; further ones are dropped.
    peers_max: int = 1_024
    #: Contacts remembered; beyond it the one heard of longest ago makes room, unless it is in the view.
    contacts_max: int = 4_096
    #: Whoever is not in the view and has not been heard for so long is forgotten, at the latest after twice that time: without
    #: multicast every stranger costs a copy of everything.
    stranger_s: float = 60.0
    #: What was removed stays refused for so long. Late copies are at most a minute old; two minutes are the least (A2).
    tombstone_s: float = 150.0


@dataclass(frozen=True, slots=True)
class DiscoveryStatistics:
    """What is known and what was asked."""

    contacts: int
    contacts_max: int
    tombstones: int
    version: int
    searches: int
    requests: int
    answers: int
    answered: int
    answered_max: int
    who_has: int


class Discovery(Layer):
    """PING, TCPPING and the ARP-like part of Discovery in JGroups (seed 003; rows LA-9 to 13, LA-28; traps A1, A2, A4, A13)."""

    name = "discovery"
    HEADERS: ClassVar[dict[int, type[Header]]] = {
        0x10: WhoIsThere,
        0x11: IAmHere,
        0x12: WhoHas,
        0x13: IHave,
        0x14: Invalidate,
        0x15: KnownContacts,
    }
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: DiscoveryConfig) -> None:
        self.local = local
        self.config = config
        self._directory = Directory(local.address, local.name, config.contacts_max, config.tombstone_s)
        self._contacts = self._directory.contacts
        self._search: Search | None = None
        self._seeds = config.seeds
        self._watched: tuple[tuple[Address, Physical], ...] = ()
        self._announcements = 0
        self._announce_at = 0.0
        self._sweep_at: float | None = None
        self._given: KnownContacts | None = None
        self._answered = RateLimit(config.answer_interval_s, config.answered_max)
        self._searches = self._requests = self._answers = self._who_has = 0
        self._handlers: dict[type[Header], Callable[[Any, Address, float], list[Effect]]] = {
            WhoIsThere: self._handle_who_is_there,
            IAmHere: self._handle_i_am_here,
            WhoHas: self._handle_who_has,
            IHave: self._handle_i_have,
            Invalidate: self._handle_invalidate,
        }

    # -- from above ------------------------------------------------------------------------------------------------

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Frames pass; connect and search."""
        if isinstance(event, Connect):
            return self._connect(event, now)
        if isinstance(event, FindMembers):
            config = self.config
            self._search = Search(now, config.join_wait_s, config.settle_s, config.peers_max)
            self._searches += 1
            return self._ask(self._search, now)
        if isinstance(event, SetSeeds):
            return self._set_seeds(event.seeds[:SEEDS_MAX])
        if isinstance(event, Watch):
            known = [contact for member in event.members if (contact := self._contacts.get(member)) is not None]
            targets = tuple([(contact.address, contact.physical[0]) for contact in known])
            news, self._watched = targets != self._watched, targets
            return [Up(WatchAt(targets))] if news else []
        return [Down(event)]

    def _connect(self, event: Connect, now: float) -> list[Effect]:
        directory = self._directory
        if directory.physical and directory.physical != event.physical:
            self._announcements, self._announce_at = ANNOUNCEMENTS, now
        directory.physical = event.physical
        self._sweep_at = now + self.config.stranger_s
        me = directory.me()
        return [Down(SetPhysical(me.address, me.physical, me.version)), Down(event)]

    def _set_seeds(self, seeds: tuple[Physical, ...]) -> list[Effect]:
        """New ones are asked at once: who started alone, when no name was known yet, meets the others this way."""
        known, self._seeds = (*self._seeds, *self._directory.physical), seeds
        new = [seed for seed in seeds if seed not in known]
        return self._send(new, self._request()) if new and self._directory.physical else []

    def _ask(self, search: Search, now: float) -> list[Effect]:
        search.ask_at = now + self.config.request_interval_s
        self._requests += 1
        return self._send((None, *self._seeds), self._request())

    def _request(self) -> WhoIsThere:
        return WhoIsThere(self._directory.me(), *self._directory.standing())

    def _send(self, dests: Iterable[Destination], header: Header) -> list[Effect]:
        me = self.local.address
        return [Down(Frame(me, dest, (header,), None, True)) for dest in dests]

    # -- time ------------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to ask or announce again, to end the search, or to forget strangers."""
        due = self._sweep_at
        if due is not None and self._search is not None:
            due = min(due, self._search.deadline())
        if due is not None and self._announcements:
            due = min(due, self._announce_at)
        return due

    def expire(self, now: float) -> list[Effect]:
        """Ask again, end the search, announce my new address again, forget strangers."""
        effects: list[Effect] = []
        search = self._search
        if search is not None and now >= search.until:
            self._search = None
            effects.append(Up(Found(search.peers())))
        elif search is not None and now >= search.ask_at:
            effects += self._ask(search, now)
        if self._announcements and now >= self._announce_at:
            self._announcements -= 1
            self._announce_at = now + self.config.request_interval_s
            effects += self._send((None, *self._seeds), IHave((self._directory.me(),)))
        if self._sweep_at is not None and now >= self._sweep_at:
            self._sweep_at = now + self.config.stranger_s
            for stranger in self._contacts.silent(now - self.config.stranger_s):
                effects += self._forget(stranger, now)
        return effects

    def _forget(self, member: Address, now: float, version: int = 0) -> list[Effect]:
        self._contacts.remove(member, now, version)
        return [Down(RemovePhysical(member))]

    # -- from below ------------------------------------------------------------------------------------------------

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Take discovery's own frames, what the resolver asks for, and views."""
        if isinstance(event, Frame):
            headers = event.headers
            self._contacts.hear(event.source, now)
            handle = self._handlers.get(type(headers[-1])) if headers else None
            if handle is None:
                return [Up(event)]
            return handle(headers[-1], event.source, now) if self._directory.physical else [Dropped("not_connected")]
        if isinstance(event, FindPhysical):
            return self._find(event.member)
        if isinstance(event, ViewInstalled):
            return self._install(event.view, event.previous, now)
        if isinstance(event, Left):
            return self._leave()
        return [Up(event)]

    def _handle_who_is_there(self, header: WhoIsThere, source: Address, now: float) -> list[Effect]:
        if not _is_own_word(header.contact, source):
            return [Dropped("bad_contact")]
        effects = self._meet(header, source, now)
        if not self._may_answer(source, source, now):
            return [*effects, Dropped("not_answered")]
        directory = self._directory
        return effects + self._send((source,), IAmHere(directory.me(), *directory.standing(), directory.others(source)))

    def _meet(self, header: WhoIsThere | IAmHere, source: Address, now: float) -> list[Effect]:
        """Take in what a process says of itself.

        For a running search an answer counts, and so does the request of another process that starts at the same time.
        """
        effects = self._directory.learn(header.contact, source, now)
        contact = replace(header.contact, name=printable(header.contact.name))
        if self._search is not None and not self._search.heard(contact, header.coordinator, header.view, now):
            effects.append(Dropped("too_many_peers"))
        return effects

    def _may_answer(self, asker: Address, member: Address, now: float) -> bool:
        """Only who is known can be answered, and nobody more often than at the configured interval (C15)."""
        allowed = asker in self._contacts and self._answered.allow((asker, member), now)
        self._answers += allowed
        return allowed

    def _handle_i_am_here(self, header: IAmHere, source: Address, now: float) -> list[Effect]:
        if not _is_own_word(header.contact, source):
            return [Dropped("bad_contact")]
        effects = self._meet(header, source, now)
        if len(header.others) > CONTACTS_PER_FRAME:
            return [*effects, Dropped("too_many_contacts")]
        for contact in header.others:
            learnt = self._directory.learn(contact, source, now)
            effects += learnt
            # Those that only the seeds know have not heard my request.
            if learnt and contact.address in self._contacts and self._search is not None and self._seeds:
                effects += self._send((contact.address,), self._request())
        return effects

    # -- WHO-HAS, I-HAVE, INVALIDATE -------------------------------------------------------------------------------

    def _find(self, member: Address) -> list[Effect]:
        known = self._contacts.get(member)
        if known is not None:
            return [Down(SetPhysical(member, known.physical, known.version))]
        if not self._directory.physical:
            return [Dropped("not_connected")]
        self._who_has += 1
        dests = dict.fromkeys((None, *self._seeds, *self._contacts.last_known(member)))
        return self._send(dests, WhoHas(member, self._directory.me()))

    def _handle_who_has(self, header: WhoHas, source: Address, now: float) -> list[Effect]:
        member, directory = header.member, self._directory
        if not _is_own_word(header.asker, source):
            return [Dropped("bad_contact")]
        effects = directory.learn(header.asker, source, now)
        known = self._contacts.get(member)
        if member != self.local.address and (known is None or not directory.tells_of(member)):
            return effects
        if not self._may_answer(source, member, now):
            return [*effects, Dropped("not_answered")]
        return effects + self._send((source,), IHave((directory.me() if known is None else known,)))

    def _handle_i_have(self, header: IHave, source: Address, now: float) -> list[Effect]:
        if len(header.contacts) > CONTACTS_PER_FRAME:
            return [Dropped("too_many_contacts")]
        return [effect for contact in header.contacts for effect in self._directory.learn(contact, source, now)]

    def _handle_invalidate(self, header: Invalidate, source: Address, now: float) -> list[Effect]:
        member = header.member
        if not self._directory.may_invalidate(member, source):
            return [Dropped("no_authority")]
        known = self._contacts.get(member)
        # The coordinator need not know the latest word of the one that left; if that one lives, its next word brings it back.
        if source == member and known is not None and known.version > header.version:
            return [Dropped("late_invalidate")]
        if self._search is not None:
            self._search.forget(member)
        return self._forget(member, now, header.version)

    # -- views -----------------------------------------------------------------------------------------------------

    def _install(self, view: View, previous: View | None, now: float) -> list[Effect]:
        directory, contacts = self._directory, self._contacts
        directory.view = view
        contacts.pin(view.members, now)
        effects: list[Effect] = []
        for contact in () if self._given is None else self._given.contacts:
            effects += directory.learn(contact, view.coordinator, now)
        self._given = None
        before = () if previous is None else previous.members
        gone = [member for member in before if member not in view.members]
        obituaries = [Invalidate(member, known.version) for member in gone if (known := contacts.get(member)) is not None]
        for member in gone:
            effects += self._forget(member, now)
        if view.coordinator == self.local.address:
            for obituary in obituaries:
                effects += self._send((None,), obituary)
            # After a merge each side is new to the other, so everybody is told of everybody.
            effects += self._introduce([each for each in view.members if view.subviews or each not in before])
        return effects

    def _introduce(self, members: list[Address]) -> list[Effect]:
        """Tell all of these members: without multicast, who is not told of a joiner does not reach it."""
        me, directory = self.local.address, self._directory
        contacts = [directory.me() if each == me else self._contacts.get(each) for each in members]
        known = [contact for contact in contacts if contact is not None]
        effects: list[Effect] = []
        for start in range(0, len(known), CONTACTS_PER_FRAME):
            effects += self._send((None,), IHave(tuple(known[start : start + CONTACTS_PER_FRAME])))
        return effects

    def _leave(self) -> list[Effect]:
        me, directory = self.local.address, self._directory
        effects = self._send((None,), Invalidate(me, directory.me().version)) if directory.physical else []
        directory.physical, directory.view, self._search, self._sweep_at = (), None, None, None
        return [*effects, Down(RemovePhysical(me))]

    def give_state(self) -> KnownContacts:
        """Where the members of the view are, myself included: a joiner has to reach them all at once."""
        return KnownContacts((self._directory.me(), *self._directory.fellows()))

    def take_state(self, state: Header) -> None:
        """Kept until the view, which follows at once, can hand it down."""
        if isinstance(state, KnownContacts):
            self._given = state

    def name_of(self, member: Address) -> str:
        """The logical name of a member for people to read; its short hex form when it is not known."""
        known = self._contacts.get(member)
        return repr(member) if known is None else known.name

    def statistics(self) -> DiscoveryStatistics:
        """The numbers of what is known and asked."""
        return DiscoveryStatistics(
            contacts=len(self._contacts),
            contacts_max=self.config.contacts_max,
            tombstones=self._contacts.tombstones,
            version=self._directory.version,
            searches=self._searches,
            requests=self._requests,
            answers=self._answers,
            answered=len(self._answered),
            answered_max=self.config.answered_max,
            who_has=self._who_has,
        )


def _is_own_word(contact: Contact, source: Address) -> bool:
    return contact.address == source and is_reachable(contact)
