"""The switchboard: splices the connections of two relays that can both only call.

A relay keeps listening connections open here. A caller gets the longest waiting listener of the
called site; once accepted, the two are spliced. Their TLS bytes are not inspected.

All waits are bounded. A listener that does not accept is cut, and the next one asked. A caller
without a listener is rejected. A splice ends with either connection, when idle, or soon after an
EOF.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeAlias

from sitestack.model.errors import ProtocolError
from sitestack.model.level import Level
from sitestack.wire import routing
from sitestack.wire.routing import framed

#: Maximum listeners of one site. A further one cuts the oldest, whose death may be undetected.
LISTENERS_MAX = 8
#: Maximum waiting callers of one site, and splices with a caller of that site; others are rejected.
CALLERS_MAX = 64
SPLICES_MAX = 128
#: The same for one called site: its callers wait in line, and each splice takes one of its connections.
CALLS_MAX = 6
LINKS_MAX = 16
#: Time limits (s) for a listener to accept, and for a caller to find a listener. The latter lets a
#: listener that was just called open its next connection.
ACCEPT_S = 1.0
CALL_S = 2.0
#: Time (s) after which an idle splice is cut; link heartbeats are far more frequent.
IDLE_S = 60.0
#: Time (s) that one side may continue after the EOF of the other.
HALF_OPEN_S = 10.0


class Say(NamedTuple):
    """Send a frame to these connections. Only a datagram may be lost when an outbox is full."""

    clients: Sequence[int]
    frame: bytes
    is_datagram: bool = False


class Cut(NamedTuple):
    client: int
    reason: str


class Splice(NamedTuple):
    """Forward all further bytes between two connections, after their queued frames."""

    listener: int
    caller: int


#: An instruction of the router to its shell. Connections are numbers here.
Effect: TypeAlias = Say | Cut | Splice


@dataclass(slots=True)
class _Listener:
    """A connection waiting for a call. It must accept `caller` before `due`."""

    site: str
    caller: int | None = None
    due: float = inf


@dataclass(slots=True)
class _Caller:
    """A connection whose relay calls a site, until `due`. `listener` is asked to accept it."""

    site: str
    called: str
    due: float
    listener: int | None = None


@dataclass(slots=True)
class Spliced:
    """A pair of spliced connections, and the sites of their relays."""

    listener: int
    caller: int
    called_site: str
    calling_site: str
    since: float
    #: Time at which it is cut if it stays idle.
    due: float
    carried_bytes: int = 0
    is_half_open: bool = False


class Switchboard:
    """Listeners, callers and splices. The router must call `close` for every `Cut` it receives."""

    def __init__(self, sites: Collection[str]) -> None:
        self.calls = self.spliced = self.carried_bytes = 0
        self._sites = sites
        #: Both in order of arrival.
        self._listeners: dict[int, _Listener] = {}
        self._callers: dict[int, _Caller] = {}
        #: Either connection -> the splice.
        self._splices: dict[int, Spliced] = {}

    def __contains__(self, client: int) -> bool:
        return client in self._listeners or client in self._callers or client in self._splices

    def is_spliced(self, client: int) -> bool:
        return client in self._splices

    def is_called(self, client: int) -> bool:
        """Return whether this listener has an unanswered call; meanwhile it gets no frames."""
        return client in self._listeners and self._listeners[client].caller is not None

    def splices(self) -> list[Spliced]:
        return [each for client, each in self._splices.items() if client == each.listener]

    def listen(self, client: int, site: str, now: float) -> list[Effect]:
        effects: list[Effect] = []
        waiting = [number for number, each in self._listeners.items() if each.site == site]
        if len(waiting) >= LISTENERS_MAX:
            effects.append(Cut(waiting[0], "listeners"))
        self._listeners[client] = _Listener(site)
        return [*effects, *self._connect(site, now)]

    def call(self, client: int, site: str, called: str, now: float) -> list[Effect]:
        """Add a caller, and ask a listener of the called site to accept it."""
        self.calls += 1
        if called not in self._sites:
            return [_nobody(client, routing.UNSERVED)]
        waiting = [each.called for each in self._callers.values() if each.site == site]
        links = [*waiting, *[each.called_site for each in self.splices() if each.calling_site == site]]
        is_full = len(waiting) >= CALLERS_MAX or len(links) >= SPLICES_MAX
        if is_full or waiting.count(called) >= CALLS_MAX or links.count(called) >= LINKS_MAX:
            return [_nobody(client, routing.FULL)]
        self._callers[client] = _Caller(site, called, now + CALL_S)
        return self._connect(called, now)

    def accept(self, client: int, now: float) -> list[Effect]:
        """Splice a listener with its caller. Raises ProtocolError if it was not called."""
        listener = self._listeners.get(client)
        if listener is None or listener.caller is None:
            raise ProtocolError("uncalled")
        del self._listeners[client]
        caller = self._callers.pop(listener.caller)
        spliced = Spliced(client, listener.caller, listener.site, caller.site, now, now + IDLE_S)
        self._splices |= {client: spliced, listener.caller: spliced}
        self.spliced += 1
        return [Say([listener.caller], framed(routing.SPLICED)), Splice(client, listener.caller)]

    def _connect(self, site: str, now: float) -> list[Effect]:
        """Ask free listeners of a site to accept its waiting callers, both in order of arrival."""
        free = [number for number, each in self._listeners.items() if each.site == site and each.caller is None]
        calling = [number for number, each in self._callers.items() if each.called == site and each.listener is None]
        effects: list[Effect] = []
        for number, caller in zip(free, calling, strict=False):
            listener, call = self._listeners[number], self._callers[caller]
            listener.caller, listener.due, call.listener = caller, now + ACCEPT_S, number
            effects.append(Say([number], framed(routing.CALLED, call.site.encode())))
        return effects

    def close(self, client: int, now: float) -> list[Effect]:
        """Remove a closed connection. Cut the other one of its splice; rematch a waiting peer."""
        if (spliced := self._splices.pop(client, None)) is not None:
            other = spliced.caller if client == spliced.listener else spliced.listener
            del self._splices[other]
            return [Cut(other, "other_end")]
        if (listener := self._listeners.pop(client, None)) is not None and listener.caller is not None:
            self._callers[listener.caller].listener = None
            return self._connect(listener.site, now)
        if (caller := self._callers.pop(client, None)) is not None and caller.listener is not None:
            return self._withdraw(caller.listener)
        return []

    def _withdraw(self, listener: int) -> list[Effect]:
        """Cut a listener whose caller left: its acceptance may be under way. It reconnects."""
        del self._listeners[listener]
        return [Cut(listener, "caller_gone")]

    def moved(self, client: int, size: int, now: float) -> None:
        spliced = self._splices.get(client)
        if spliced is not None:
            spliced.carried_bytes += size
            self.carried_bytes += size
            if not spliced.is_half_open:
                spliced.due = now + IDLE_S

    def ended(self, client: int, now: float) -> None:
        """Note the EOF of one side; the other has HALF_OPEN_S left."""
        spliced = self._splices.get(client)
        if spliced is not None and not spliced.is_half_open:
            spliced.is_half_open, spliced.due = True, now + HALF_OPEN_S

    def expire(self, now: float) -> list[Effect]:
        """Cut listeners that do not accept and idle splices, and reject waiting callers."""
        effects: list[Effect] = []
        for number in [each for each, caller in self._callers.items() if now >= caller.due]:
            effects.append(_nobody(number, routing.ABSENT))
            effects += self.close(number, now)
        effects += [Cut(number, "unanswered") for number, each in self._listeners.items() if now >= each.due]
        effects += [
            Cut(each.listener, "half_open" if each.is_half_open else "idle") for each in self.splices() if now >= each.due
        ]
        return effects

    def levels(self) -> dict[str, Level]:
        sites = max(1, len(self._sites))
        return {
            "listeners": Level.of(len(self._listeners), LISTENERS_MAX * sites, "relays that can be called"),
            "callers": Level.of(len(self._callers), CALLERS_MAX * sites),
            "splices": Level.of(len(self._splices) // 2, SPLICES_MAX * sites, "a link between two sites has one"),
        }


def _nobody(client: int, why: bytes) -> Say:
    return Say([client], framed(routing.NOBODY, why))
