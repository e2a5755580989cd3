"""Discovery: which members there are, which one coordinates, and where each can be reached.

It asks by multicast (PING), at configured initial hosts (TCPPING), and at addresses registered with
gossip routers (TCPGOSSIP), and sends learnt contacts to the resolver. Without multicast a request
"to all" is a fan-out to every known member.

A is alone, B starts:

B -> all    WhoIsThere(B at b:1)                 A caches B
A -> B      IAmHere(A at a:1, coordinator A)     B caches A; `Found` a moment later
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from sitestack.layers.discovery.directory import CONTACTS_PER_FRAME, Directory, is_own_word
from sitestack.layers.discovery.headers import (
    IAmHere,
    IHave,
    Invalidate,
    KnownContacts,
    WhoHas,
    WhoIsThere,
    say,
)
from sitestack.layers.discovery.lookup import Lookup
from sitestack.layers.discovery.search import Search
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.address_cache import AddressCache, Contact, printable
from sitestack.model.events import (
    Connect,
    Event,
    FindMembers,
    FindPhysical,
    Left,
    OtherParameters,
    RemovePhysical,
    SetInitialHosts,
    SetRegistered,
    ViewInstalled,
    Watch,
    WatchAt,
)
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.rate_limit import RateLimit
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, ReceivePart, Up

#: Maximum initial hosts that are asked.
INITIAL_HOSTS_MAX = 256
#: Least seconds between two reports of one process with other parameters, and the maximum of such
#: processes.
COMPLAINT_INTERVAL_S = 60.0
COMPLAINTS_MAX = 64
#: Least seconds between two answers to the same question of one requester.
ANSWER_INTERVAL_S = 0.1
#: The source of contacts from gossip routers: it has no authority over any member.
HEARSAY = Address(bytes(UUID_BYTES))


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Times and bounds of discovery. The defaults fit a LAN."""

    #: Members that are asked directly: any that are likely to be up.
    initial_hosts: tuple[Physical, ...] = ()
    #: A DNS name with the addresses of all members, unready ones too (a headless service), and their common
    #: port. It is looked up repeatedly.
    dns: Physical | None = None
    #: All gossip routers (`relay router`). A member registers at each and receives the other members from it.
    routers: tuple[Physical, ...] = ()
    #: Time that a joiner searches before it regards itself as the first member.
    join_wait_s: float = 1.0
    #: Interval at which the request is repeated during a search.
    request_interval_s: float = 0.25
    #: Time that a search continues after a coordinator has answered.
    settle_s: float = 0.1
    #: Requesters for which the last answer is remembered; beyond, the oldest is forgotten.
    answered_max: int = 1_024
    #: Answers that one search accepts; further ones are dropped.
    peers_max: int = 1_024
    #: Remembered contacts; beyond, the oldest outside the view is evicted.
    contacts_max: int = 4_096
    #: Silence after which the contact of a process outside the view is forgotten, within twice that time.
    #: Without multicast every known stranger costs a copy of each heartbeat and request.
    stranger_s: float = 60.0
    #: Time that a removed contact stays refused; at least 120, as late copies are up to a minute old (A2).
    tombstone_s: float = 150.0


class Discovery(Layer):
    """PING, TCPPING and the ARP-like part of Discovery in JGroups (LA-9 to LA-13, LA-28; traps A1, A2, A4, A13)."""

    name = "discovery"
    STATE = KnownContacts
    HEADERS: ClassVar[dict[int, type[Header]]] = {
        0x10: WhoIsThere,
        0x11: IAmHere,
        0x12: WhoHas,
        0x13: IHave,
        0x14: Invalidate,
        0x15: KnownContacts,
    }
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: DiscoveryConfig, parameters: str = "") -> None:
        """With different `parameters`, a process is neither joined nor merged with."""
        self.local = local
        self.config = config
        self._parameters = parameters
        self._complaints = RateLimit(COMPLAINT_INTERVAL_S, COMPLAINTS_MAX)
        self._contacts = AddressCache(config.contacts_max, config.tombstone_s)
        answered = RateLimit(ANSWER_INTERVAL_S, config.answered_max)
        self._directory = Directory(local.address, local.name, self._contacts, answered)
        self._lookup = Lookup(self._directory, config.request_interval_s, config.stranger_s)
        self._search: Search | None = None
        self._initial_hosts = config.initial_hosts
        self._registered: tuple[Physical, ...] = ()
        self._watched: tuple[Address, ...] = ()
        self._watched_at: tuple[tuple[Address, Physical], ...] = ()
        self._handlers: dict[type[Header], Callable[[Any, Address, float], list[Effect]]] = {
            WhoIsThere: self._handle_who_is_there,
            IAmHere: self._handle_i_am_here,
            WhoHas: self._lookup.handle_who_has,
            IHave: self._lookup.handle_i_have,
            Invalidate: self._handle_invalidate,
        }

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        self.stale.add(self)
        if isinstance(event, Connect):
            return [*self._lookup.connect(event.physical, now), Down(event)]
        if isinstance(event, FindMembers):
            config = self.config
            self._search = Search(now, config.join_wait_s, config.settle_s, config.peers_max)
            return self._ask(self._search, now)
        if isinstance(event, SetInitialHosts):
            return self._set_initial_hosts(event.initial_hosts[:INITIAL_HOSTS_MAX])
        if isinstance(event, SetRegistered):
            return self._set_registered(event.contacts[:INITIAL_HOSTS_MAX], now)
        if isinstance(event, Watch):
            self._watched = event.members
            return self._watch()
        return [Down(event)]

    def _watch(self) -> list[Effect]:
        """Report the addresses of watched members, if new."""
        known = [contact for member in self._watched if (contact := self._contacts.get(member)) is not None]
        targets = tuple([(contact.address, contact.physical[0]) for contact in known])
        news, self._watched_at = targets != self._watched_at, targets
        return [Up(WatchAt(targets))] if news else []

    def _set_initial_hosts(self, initial_hosts: tuple[Physical, ...]) -> list[Effect]:
        """Ask new initial hosts at once, for a member that started before its names resolved."""
        known, self._initial_hosts = (*self._initial_hosts, *self._directory.physical), initial_hosts
        new = [each for each in initial_hosts if each not in known]
        return say(self.local.address, self._request(), new) if new and self._directory.physical else []

    def _set_registered(self, contacts: tuple[Contact, ...], now: float) -> list[Effect]:
        """Learn registered contacts as from a third party, and ask new ones."""
        effects: list[Effect] = []
        for contact in contacts:
            effects += self._directory.learn(contact, HEARSAY, now)
        known, places = self._registered, [place for contact in contacts for place in contact.physical]
        self._registered = tuple(dict.fromkeys(each for each in places if each not in self._directory.physical))
        new = [each for each in self._registered if each not in known]
        return effects + (say(self.local.address, self._request(), new) if self._directory.physical else [])

    def _hosts(self) -> tuple[Physical, ...]:
        return tuple(dict.fromkeys((*self._initial_hosts, *self._registered)))

    def _ask(self, search: Search, now: float) -> list[Effect]:
        search.ask_at = now + self.config.request_interval_s
        return say(self.local.address, self._request(), (None, *self._hosts()))

    def _request(self) -> WhoIsThere:
        return WhoIsThere(self._directory.me(), *self._directory.standing(), self._parameters)

    def deadline(self) -> float | None:
        due = self._lookup.deadline()
        return due if due is None or self._search is None else min(due, self._search.deadline())

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        search = self._search
        if search is not None and now >= search.until:
            self._search = None
            effects.append(Up(search.outcome()))
        elif search is not None and now >= search.ask_at:
            effects += self._ask(search, now)
        return effects + self._lookup.expire(now, self._hosts())

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            headers = event.headers
            self._contacts.hear(event.source, now)
            handle = self._handlers.get(type(headers[-1])) if headers else None
            if handle is None:
                return [Up(event)]
            self.stale.add(self)
            if not self._directory.physical:
                return [Dropped("not_connected")]
            return [*handle(headers[-1], event.source, now), *self._watch()]
        self.stale.add(self)
        if isinstance(event, FindPhysical):
            return self._lookup.find(event.member, event.again, self._hosts())
        if isinstance(event, ViewInstalled):
            return self._lookup.install(event.view, event.previous, now)
        if isinstance(event, Left):
            self._search = None
            return self._lookup.leave()
        return [Up(event)]

    def receive_lane(self, source: Address) -> ReceivePart | None:
        return ReceivePart(note=partial(self._contacts.hear, source))

    def _handle_who_is_there(self, header: WhoIsThere, source: Address, now: float) -> list[Effect]:
        if not is_own_word(header.contact, source):
            return [Dropped("bad_contact")]
        effects = self._meet(header, source, now)
        directory = self._directory
        if not directory.may_answer(source, source, now):
            return [*effects, Dropped("not_answered")]
        answer = IAmHere(directory.me(), *directory.standing(), self._parameters, directory.others(source))
        return effects + say(self.local.address, answer, (source,))

    def _meet(self, header: WhoIsThere | IAmHere, source: Address, now: float) -> list[Effect]:
        """Learn a process's contact from its own statement, for a running search too."""
        effects = self._directory.learn(header.contact, source, now)
        if header.parameters != self._parameters:
            return [*effects, Dropped("other_parameters"), *self._refuse(header, now)]
        if self._search is not None and not self._search.heard(header.contact, header.coordinator, header.view, now):
            effects.append(Dropped("too_many_peers"))
        return effects

    def _refuse(self, header: WhoIsThere | IAmHere, now: float) -> list[Effect]:
        """Report a process with other parameters; a joiner waits for its own until its search ends."""
        member = header.contact.address
        other = OtherParameters(member, printable(header.contact.name), printable(header.parameters))
        if self._directory.view is not None:
            return [Up(other)] if self._complaints.allow(member, now) else []
        if self._search is not None and header.coordinator is not None:
            self._search.refused = other
        return []

    def _handle_i_am_here(self, header: IAmHere, source: Address, now: float) -> list[Effect]:
        if not is_own_word(header.contact, source):
            return [Dropped("bad_contact")]
        effects = self._meet(header, source, now)
        if len(header.others) > CONTACTS_PER_FRAME:
            return [*effects, Dropped("too_many_contacts")]
        for contact in header.others:
            learnt = self._directory.learn(contact, source, now)
            effects += learnt
            # Members that only the initial hosts know have not received the request.
            if learnt and contact.address in self._contacts and self._search is not None and self._hosts():
                effects += say(self.local.address, self._request(), (contact.address,))
        return effects

    def _handle_invalidate(self, header: Invalidate, source: Address, now: float) -> list[Effect]:
        effects = self._lookup.handle_invalidate(header, source, now)
        if self._search is not None and Down(RemovePhysical(header.member)) in effects:
            self._search.forget(header.member)
        return effects

    def give_state(self) -> KnownContacts:
        """Return the contacts of the view, which a joiner has to reach at once."""
        return KnownContacts((self._directory.me(), *self._directory.fellows()))

    def take_state(self, state: Header) -> None:
        if isinstance(state, KnownContacts):
            self._lookup.merge_contacts(state.contacts)

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member, or its short hex form."""
        known = self._contacts.get(member)
        return repr(member) if known is None else known.name

    def levels(self) -> dict[str, Level]:
        answered, complaints = self._directory.answered, self._complaints
        return {
            "contacts": Level.of(len(self._contacts), self.config.contacts_max, "addresses of members that were found"),
            "answered": answered.level("searches that were answered, remembered so that they are answered once"),
            "complaints": complaints.level("processes with other parameters, remembered so that each is logged rarely"),
        }
