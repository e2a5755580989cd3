"""Discovery queries that do not join: each path is tried separately.

Members remember the sender for a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sitestack.layers.discovery.headers import IAmHere, WhoIsThere
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact, is_reachable, printable
from sitestack.model.events import Event
from sitestack.model.frame import Frame, Header
from sitestack.stack.layer import Dropped, Effect, Layer, Local, Transmit

#: Not a valid member name, so a finished query never looks like a lost member.
NAME = "@doctor"
NOTED_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Ask(Event):
    """Send a query to these addresses; None is multicast."""

    targets: Sequence[Physical | None]


class Enquiry(Layer):
    name = "enquiry"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x10: WhoIsThere, 0x11: IAmHere}

    def __init__(self, local: Local, parameters: str) -> None:
        self._local = local
        self._parameters = parameters
        self._contact = Contact(local.address, local.name, (), 1)
        #: Answers since the last query, and all reported contacts.
        self.answered: dict[Address, IAmHere] = {}
        self.told: dict[Address, Contact] = {}

    def begin(self, physical: tuple[Physical, ...]) -> None:
        """Set the addresses at which answers reach this process."""
        self._contact = Contact(self._local.address, self._local.name, physical, 1)

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if not isinstance(event, Ask):
            return []
        question = WhoIsThere(self._contact, None, None, self._parameters)
        return [Transmit(to, Frame(self._local.address, to, (question,), None, True)) for to in event.targets]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        header = event.headers[-1] if isinstance(event, Frame) and event.headers else None
        if not isinstance(event, Frame) or not isinstance(header, IAmHere) or header.contact.address != event.source:
            return [Dropped("not_asked")]
        if len(self.answered) < NOTED_MAX:
            self.answered[event.source] = header
        for contact in (header.contact, *header.others):
            self.note(contact)
        return []

    def note(self, contact: Contact) -> None:
        if is_reachable(contact) and contact.name != NAME and len(self.told) < NOTED_MAX:
            self.told[contact.address] = contact

    def names(self, members: Sequence[Address]) -> list[str]:
        """Return the members' logical names, sorted and escaped."""
        return sorted(printable(self.told[member].name) for member in members)
