"""Listener for relays of other sites, open while this member relays."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

import trio

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport.accepting import Admissions, Serve, accept_bounded
from sitestack.transport.interfaces import make_socket


class Listener:
    """Listener at one address.

    `connections_max` bounds the accepted and the waiting connections.
    """

    def __init__(
        self,
        place: Physical | None,
        connections_max: int,
        interval_s: float,
        admissions: Admissions,
        relieve: Callable[[], None],
    ) -> None:
        """`place`: None disables it. `interval_s`: pause (s) between attempts while the port is in
        use. `relieve`: see `accept_bounded`.
        """
        self.listening = False
        self.error = ""
        self._place = place
        self._connections_max = connections_max
        self._interval_s = interval_s
        self._admissions = admissions
        self._relieve = relieve
        self._scope: trio.CancelScope | None = None

    def start_listening(self, serve: Serve, nursery: trio.Nursery) -> None:
        if self._place is not None and self._scope is None:
            self._scope = trio.CancelScope()
            nursery.start_soon(self._serve, self._place, self._scope, serve, nursery, name=f"bridge at {self._place}")

    def stop_listening(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    async def _serve(self, place: Physical, scope: trio.CancelScope, serve: Serve, nursery: trio.Nursery) -> None:
        with scope:
            try:
                async with await self._bind(place) as listener:
                    self.listening = True
                    await accept_bounded(
                        listener,
                        serve,
                        nursery,
                        name=f"caller of the bridge at {place}",
                        connections_max=self._connections_max,
                        admissions=self._admissions,
                        relieve=self._relieve,
                    )
            finally:
                self.listening = False
                self.error = ""

    async def _bind(self, place: Physical) -> trio.SocketListener:
        """Bind the port, and retry until the system allows it.

        An earlier relay on this machine may still hold the port, so the port is shared.
        """
        while True:
            try:
                listener = trio.SocketListener(await _bind(place, self._connections_max))
            except (OSError, ValueError) as error:  # an invalid host name
                self.error = f"cannot listen on {place}: {getattr(error, 'strerror', None) or error}"
                await trio.sleep(self._interval_s)
            else:
                self.error = ""
                return listener


async def require_free(place: Physical | None) -> None:
    """Raise ConfigurationError if the port is in use or not permitted.

    Any member may become the relay, so each checks this before it joins. Other errors may be
    temporary.
    """
    if place is None:
        return
    try:
        (await _bind(place)).close()
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigurationError(f"relay.bridge.bind: cannot listen on {place}: {os.strerror(error.errno)}.") from error
    except ValueError:  # invalid host name: listening reports it
        return


async def _bind(place: Physical, waiting_max: int = 0) -> trio.socket.SocketType:
    """Return a bound socket, which listens if `waiting_max` connections may wait."""
    sock = trio.socket.from_stdlib_socket(make_socket(place.host, socket.SOCK_STREAM, also_ipv4=True))
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        await sock.bind(place)
        if waiting_max:
            sock.listen(waiting_max)
    except BaseException:
        sock.close()
        raise
    return sock
