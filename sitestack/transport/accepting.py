"""Accept connections: one loop for every TCP and Unix listener of a process."""

from __future__ import annotations

import math
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NoReturn

import trio

from sitestack.log import log
from sitestack.model.address import Physical
from sitestack.transport.interfaces import make_socket, not_bound
from sitestack.transport.places import Places

#: Pause (s) after a failure of the system to accept a connection, for example without descriptors.
ACCEPT_PAUSE_S = 0.1
Serve = Callable[[trio.SocketStream], Awaitable[object]]


@dataclass(slots=True)
class Admissions:
    """Counts the callers that a listener rejected, with the reason for the last one."""

    #: Why the last caller was rejected; empty if it was admitted.
    trouble: str = ""
    #: Number of rejected callers, and of failed attempts to accept one.
    refused: int = 0

    def admit(self) -> None:
        self.trouble = ""

    def refuse(self, why: str) -> None:
        self.trouble = why
        self.refused += 1


async def accept_bounded(
    listener: trio.SocketListener,
    serve: Serve,
    nursery: trio.Nursery,
    *,
    name: str,
    connections_max: int,
    admissions: Admissions | None = None,
    relieve: Callable[[], object] = lambda: None,
) -> NoReturn:
    """Serve each connection in a task of this nursery, named `name`, until cancelled.

    While `connections_max` are served, others wait in the system's listen queue. With `Places` the
    bound counts unproven callers twice, as many may be closing.

    If the system cannot accept, log the first failure of a row and pause. `relieve` closes the
    least needed descriptor.
    """
    free, failing = trio.Semaphore(connections_max), False

    async def serve_one(stream: trio.SocketStream) -> None:
        try:
            await serve(stream)
        finally:
            free.release()

    while True:
        try:
            free.acquire_nowait()  # no checkpoint: the system's queue must not fill
        except trio.WouldBlock:
            await free.acquire()
        try:
            stream = await listener.accept()
        except OSError as error:
            free.release()
            why = error.strerror or str(error)
            if admissions is not None:
                admissions.refuse(why)
            if not failing:
                log.warning("cannot accept connections", listener=name, why=why)
            failing = True
            relieve()
            await trio.sleep(ACCEPT_PAUSE_S)
        else:
            failing = False
            nursery.start_soon(serve_one, stream, name=name)


def listen_tcp(bind: Physical, backlog: int, what: str) -> socket.socket:
    """Return a listening socket. Raises ConfigurationError whose message begins with `what`."""
    with ExitStack() as opened:
        try:
            sock = opened.enter_context(make_socket(bind.host, socket.SOCK_STREAM, also_ipv4=True))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(bind)
            sock.listen(backlog)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise not_bound(error, f"{what}: cannot listen on {bind}: {why}.") from error
        opened.pop_all()
    return sock


@contextmanager
def hold_place(places: Places[trio.CancelScope], host: str = "", timeout_s: float = math.inf) -> Iterator[None]:
    """Hold a place for the block. It is cancelled after `timeout_s` (s) or when a newer caller needs it."""
    with trio.CancelScope(deadline=trio.current_time() + timeout_s) as scope:
        for each in places.enter(scope, host):
            each.cancel()
        try:
            yield
        finally:
            places.leave(scope)


def peer_host(stream: trio.SocketStream) -> str:
    """Return the address of the other end; empty if the connection is closed or has none."""
    try:
        return str(stream.socket.getpeername()[0])
    except (OSError, IndexError):
        return ""
