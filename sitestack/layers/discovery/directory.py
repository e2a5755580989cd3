"""The contacts that a member knows, and its rules for accepting and answering."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import AddressCache, Contact, is_reachable, printable
from sitestack.model.events import SetPhysical
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect

#: Members, by rank, that answer for the view; the others answer only for themselves.
TELLERS = 3
#: Maximum contacts in one datagram, which stays below an Ethernet frame.
CONTACTS_PER_FRAME = 12


class Directory:
    """Contacts with the rules of authority (A2).

    A member's statements about itself replace any remembered one. The coordinator of the view may
    correct contacts. Third parties may only add unknown ones.
    """

    def __init__(self, address: Address, name: str, contacts: AddressCache, answered: RateLimit) -> None:
        self.address = address
        self.name = printable(name)
        self.contacts = contacts
        self.answered = answered
        #: Empty before this member is connected and after it has left.
        self.physical: tuple[Physical, ...] = ()
        self.version = 0
        self.view: View | None = None

    def me(self) -> Contact:
        """Return this member's own contact, with a version above all before."""
        self.version += 1
        return Contact(self.address, self.name, self.physical, self.version)

    def standing(self) -> tuple[Address | None, ViewId | None]:
        """Return the coordinator and the id of the view; None and None before the first view (A13)."""
        return (None, None) if self.view is None else (self.view.coordinator, self.view.id)

    def learn(self, contact: Contact, source: Address, now: float) -> list[Effect]:
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
        """Return whether `source` may remove a contact: its own, or, as coordinator, that of a member outside the view (A2)."""
        if source == member:
            return member != self.address
        view = self.view
        return view is not None and source == view.coordinator and member not in view.members

    def fellows(self) -> list[Contact]:
        members = () if self.view is None else self.view.members
        return [contact for member in members if (contact := self.contacts.get(member)) is not None]

    def others(self, asker: Address) -> tuple[Contact, ...]:
        """Return the contacts for an answer: the coordinator, strangers (harder to find), then the view."""
        view = self.view
        if view is not None and view.rank(self.address) >= TELLERS:
            return ()
        known = {asker, *(() if view is None else view.members)}
        strangers = islice((each for each in self.contacts.newest() if each.address not in known), CONTACTS_PER_FRAME // 2)
        fellows = [each for each in self.fellows() if each.address != asker]
        chosen = [*fellows[:1], *strangers, *fellows[1:]]
        return tuple(chosen[:CONTACTS_PER_FRAME])

    def tells_of(self, member: Address) -> bool:
        """Return whether this member answers for `member`: a stranger, or as one of the first in rank."""
        view = self.view
        return view is None or view.rank(member) < 0 or view.rank(self.address) < TELLERS

    def may_answer(self, asker: Address, member: Address, now: float) -> bool:
        """Return whether the asker is known, and was not answered too recently (C15)."""
        return asker in self.contacts and self.answered.allow((asker, member), now)


def is_own_word(contact: Contact, source: Address) -> bool:
    return contact.address == source and is_reachable(contact)
