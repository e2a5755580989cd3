"""Structures: replicated objects that share a channel with the application and with each other.

A structure's messages are envelopes of the kind STRUCTURE with its name in a header. They have their
place in the stream like all others, and the application does not see them. A structure handles them
as they are delivered, within the turn, so it never waits for the application to read. It sees
messages, views and gaps in the order of the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from sitestack.model.address import Address
from sitestack.model.envelope import STRUCTURE, Envelope, Kind, wrap
from sitestack.model.errors import LocalError, ProtocolError
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.view import View

#: Maximum structures of a channel, and maximum bytes of a name.
STRUCTURES_MAX = 256
NAME_BYTES_MAX = 128


class Structure(ABC):
    """One replicated object. Its methods are called within a turn, and do not wait."""

    @abstractmethod
    def accept(self, source: Address, data: bytes) -> None:
        """Handle a message. Raises ProtocolError for malformed data."""

    def view_changed(self, view: View) -> None:  # noqa: B027 (optional)
        """Handle a view of this site, at its place in the stream."""

    def members_changed(self) -> None:  # noqa: B027 (optional)
        """Handle a change of the members of any site."""

    def note_gap(self, gap: Gap) -> None:  # noqa: B027 (optional)
        """Handle a gap, at its place in the stream."""

    def end(self) -> None:  # noqa: B027 (optional)
        """Release waiting tasks: this member has left."""


class Structures:
    """The structures of one channel, by name. Bound: `STRUCTURES_MAX`."""

    def __init__(
        self,
        post: Callable[[bytes, Scope, Address | None], Awaitable[None]],
        post_now: Callable[[bytes, Scope, Address | None], None],
        count_drop: Callable[[str], None],
    ) -> None:
        """`post` waits for credit. `post_now` does not, so it is for a few small messages."""
        self._post = post
        self._post_now = post_now
        self._count_drop = count_drop
        self._named: dict[bytes, Structure] = {}

    def attach(self, name: str, structure: Structure) -> None:
        """Add a structure. Raises LocalError for a name in use or too long."""
        encoded = name.encode()
        if not 0 < len(encoded) <= NAME_BYTES_MAX:
            raise LocalError(f"the name of a structure has 1 to {NAME_BYTES_MAX} bytes, not {len(encoded)}")
        if encoded in self._named:
            raise LocalError(f"this channel has a structure {name!r} already; share it")
        if len(self._named) >= STRUCTURES_MAX:
            raise LocalError(f"a channel has at most {STRUCTURES_MAX} structures")
        self._named[encoded] = structure

    def detach(self, name: str) -> None:
        self._named.pop(name.encode(), None)

    def submit(self, name: str, data: bytes, scope: Scope, target: Address | None = None) -> Awaitable[None]:
        """Send a message of a structure; waits and raises as `Channel.send`."""
        return self._post(_wrapped(name, data), scope, target)

    def submit_now(self, name: str, data: bytes, scope: Scope, target: Address | None = None) -> None:
        """Send a message without waiting for credit. It is lost if this member leaves or lacks the majority."""
        with suppress(LocalError):
            self._post_now(_wrapped(name, data), scope, target)

    def deliver(self, source: Address, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Deliver messages; those of structures that this member has not opened are dropped."""
        for name, data in messages:
            structure = self._named.get(name)
            if structure is None:
                continue
            try:
                structure.accept(source, data)
            except ProtocolError as error:
                self._count_drop(error.reason)

    def each(self) -> tuple[Structure, ...]:
        return tuple(self._named.values())


def _wrapped(name: str, data: bytes) -> bytes:
    return wrap(Envelope(Kind.STRUCTURE, 0, {STRUCTURE: name.encode()}), data)
