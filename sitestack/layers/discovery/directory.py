"""What a member knows of where everybody is, whom it believes, and what it tells others. A helper of discovery, not a layer."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import AddressCache, Contact, is_reachable, printable
from sitestack.model.events import SetPhysical
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect

#: So many members, in order of rank, tell others of the whole view; the rest speak for themselves. One would do, but it may be
#: the one that has just died.
TELLERS = 3
#: Contacts in one datagram: with names of usual length they stay below the size of an Ethernet frame.
CONTACTS_PER_FRAME = 12


class Directory:
    """Contacts with the rules of authority (A2).

    The owner may say anything newer of itself, and each of its statements is newer than all before, so that it wins over
    whatever is remembered, a tombstone included. The coordinator of my view may correct. Third parties fill gaps only.
    """

    def __init__(self, address: Address, name: str, contacts: AddressCache, answered: RateLimit) -> None:
        self.address = address
        self.name = printable(name)
        self.contacts = contacts
        self.answered = answered
        self.answers = 0
        #: Where I am; empty before I am connected and after I have left.
        self.physical: tuple[Physical, ...] = ()
        self.version = 0
        self.view: View | None = None

    def me(self) -> Contact:
        """What I say of myself, newer than anything said before."""
        self.version += 1
        return Contact(self.address, self.name, self.physical, self.version)

    def standing(self) -> tuple[Address | None, ViewId | None]:
        """Who coordinates, and the view; neither before my first view (A13)."""
        return (None, None) if self.view is None else (self.view.coordinator, self.view.id)

    def learn(self, contact: Contact, source: Address, now: float) -> list[Effect]:
        """Take in what `source` says of somebody, if it may say so."""
        member = contact.address
        known = self.contacts.get(member)
        if member == self.address or (known is not None and contact.version <= known.version):
            return []
        if not is_reachable(contact):
            return [Dropped("bad_contact")]
        if source != member and (self.view is None or source != self.view.coordinator):
            if known is not None:
                return []
            if self.contacts.is_removed(member, now):
                return [Dropped("removed_contact")]
        contact = replace(contact, name=printable(contact.name))
        if not self.contacts.put(contact, now):
            return [Dropped("removed_contact" if self.contacts.is_removed(member, now) else "too_many_contacts")]
        return [Down(SetPhysical(member, contact.physical, contact.version))]

    def may_invalidate(self, member: Address, source: Address) -> bool:
        """The leaver itself may, and my coordinator unless it is late: who is in my view has come back (A2)."""
        if source == member:
            return member != self.address
        view = self.view
        return view is not None and source == view.coordinator and member not in view.members

    def fellows(self) -> list[Contact]:
        """The contacts of the other members of the view, in order of rank."""
        members = () if self.view is None else self.view.members
        return [contact for member in members if (contact := self.contacts.get(member)) is not None]

    def others(self, asker: Address) -> tuple[Contact, ...]:
        """A bounded choice for an asker: the coordinator, then strangers (they are harder to find), then the view."""
        view = self.view
        if view is not None and view.rank(self.address) >= TELLERS:
            return ()
        known = {asker, *(() if view is None else view.members)}
        strangers = islice((each for each in self.contacts.newest() if each.address not in known), CONTACTS_PER_FRAME // 2)
        fellows = [each for each in self.fellows() if each.address != asker]
        chosen = [*fellows[:1], *strangers, *fellows[1:]]
        return tuple(chosen[:CONTACTS_PER_FRAME])

    def tells_of(self, member: Address) -> bool:
        """The first members answer for the view, so that a hundred do not answer one question; for a stranger whoever can."""
        view = self.view
        return view is None or view.rank(member) < 0 or view.rank(self.address) < TELLERS

    def may_answer(self, asker: Address, member: Address, now: float) -> bool:
        """Only who is known can be answered, and nobody the same more often than the limit allows (C15); counts it if so."""
        allowed = asker in self.contacts and self.answered.allow((asker, member), now)
        self.answers += allowed
        return allowed


def is_own_word(contact: Contact, source: Address) -> bool:
    """Whether `source` says of itself where it is, so that it can be answered there."""
    return contact.address == source and is_reachable(contact)
