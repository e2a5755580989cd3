"""Where members can be reached: the table behind the transport's address cache, and behind discovery's
answers.

The newest version of a contact wins (A1). A removed contact leaves a tombstone (A2). Tables belong
to one node (A9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sitestack.model.address import Address, Physical
from sitestack.model.printable import escaped

#: Maximum characters of a name in logs and tables; longer names are cut.
NAME_CHARS_MAX = 64
#: Maximum addresses of one contact.
PHYSICAL_MAX = 8
#: Maximum characters of a host name, as in DNS.
HOST_CHARS_MAX = 253


@dataclass(frozen=True, slots=True)
class Contact:
    address: Address
    name: str
    physical: tuple[Physical, ...]
    #: Grows with each statement that the member makes about itself.
    version: int


def is_reachable(contact: Contact) -> bool:
    hosts = [physical.host for physical in contact.physical]
    return 0 < len(hosts) <= PHYSICAL_MAX and all(
        0 < len(host) <= HOST_CHARS_MAX and host.isprintable() and " " not in host for host in hosts
    )


def printable(name: str) -> str:
    """Shorten the name, and escape control characters (C25)."""
    return escaped(name[:NAME_CHARS_MAX])[:NAME_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class _Tombstone:
    contact: Contact
    until: float


class AddressCache:
    """A bounded table of contacts. When full, it evicts the one updated longest ago.

    Members of the view are pinned, and may exceed the bound.
    """

    def __init__(self, contacts_max: int, tombstone_s: float) -> None:
        self.contacts_max = contacts_max
        self.tombstone_s = tombstone_s
        self._contacts: dict[Address, Contact] = {}
        #: Time of the last sign of life.
        self._heard: dict[Address, float] = {}
        self._tombstones: dict[Address, _Tombstone] = {}
        self._pinned: frozenset[Address] = frozenset()
        #: The contact evicted for the last accepted one.
        self.evicted: Address | None = None

    def __len__(self) -> int:
        return len(self._contacts)

    def __contains__(self, member: Address) -> bool:
        return member in self._contacts

    def get(self, member: Address) -> Contact | None:
        return self._contacts.get(member)

    def all(self) -> list[Contact]:
        return list(self._contacts.values())

    def newest(self) -> Iterator[Contact]:
        return reversed(self._contacts.values())

    def is_removed(self, member: Address, now: float) -> bool:
        tombstone = self._tombstones.get(member)
        return tombstone is not None and now < tombstone.until

    def last_known(self, member: Address) -> tuple[Physical, ...]:
        """Return the addresses of a removed member, which may have been falsely excluded."""
        tombstone = self._tombstones.get(member)
        return () if tombstone is None else tombstone.contact.physical

    def hear(self, member: Address, now: float) -> None:
        if member in self._heard:
            self._heard[member] = now

    def silent(self, since: float) -> list[Address]:
        """Return the members that are not pinned and have been silent since that time."""
        return [each for each, heard in self._heard.items() if heard < since and each not in self._pinned]

    def put(self, contact: Contact, now: float) -> bool:
        member = contact.address
        tombstone = self._tombstones.get(member)
        if tombstone is not None and now < tombstone.until and contact.version <= tombstone.contact.version:
            return False
        known = self._contacts.get(member)
        if known is not None and contact.version <= known.version:
            return False
        self.evicted = None
        if known is None and len(self._contacts) >= self.contacts_max and not self._make_room(member):
            return False
        self._contacts.pop(member, None)
        self._contacts[member] = contact
        self._heard[member] = now
        self._tombstones.pop(member, None)
        return True

    def remove(self, member: Address, now: float, version: int = 0) -> None:
        """Remove a member, and refuse contacts up to this version for a while."""
        known = self._contacts.pop(member, None)
        self._heard.pop(member, None)
        buried = self._tombstones.pop(member, None)
        contact = known or (buried.contact if buried is not None else Contact(member, "", (), 0))
        if contact.version < version:
            contact = replace(contact, version=version)
        if contact.version > 0:
            self._tombstones[member] = _Tombstone(contact, now + self.tombstone_s)
            self._clear_tombstones(now)

    def _clear_tombstones(self, now: float) -> None:
        """Drop expired tombstones; at the bound the oldest early."""
        while self._tombstones:
            oldest = next(iter(self._tombstones))
            if len(self._tombstones) <= self.contacts_max and now < self._tombstones[oldest].until:
                return
            del self._tombstones[oldest]

    def pin(self, members: Collection[Address], now: float) -> None:
        """Keep the contacts of these members of the view, and undo their removals."""
        self._pinned = frozenset(members)
        for member in members:
            tombstone = self._tombstones.pop(member, None)
            if tombstone is not None and tombstone.contact.physical and member not in self._contacts:
                self._contacts[member] = tombstone.contact
                self._heard[member] = now

    def _make_room(self, member: Address) -> bool:
        victim = next((each for each in self._contacts if each not in self._pinned), None)
        if victim is None:
            return member in self._pinned
        del self._contacts[victim], self._heard[victim]
        self.evicted = victim
        return True
