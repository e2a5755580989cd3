"""The lock service of a member: a `LockTable` fed by the stream, and the requests of this member.

    request   multicast in the site: this member asks for a lock
    release   multicast in the site: this member ends its request
    claim     multicast in the site, in each primary view: this member's clock, and its table before the view

Each message names the view in which it was sent, and counts in no other: members that merge deliver
a message of an earlier view in different views.

In each primary view all members first exchange their tables, since joiners have none and parts of a
split have different ones. The table of the latest agreement is taken by all. Only then members send
requests and releases, those that the table lacks first. In a view that is not primary this member
holds no lock.

It needs `when_split: majority`, `agreement: uniform` and `order: total`. Then whatever a member has
applied, all members of the next primary view's base have received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.structures.lock_table import Claimant, LockTable
from sitestack.structures.registry import Structure, Structures
from sitestack.wire.plain import pack_plain, unpack_bounded

#: Tokens that a cut-off member may still give in the rest of its last view, which the others lack: more
#: than the messages that flow control lets be on their way. Each view with a majority begins above them.
TOKENS_A_VIEW = 1 << 20
#: The name of the service among the structures of a channel.
NAME = "locks"


class Request:
    def __init__(self, name: str, number: int, changed: Callable[[], None]) -> None:
        self.name = name
        self.number = number
        #: The fencing token while this member holds the lock; else None.
        self.token: int | None = None
        #: Whether the request has ended: released, lost, or refused.
        self.is_over = False
        self.is_refused = False
        self.changed = changed

    def finish(self) -> None:
        self.token, self.is_over = None, True
        self.changed()


class Locks(Structure):
    """The locks of a site at one member. Bound: that of `LockTable`."""

    def __init__(self, me: Address, structures: Structures, clock_us: Callable[[], int]) -> None:
        self.table = LockTable()
        self._me = me
        self._structures = structures
        self._clock_us = clock_us
        self._view: View | None = None
        #: Whether all members of the view in force have exchanged their tables.
        self.is_agreed = False
        #: In a view without agreement: the clocks (us) and tables of its members.
        self._claims: dict[Address, tuple[int, LockTable]] = {}
        self._numbers = 0
        self._requests: dict[int, Request] = {}
        self.has_left = False
        structures.attach(NAME, self)

    def request(self, name: str, changed: Callable[[], None]) -> Request:
        """Ask for a lock; `changed` is called when the request gets or loses it."""
        self._numbers += 1
        made = Request(name, self._numbers, changed)
        made.is_over = self.has_left
        if not self.has_left:
            self._requests[self._numbers] = made
            self._tell("request", name, made.number)
        return made

    def release(self, request: Request) -> None:
        """End a request, granted or not."""
        if self._requests.pop(request.number, None) is not None:
            self._tell("release", request.name, request.number)
            request.finish()

    def _tell(self, kind: str, *fields: Any) -> None:
        """Say it in the view in force; what is no claim waits there for the agreement."""
        if self._view is not None and (self.is_agreed or kind == "claim"):
            self._structures.submit_now(NAME, pack_plain([kind, list(self._view.id), *fields]), Scope.SITE)

    def view_changed(self, view: View) -> None:
        self._view, self.is_agreed, self._claims = view, False, {}
        if view.is_primary:
            self._tell("claim", self._clock_us(), self.table.snapshot())
            return
        for request in [each for each in self._requests.values() if each.token is not None]:
            self._lose(request)

    def accept(self, source: Address, data: bytes) -> None:
        """As `Structure`."""
        message = unpack_bounded(data)
        if type(message) is not list or len(message) < 2 or self._view is None:
            raise ProtocolError("lock_message")
        kind, view_id, *fields = message
        if view_id != list(self._view.id) or source not in self._view.members:
            return  # of an earlier view, or of another site
        try:
            if kind == "claim":
                self._claimed(source, *fields)
            elif self.is_agreed:
                self._apply(source, kind, *fields)
            else:
                raise ProtocolError("lock_message")
        except (TypeError, ValueError, OverflowError) as error:
            raise ProtocolError("lock_message") from error

    def _claimed(self, source: Address, clock_us: int, snapshot: Any) -> None:
        view = self._view
        assert view is not None
        if self.is_agreed:
            return
        self._claims[source] = int(clock_us), LockTable.restore(snapshot)
        if len(self._claims) < len(view.members):
            return
        clocks, tables = zip(*self._claims.values(), strict=True)
        self.table = max(tables, key=lambda table: (table.agreed_us, table.last_token))
        self.table.agreed_us = max(self.table.agreed_us + 1, *clocks)
        # Members that are gone may have known larger tokens, about as large as their clocks.
        self.table.last_token = max(self.table.agreed_us, max(table.last_token for table in tables) + TOKENS_A_VIEW)
        self.table.retain(view.members)
        self.is_agreed, self._claims = True, {}
        self._correct()
        self._refresh()

    def _correct(self) -> None:
        """Send the releases and the requests of this member that the table lacks."""
        known = {number: name for name, number in self.table.requests_of(self._me)}
        for number, name in known.items():
            if number not in self._requests:
                self._tell("release", name, number)
        for number, request in self._requests.items():
            if number not in known and request.token is None:
                self._tell("request", request.name, number)

    def _apply(self, source: Address, kind: str, name: str, number: int) -> None:
        if type(name) is not str or type(number) is not int:
            raise ProtocolError("lock_message")
        if kind == "request":
            if not self.table.request(name, Claimant(source, number)) and source == self._me:
                refused = self._requests.pop(number, None)
                if refused is not None:
                    refused.is_refused = True
                    refused.finish()
        elif kind == "release":
            self.table.release(name, source, number)
        self._refresh()

    def _refresh(self) -> None:
        for request in list(self._requests.values()):
            held = self.table.holder(request.name)
            mine = held is not None and held[0].member == self._me and held[0].number == request.number
            if mine and request.token is None:
                assert held is not None
                request.token = held[1]
                request.changed()
            elif request.token is not None and not mine:
                self._lose(request)

    def _lose(self, request: Request) -> None:
        del self._requests[request.number]
        request.finish()

    def end(self) -> None:
        """As `Structure`: this member has left."""
        self.has_left = True
        for request in list(self._requests.values()):
            request.finish()
        self._requests.clear()
