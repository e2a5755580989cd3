"""The switchboard: splices the connections of two relays whose sites both can only call, so that they are one connection.

A relay has a connection wait here for the next call. One that calls is given the connection of the site that has waited
longest; when that accepts, both leave the switchboard's hands but for its clock. What they say is TLS between the two, of which
nothing is read here.

Everything has a bound and an end: a listener that does not accept is cut and the next one asked, a caller that nobody takes is
told so, and a splice ends with either of its connections, when nothing moves on it, or soon after one end has ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from relay.router.effects import Cut, Effect, Say, Splice
from sitestack.model.errors import ProtocolError
from sitestack.model.level import Level
from sitestack.wire import routing
from sitestack.wire.routing import framed

#: Connections of one site that wait to be called; for one more the oldest is cut, whose end was perhaps not noticed.
LISTENERS_MAX = 8
#: Callers of one site that wait for a listener, and splices of its callers; one more is told that there is no room.
CALLERS_MAX = 64
SPLICES_MAX = 128
#: Seconds in which a listener accepts, and after which a caller is told that there is nobody: enough for a listener that has
#: just been called to have its next connection wait.
ACCEPT_S = 1.0
CALL_S = 2.0
#: Seconds after which a splice on which nothing moves is cut. The heartbeats of a link are far more frequent.
IDLE_S = 60.0
#: Seconds that one end has left when the other one has ended.
HALF_OPEN_S = 10.0


@dataclass(slots=True)
class _Listener:
    """A connection that waits to be called. `caller`: whom it is asked to accept, until `due`."""

    site: str
    caller: int | None = None
    due: float = inf


@dataclass(slots=True)
class _Caller:
    """A connection whose relay calls a site, until `due`. `listener`: who is asked to accept it."""

    site: str
    called: str
    due: float
    listener: int | None = None


@dataclass(slots=True)
class Spliced:
    """Two connections that are one, and the sites of their relays."""

    listener: int
    caller: int
    called_site: str
    calling_site: str
    since: float
    #: When it is cut, unless something moves.
    due: float
    carried_bytes: int = 0
    is_half_open: bool = False


class Switchboard:
    """The relays that wait, those that call, and the splices. It answers with effects; a `Cut` is followed by `close`."""

    def __init__(self, sites: Collection[str]) -> None:
        """`sites`: those whose relays may be called."""
        self.calls = self.spliced = self.carried_bytes = 0
        self._sites = sites
        #: Both in the order in which they came.
        self._listeners: dict[int, _Listener] = {}
        self._callers: dict[int, _Caller] = {}
        #: Each of the two connections -> what they are.
        self._splices: dict[int, Spliced] = {}

    def __contains__(self, client: int) -> bool:
        """Whether this connection has a part here, and so none as a member."""
        return client in self._listeners or client in self._callers or client in self._splices

    def is_spliced(self, client: int) -> bool:
        """Whether this connection is one of two that are one."""
        return client in self._splices

    def is_called(self, client: int) -> bool:
        """Whether this listener has been asked to accept a caller: it is told nothing else before it has."""
        return client in self._listeners and self._listeners[client].caller is not None

    def splices(self) -> list[Spliced]:
        """All splices, the oldest first."""
        return [each for client, each in self._splices.items() if client == each.listener]

    # -- what relays say -----------------------------------------------------------------------------------------------

    def listen(self, client: int, site: str, now: float) -> list[Effect]:
        """A relay of this site waits on this connection to be called."""
        effects: list[Effect] = []
        waiting = [number for number, each in self._listeners.items() if each.site == site]
        if len(waiting) >= LISTENERS_MAX:
            effects.append(Cut(waiting[0], "listeners"))
        self._listeners[client] = _Listener(site)
        return [*effects, *self._connect(site, now)]

    def call(self, client: int, site: str, called: str, now: float) -> list[Effect]:
        """A relay of a site calls another site on this connection."""
        self.calls += 1
        if called not in self._sites:
            return [_nobody(client, routing.UNSERVED)]
        waiting = sum(each.site == site for each in self._callers.values())
        if waiting >= CALLERS_MAX or waiting + sum(each.calling_site == site for each in self.splices()) >= SPLICES_MAX:
            return [_nobody(client, routing.FULL)]
        self._callers[client] = _Caller(site, called, now + CALL_S)
        return self._connect(called, now)

    def accept(self, client: int, now: float) -> list[Effect]:
        """A listener takes the call. Raises ProtocolError when it was not called."""
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
        """Ask listeners of a site to accept those who call it, in the order in which both came."""
        free = [number for number, each in self._listeners.items() if each.site == site and each.caller is None]
        calling = [number for number, each in self._callers.items() if each.called == site and each.listener is None]
        effects: list[Effect] = []
        for number, caller in zip(free, calling, strict=False):
            listener, call = self._listeners[number], self._callers[caller]
            listener.caller, listener.due, call.listener = caller, now + ACCEPT_S, number
            effects.append(Say([number], framed(routing.CALLED, call.site.encode())))
        return effects

    # -- what happens to connections -----------------------------------------------------------------------------------

    def close(self, client: int, now: float) -> list[Effect]:
        """A connection is gone. The other one of its splice is cut; who was to be connected with it waits for another one."""
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
        """Whoever called this listener is gone. It may have accepted already, so that it cannot be told: it comes again."""
        del self._listeners[listener]
        return [Cut(listener, "caller_gone")]

    def moved(self, client: int, size: int, now: float) -> None:
        """So many bytes of this connection were taken by the other one."""
        spliced = self._splices.get(client)
        if spliced is not None:
            spliced.carried_bytes += size
            self.carried_bytes += size
            if not spliced.is_half_open:
                spliced.due = now + IDLE_S

    def ended(self, client: int, now: float) -> None:
        """This connection will say nothing more. The other one may, for a while."""
        spliced = self._splices.get(client)
        if spliced is not None and not spliced.is_half_open:
            spliced.is_half_open, spliced.due = True, now + HALF_OPEN_S

    def expire(self, now: float) -> list[Effect]:
        """Cut what does not accept and what does not move, and tell callers that there is nobody."""
        effects: list[Effect] = []
        for number in [each for each, caller in self._callers.items() if now >= caller.due]:
            effects.append(_nobody(number, routing.ABSENT))
            effects += self.close(number, now)
        effects += [Cut(number, "unanswered") for number, each in self._listeners.items() if now >= each.due]
        effects += [
            Cut(each.listener, "half_open" if each.is_half_open else "idle") for each in self.splices() if now >= each.due
        ]
        return effects

    def deadline(self) -> float:
        """When something expires."""
        tables = (self._listeners, self._callers, self._splices)
        return min([each.due for table in tables for each in table.values()], default=inf)

    def levels(self) -> dict[str, Level]:
        """Who waits to be called, who calls, and what is spliced."""
        sites = max(1, len(self._sites))
        return {
            "listeners": Level.of(len(self._listeners), LISTENERS_MAX * sites, "relays that can be called"),
            "callers": Level.of(len(self._callers), CALLERS_MAX * sites),
            "splices": Level.of(len(self._splices) // 2, SPLICES_MAX * sites, "a link between two sites has one"),
        }


def _nobody(client: int, why: bytes) -> Say:
    return Say([client], framed(routing.NOBODY, why))
