from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.address_cache import Contact
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Effect


@dataclass(frozen=True, slots=True)
class WhoIsThere(Header):
    """Discovery request, with the asker's contact, so that both sides learn."""

    contact: Contact
    #: None before the asker's first view.
    coordinator: Address | None
    view: ViewId | None
    #: The parameters that all members of a site must share, as text.
    parameters: str


@dataclass(frozen=True, slots=True)
class IAmHere(Header):
    """Discovery answer. With `others`, two initial hosts let a joiner find the rest (LA-28)."""

    contact: Contact
    coordinator: Address | None
    view: ViewId | None
    parameters: str
    others: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class WhoHas(Header):
    """Question for the contact of `member`, which may have forgotten the asker's, too."""

    member: Address
    asker: Contact


@dataclass(frozen=True, slots=True)
class IHave(Header):
    """Answer to WhoHas, or unasked: the contacts of these members."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Invalidate(Header):
    """Request to forget the contacts of this member up to this version."""

    member: Address
    version: int


@dataclass(frozen=True, slots=True)
class KnownContacts(Header):
    """State for a joiner: the contacts of the members of the view."""

    contacts: tuple[Contact, ...]


def say(me: Address, header: Header, dests: Iterable[Destination]) -> list[Effect]:
    """Return unreliable frames with this header."""
    return [Down(Frame(me, dest, (header,), unreliable=True)) for dest in dests]
