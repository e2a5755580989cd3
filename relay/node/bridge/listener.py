"""The listener for relays of other sites, open while this member relays."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable

import trio

from relay.node.status.door import Door
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

#: Pause (s) after the system could not accept a connection, for want of descriptors for instance.
ACCEPT_RETRY_S = 0.1

#: Function that serves an accepted connection to its end.
Accept = Callable[[trio.SocketStream], Awaitable[object]]


class Listener:
    """Listens at one address. `backlog` bounds the connections that are not accepted yet."""

    def __init__(
        self, place: Physical | None, backlog: int, interval_s: float, door: Door, relieve: Callable[[], None]
    ) -> None:
        """`place`: None to never listen. `interval_s`: pause (s) between attempts while the port is taken.

        `relieve` is called when the system cannot accept a connection: it gives up what holds a descriptor and is least needed.
        """
        self.listening = False
        #: Why listening fails; empty while it works, or is not wanted.
        self.error = ""
        self._place = place
        self._backlog = backlog
        self._interval_s = interval_s
        self._door = door
        self._relieve = relieve
        self._scope: trio.CancelScope | None = None

    def start(self, accept: Accept, nursery: trio.Nursery) -> None:
        """Listen, if it does not yet, and start `accept` in this nursery for each connection."""
        if self._place is not None and self._scope is None:
            self._scope = trio.CancelScope()
            nursery.start_soon(self._serve, self._place, self._scope, accept, nursery, name=f"bridge at {self._place}")

    def stop(self) -> None:
        """Stop listening; open connections go on."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    async def _serve(self, place: Physical, scope: trio.CancelScope, accept: Accept, nursery: trio.Nursery) -> None:
        with scope:
            try:
                listener = await self._bind(place)
                self.listening = True
                await self._let_in(listener, accept, nursery)
            finally:
                self.listening = False
                self.error = ""

    async def _let_in(self, listener: trio.SocketListener, accept: Accept, nursery: trio.Nursery) -> None:
        """Serve whoever comes, until cancelled."""
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    self._door.fail(error)
                    self._relieve()
                    await trio.sleep(ACCEPT_RETRY_S)
                else:
                    nursery.start_soon(_serve, accept, stream)

    async def _bind(self, place: Physical) -> trio.SocketListener:
        """Bind the port, as soon as the system allows that.

        An earlier relay on this machine may still hold the port, paused or dying, so the port is shared. A connection that
        reaches that process gets no answer, and the other side dials again.
        """
        while True:
            try:
                listener = await self._try(place)
            except (OSError, ValueError) as error:  # a ValueError is for what cannot be the name of a host
                self.error = f"cannot listen on {place}: {getattr(error, 'strerror', None) or error}"
                await trio.sleep(self._interval_s)
            else:
                self.error = ""
                return listener

    async def _try(self, place: Physical) -> trio.SocketListener:
        sock = await _bind(place)
        try:
            sock.listen(self._backlog)
        except BaseException:
            sock.close()
            raise
        return trio.SocketListener(sock)


async def require_free(place: Physical | None) -> None:
    """Raise ConfigurationError if another program holds this port, or one that may not be had.

    Asked before the member joins: every member may become the relay, and should not learn then that it cannot be called.
    What may pass by itself, such as an address that this machine gets later, is told and tried again when it listens.
    """
    if place is None:
        return
    try:
        (await _bind(place)).close()
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigurationError(f"relay.bridge.bind: cannot listen on {place}: {os.strerror(error.errno)}.") from error
    except ValueError:  # what cannot be the name of a host; as above
        return


async def _bind(place: Physical) -> trio.socket.SocketType:
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        await sock.bind(place)
    except BaseException:
        sock.close()
        raise
    return sock


async def _serve(accept: Accept, stream: trio.SocketStream) -> None:
    try:
        await accept(stream)
    finally:
        await trio.aclose_forcefully(stream)
