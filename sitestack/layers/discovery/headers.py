"""What discovery says on the wire."""

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
    """Discovery request. Says as much of the asker as an answer would, so both sides learn."""

    contact: Contact
    #: Who coordinates the asker's view, and which view it is; neither before its first view.
    coordinator: Address | None
    view: ViewId | None
    #: Those that all members of a site must share, as people read them. Whoever has others is not found.
    parameters: str


@dataclass(frozen=True, slots=True)
class IAmHere(Header):
    """Discovery answer. `others` are contacts that the answerer knows: two initial hosts let a joiner find the rest (LA-28)."""

    contact: Contact
    coordinator: Address | None
    view: ViewId | None
    parameters: str
    others: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class WhoHas(Header):
    """Who knows where this member is? The asker tells where to answer: the one it looks for may have forgotten it too."""

    member: Address
    asker: Contact


@dataclass(frozen=True, slots=True)
class IHave(Header):
    """Where these members are."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Invalidate(Header):
    """Forget what was said of this member up to this version."""

    member: Address
    version: int


@dataclass(frozen=True, slots=True)
class KnownContacts(Header):
    """State for a joiner: where the members of the view are."""

    contacts: tuple[Contact, ...]


def say(me: Address, header: Header, dests: Iterable[Destination]) -> list[Effect]:
    """Send it once to each: nobody is in a view with all of them, so nothing of discovery is reliable."""
    return [Down(Frame(me, dest, (header,), None, True)) for dest in dests]
