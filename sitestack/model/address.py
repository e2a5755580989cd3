"""Addresses: the UUIDs of members, proxies of members of other sites, and physical addresses.

After "Logical addresses" of JGroups (LA-1, LA-3): the address of a member is a UUID made afresh at
every connect; the logical name is shown and never compared. After its RELAY (REL-6, REL-7): a
member of another site is a `ProxyUUID`, and above the stack every member is one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

UUID_BYTES = 16


class Address(bytes):
    """The 16 bytes of a member's UUID.

    Being `bytes`, it hashes and compares at C speed and orders totally.
    """

    __slots__ = ()

    def __new__(cls, value: bytes) -> Address:
        if len(value) != UUID_BYTES:
            raise ValueError(f"an address has {UUID_BYTES} bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def make(cls, rng: random.Random) -> Address:
        """Make a fresh address (LA-3).

        The caller owns the source of randomness, so that a simulation repeats.
        """
        return cls(rng.getrandbits(8 * UUID_BYTES).to_bytes(UUID_BYTES, "big"))

    def __repr__(self) -> str:
        return bytes.hex(self)[:8]

    __str__ = __repr__


class ProxyUUID(Address):
    """A member with its site: the form in which an application sees every member.

    Two proxies are equal if site and UUID are. The relay is only a hint for routing, so a proxy
    stays equal when the relay fails over (R14). An `Address` has no site, as in `MessageId.origin`
    or `ViewId.creator`, so its UUID alone decides. Another site may name any UUID: code that keeps
    members of several sites in one table keeps proxies.
    """

    site: str
    relay: Address | None
    #: `E@SFO`, for display; empty where no view has named the member. It comes from a view of the
    #: member that shows it, never from a table of the whole process (A9).
    name: str

    def __new__(cls, uuid: bytes, site: str, relay: Address | None = None, name: str = "") -> ProxyUUID:
        self = super().__new__(cls, uuid)
        assert isinstance(self, ProxyUUID)
        self.site = site
        self.relay = relay
        self.name = name
        return self

    @property
    def original(self) -> Address:
        return Address(bytes(self))

    def _site_beside(self, other: bytes) -> str:
        """Return the site of the other address, which is this one's unless it names another."""
        return other.site if isinstance(other, ProxyUUID) else self.site

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and bytes.__eq__(self, other) and self.site == self._site_beside(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = Address.__hash__

    def __lt__(self, other: bytes) -> bool:
        return (bytes(self), self.site) < (bytes(other), self._site_beside(other))

    def __gt__(self, other: bytes) -> bool:
        return not (self < other or self == other)

    def __le__(self, other: bytes) -> bool:
        return self < other or self == other

    def __ge__(self, other: bytes) -> bool:
        return not self < other

    def __reduce__(self) -> tuple[type[ProxyUUID], tuple[bytes, str, Address | None, str]]:
        return (ProxyUUID, (bytes(self), self.site, self.relay, self.name))

    def __repr__(self) -> str:
        return self.name or f"{self.site}/{bytes.hex(self)[:8]}"

    __str__ = __repr__


def with_site(member: Address, site: str) -> ProxyUUID:
    """Return the member with its site, which is `site` for one without."""
    return member if isinstance(member, ProxyUUID) else ProxyUUID(member, site)


@dataclass(frozen=True, slots=True)
class AllOf:
    """All members of a site, as a target; resolved at the time of sending."""

    site: str


@dataclass(frozen=True, slots=True)
class RelayOf:
    """The relay of a site, as a target; resolved at the time of sending."""

    site: str


#: A target that stands for members.
Place = AllOf | RelayOf


class Physical(NamedTuple):
    """The destination of datagrams for a member: host (an IPv4 or IPv6 address, or a name resolved by the shell) and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
