"""The bridge by way of gossip routers, for relays that can only call: they wait at each to be called, and call others there.

What comes of it is a TCP connection like any other, on which the two relays prove their sites to each other: the router passes
on what it cannot read. A connection that waits is good for one call, so the next one is made as soon as it has been taken.
"""

from __future__ import annotations

import os
import random
import secrets
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from sitestack.model.address import Physical
from sitestack.model.errors import ProtocolError
from sitestack.seal.proofs import NONCE_BYTES, Proofs
from sitestack.transport.accepting import Serve
from sitestack.wire import routing
from sitestack.wire.routing import framed

#: Seconds for connecting and for the proofs.
GREETING_TIMEOUT_S = 2.0
#: How often a relay that waits says that it is there, and how often in vain before it takes the router for dead.
PING_S, PINGS_MAX = 1.0, 2
#: Pauses before the next attempt to wait at a router, give or take a half.
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
_SIZE = struct.Struct("<I")
#: What a router means by NOBODY.
_MEANINGS = {
    routing.ABSENT: "no relay of {site} waits there",
    routing.UNSERVED: "it does not serve {site}: start it with the file of that site, too",
    routing.FULL: "it has no room for more calls",
}


class RouterFailed(OSError):
    """A router is of no use now; the words say why."""


class RouterConversation:
    """The frames on one connection. No byte is read beyond the frame that was asked for: it may be somebody else's."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._arrived = bytearray()

    async def greet(self, site: str, proofs: Proofs | None) -> None:
        """Both prove that they have a key of the site. Raises RouterFailed."""
        theirs, mine = routing.read_challenge(await self.frame()), secrets.token_bytes(NONCE_BYTES)
        await self.say(routing.hello(site, proofs, theirs, mine))
        try:
            welcome = await self.frame()
        except RouterFailed:
            raise RouterFailed(f"it does not serve {site}, or has no key of it") from None
        if not routing.is_welcome(welcome, proofs, theirs, mine):
            raise RouterFailed(f"it does not prove that it has a key of {site}")

    async def say(self, *parts: bytes) -> None:
        """Send a frame. Raises RouterFailed."""
        try:
            await self.stream.send_all(framed(*parts))
        except trio.BrokenResourceError as error:
            raise RouterFailed("the connection broke") from error

    async def frame(self, bytes_max: int = routing.GREETING_BYTES_MAX) -> bytes:
        """The next frame. Raises RouterFailed. Cancelled, it loses nothing: the frame goes on arriving at the next call."""
        await self._arrive(_SIZE.size)
        (size,) = _SIZE.unpack_from(self._arrived)
        if not 0 < size <= bytes_max:
            raise RouterFailed("it says what no router says")
        await self._arrive(_SIZE.size + size)
        frame = bytes(self._arrived[_SIZE.size :])
        self._arrived.clear()
        return frame

    async def _arrive(self, size: int) -> None:
        try:
            while (missing := size - len(self._arrived)) > 0:
                if not (data := await self.stream.receive_some(missing)):
                    raise RouterFailed("it has closed the connection")
                self._arrived += data
        except trio.BrokenResourceError as error:
            raise RouterFailed("the connection broke") from error


@asynccontextmanager
async def conversation(place: Physical, site: str, proofs: Proofs | None) -> AsyncIterator[RouterConversation]:
    """A connection to a router, which both have proved to belong to the site; closed unless the block comes to its end.

    Raises RouterFailed.
    """
    stream: trio.SocketStream | None = None
    try:
        with trio.move_on_after(GREETING_TIMEOUT_S) as scope:
            stream = await _connect(place)
            talk = RouterConversation(stream)
            await talk.greet(site, proofs)
        if scope.cancelled_caught or stream is None:
            raise RouterFailed("it does not answer")
        yield talk
    except BaseException as error:
        if stream is not None:
            await trio.aclose_forcefully(stream)
        if isinstance(error, ProtocolError):
            raise RouterFailed("it says what no router says") from error
        raise


async def _connect(place: Physical) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(place.host, place.port)
    except (OSError, ValueError) as error:  # a ValueError is for what cannot be the name of a host
        cause: BaseException = error.__cause__ or error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        number = cause.errno if isinstance(cause, OSError) else None
        raise RouterFailed(os.strerror(number).lower() if number and number > 0 else str(cause)) from error


async def call(place: Physical, site: str, proofs: Proofs | None, called: str) -> trio.SocketStream:
    """A connection to a relay of the site `called`, by way of the router at this place. Raises RouterFailed."""
    async with conversation(place, site, proofs) as talk:
        await talk.say(routing.CALL, called.encode())
        answer = await talk.frame()
        if answer[:1] == routing.NOBODY:
            raise RouterFailed(_MEANINGS.get(answer[1:], "it says what no router says").format(site=called))
        if answer != routing.SPLICED:
            raise RouterFailed("it says what no router says")
    return talk.stream


class RouterCalls:
    """The routers of one relay. Bound: one connection that waits at each; those that are taken are the bridge's."""

    def __init__(self, places: Sequence[Physical], site: str, proofs: Proofs | None) -> None:
        self._places = places
        self._site = site
        self._proofs = proofs
        #: One for each task that waits; empty while none does.
        self._scopes: list[trio.CancelScope] = []
        #: The routers at which this relay can be called now.
        self._waiting: set[Physical] = set()
        #: Why it cannot be called at a router, and why a site cannot be called there whatever its relay does.
        self._troubles: dict[Physical, str] = {}
        self._unserved: dict[Physical, str] = {}

    def __contains__(self, place: Physical) -> bool:
        """Whether a router is at this place, and no relay."""
        return place in self._places

    @property
    def waiting(self) -> int:
        """Number of routers at which this relay can be called."""
        return len(self._waiting)

    def problem(self) -> str:
        """A sentence's end on the routers that are of no use now; empty when all are."""
        found = {**self._unserved, **self._troubles}
        troubles = [f"{place} ({found[place]})" for place in self._places if place in found]
        return f"no connections by way of {', '.join(troubles)}" if troubles else ""

    def start_waiting(self, serve: Serve, nursery: trio.Nursery) -> None:
        """Wait at all routers to be called, if it does not yet, and serve each connection in this nursery."""
        for place in () if self._scopes else self._places:
            self._scopes.append(trio.CancelScope())
            nursery.start_soon(self._wait_at, place, self._scopes[-1], serve, nursery, name=f"called by way of {place}")

    def stop_waiting(self) -> None:
        """Be called no more; connections that were taken go on."""
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()

    async def call(self, place: Physical, site: str) -> trio.SocketStream:
        """A connection to a relay of a site, by way of the router at this place. Raises RouterFailed."""
        self._unserved.pop(place, None)
        try:
            return await call(place, self._site, self._proofs, site)
        except RouterFailed as error:
            if str(error) == _MEANINGS[routing.UNSERVED].format(site=site):
                self._unserved[place] = str(error)
            raise

    async def _wait_at(self, place: Physical, scope: trio.CancelScope, serve: Serve, nursery: trio.Nursery) -> None:
        pause_s = PAUSE_S
        with scope:
            while True:
                try:
                    stream = await self._be_called(place)
                except RouterFailed as error:
                    pause_s = PAUSE_S if place in self._waiting else min(2 * pause_s, PAUSE_S_MAX)
                    self._waiting.discard(place)
                    self._troubles[place] = str(error)
                    await trio.sleep(pause_s * random.uniform(0.5, 1.5))
                else:
                    nursery.start_soon(serve, stream)
        self._waiting.discard(place)
        self._troubles.pop(place, None)

    async def _be_called(self, place: Physical) -> trio.SocketStream:
        """Wait at a router until a relay calls; the connection to that. Raises RouterFailed."""
        async with conversation(place, self._site, self._proofs) as talk:
            await talk.say(routing.LISTEN)
            self._waiting.add(place)
            self._troubles.pop(place, None)
            await _wait_for_call(talk)
            await talk.say(routing.ACCEPT)
        return talk.stream


async def _wait_for_call(talk: RouterConversation) -> None:
    unanswered = 0
    while True:
        with trio.move_on_after(PING_S):
            frame = await talk.frame()
            unanswered = 0
            if frame[:1] == routing.CALLED:
                return
            if frame != routing.PONG:
                raise RouterFailed("it says what no router says")
            continue
        if unanswered == PINGS_MAX:
            raise RouterFailed("it does not answer any more")
        unanswered += 1
        await talk.say(routing.PING)
