"""Addresses: the UUIDs of members, proxies of members of other sites, and physical addresses.

After "Logical addresses" of JGroups (LA-1, LA-3): the address of a member is a UUID made afresh at
every connect; the logical name is shown and never compared. After its RELAY (REL-6, REL-7): a
member of another site appears as a `ProxyUUID`.
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


class NamedAddress(Address):
    """An address for an application: prints the logical name, and is equal to the address without
    one.

    A name comes from a view of the member that shows it, never from a table of the whole process
    (A9).
    """

    name: str

    def __new__(cls, uuid: bytes, name: str = "") -> NamedAddress:
        self = super().__new__(cls, uuid)
        assert isinstance(self, NamedAddress)
        self.name = name
        return self

    def __repr__(self) -> str:
        return self.name or super().__repr__()

    __str__ = __repr__


class ProxyUUID(Address):
    """A member of another site: its UUID, its site, and the local relay that delivered the message.

    Identity is (site, uuid). The relay is only a hint for routing, so a proxy stays equal when the
    relay fails over (R14).
    """

    site: str
    relay: Address | None
    #: `E@SFO`, for display; empty where no global view has named the member.
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProxyUUID) and self.site == other.site and bytes.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.site, bytes(self)))

    def __lt__(self, other: bytes) -> bool:
        if isinstance(other, ProxyUUID):
            return (bytes(self), self.site) < (bytes(other), other.site)
        return (bytes(self), self.site) < (bytes(other), "")

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
    """The destination of datagrams for a member: host (dotted, or a name resolved by the shell) and
    port.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
