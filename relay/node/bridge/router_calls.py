"""Connections through gossip routers, for relays that cannot accept connections.

A relay waits at each router, and calls other relays there. Both relays prove their sites on the
resulting connection. A waiting connection serves one call.
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
#: Seconds between pings of a waiting relay, and unanswered pings before the router is dead.
PING_S, PINGS_MAX = 1.0, 2
#: Bounds of the pause (s) before the next attempt to wait, plus or minus a half.
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
_SIZE = struct.Struct("<I")
#: Reason in a `NOBODY` frame -> meaning.
_MEANINGS = {
    routing.ABSENT: "no relay of {site} waits there",
    routing.UNSERVED: "it does not serve {site}: start it with the file of that site, too",
    routing.FULL: "it has no room for more calls",
}


class RouterFailed(OSError):
    """The router is unusable; the argument is the reason."""


class RouterConversation:
    """Frames on one connection. Reads no byte beyond the frame, which may belong to the peer."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._arrived = bytearray()

    async def greet(self, site: str, proofs: Proofs | None) -> None:
        """Exchange proofs of a key of the site. Raises RouterFailed."""
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
        """Return the next frame; after a cancellation, the next call continues. Raises RouterFailed."""
        await self._arrive(_SIZE.size)
        (size,) = _SIZE.unpack_from(self._arrived)
        if not 0 < size <= bytes_max:
            raise RouterFailed("it does not use the router protocol")
        await self._arrive(_SIZE.size + size)
        frame = bytes(self._arrived[_SIZE.size :])
        self._arrived.clear()
        return frame

    async def _arrive(self, size: int) -> None:
        try:
            while (missing := size - len(self._arrived)) > 0:
                if not (data := await self.stream.receive_some(missing)):
                    raise RouterFailed("it closed the connection")
                self._arrived += data
        except trio.BrokenResourceError as error:
            raise RouterFailed("the connection broke") from error


@asynccontextmanager
async def conversation(place: Physical, site: str, proofs: Proofs | None) -> AsyncIterator[RouterConversation]:
    """Connect to a router, and exchange proofs. The stream stays open if the block completes.

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
            raise RouterFailed("it does not use the router protocol") from error
        raise


async def _connect(place: Physical) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(place.host, place.port)
    except (OSError, ValueError, RuntimeError) as error:  # an invalid host, or no thread
        cause: BaseException = error.__cause__ or error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        number = cause.errno if isinstance(cause, OSError) else None
        raise RouterFailed(os.strerror(number).lower() if number and number > 0 else str(cause)) from error


async def call(place: Physical, site: str, proofs: Proofs | None, called: str) -> trio.SocketStream:
    """Connect to a relay of the site `called` through the router at this place.

    Raises RouterFailed.
    """
    async with conversation(place, site, proofs) as talk:
        await talk.say(routing.CALL, called.encode())
        answer = await talk.frame()
        if answer[:1] == routing.NOBODY:
            raise RouterFailed(_MEANINGS.get(answer[1:], "it does not use the router protocol").format(site=called))
        if answer != routing.SPLICED:
            raise RouterFailed("it does not use the router protocol")
    return talk.stream


class RouterCalls:
    """Routers of one relay. Bound: one waiting connection at each. The bridge bounds the others."""

    def __init__(self, places: Sequence[Physical], site: str, proofs: Proofs | None) -> None:
        self._places = places
        self._site = site
        self._proofs = proofs
        self._scopes: list[trio.CancelScope] = []
        self._waiting: set[Physical] = set()
        #: Router -> error of waiting there, or of calling a site that it does not serve.
        self._troubles: dict[Physical, str] = {}
        self._unserved: dict[Physical, str] = {}

    def __contains__(self, place: Physical) -> bool:
        return place in self._places

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def problem(self) -> str:
        found = {**self._unserved, **self._troubles}
        troubles = [f"{place} ({found[place]})" for place in self._places if place in found]
        return f"no connections through {', '.join(troubles)}" if troubles else ""

    def start_waiting(self, serve: Serve, nursery: trio.Nursery) -> None:
        for place in () if self._scopes else self._places:
            self._scopes.append(trio.CancelScope())
            nursery.start_soon(self._wait_at, place, self._scopes[-1], serve, nursery, name=f"called by way of {place}")

    def stop_waiting(self) -> None:
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()
        self._unserved.clear()

    async def call(self, place: Physical, site: str) -> trio.SocketStream:
        """Connect to a relay of a site through the router at this place. Raises RouterFailed."""
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
                    self._unserved.pop(place, None)
                    self._troubles[place] = str(error)
                    await trio.sleep(pause_s * random.uniform(0.5, 1.5))
                else:
                    nursery.start_soon(serve, stream)
        self._waiting.discard(place)
        self._troubles.pop(place, None)

    async def _be_called(self, place: Physical) -> trio.SocketStream:
        """Wait at a router for a call, and return the connection. Raises RouterFailed."""
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
                raise RouterFailed("it does not use the router protocol")
            continue
        if unanswered == PINGS_MAX:
            raise RouterFailed("it no longer answers")
        unanswered += 1
        await talk.say(routing.PING)
