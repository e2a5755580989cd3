"""Pending connections: those whose other end has not proved its site yet or, without certificates, has not said HELLO.

Whoever reaches the port can make them, so they are bounded apart from the links, in number, time, and number from one host. At
a bound the oldest gives way: a relay needs a few round trips to prove itself, and whoever only holds a place is pushed out.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from relay.gateway.wire import HELLO_BYTES_MAX, FrameParser, Hello
from relay.node.bridge.tls import TlsStream, Unproven, prove
from sitestack.model.errors import ProtocolError

_GAVE_WAY = "it gave way to newer callers"


class PushedOut(Unproven):
    """The connection gave way to a newer one."""


class Pending:
    """Bounds: `pending_max` connections at a time, a quarter of them from one host, each for `handshake_s`."""

    def __init__(self, pending_max: int, handshake_s: float) -> None:
        #: Number of connections that gave way to newer ones.
        self.pushed_out = 0
        self._pending_max = pending_max
        self._host_max = max(1, pending_max // 4)
        self._handshake_s = handshake_s
        #: The scope of each pending connection -> the host at its other end, the oldest first.
        self._hosts: dict[trio.CancelScope, str] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    async def prove(self, stream: trio.SocketStream, context: ssl.SSLContext) -> tuple[TlsStream, str]:
        """Have the caller prove its site; returns that and the stream to go on with. Raises Unproven."""
        with self._place(stream):
            return await prove(stream, context, server=True, timeout_s=self._handshake_s)
        raise PushedOut(_GAVE_WAY)

    async def hear_hello(self, stream: trio.SocketStream) -> bytes:
        """Wait for the HELLO of a caller that has nothing to prove; returns all that it has said. Raises Unproven.

        It costs a relay no time: whoever calls says HELLO at once.
        """
        with self._place(stream):
            with trio.move_on_after(self._handshake_s):
                return await _first_words(stream)
            raise Unproven(f"it said no HELLO within {self._handshake_s:g} s")
        raise PushedOut(_GAVE_WAY)

    def push_out(self) -> None:
        """Close the oldest pending connection of the host that has the most."""
        if self._hosts:
            [(host, _)] = Counter(self._hosts.values()).most_common(1)
            self._push_out_of(host)

    @contextmanager
    def _place(self, stream: trio.SocketStream) -> Iterator[None]:
        """A place among the pending ones, for as long as the block takes, or until it is given to a newer caller."""
        host = _host(stream)
        self._make_room(host)
        with trio.CancelScope() as scope:
            self._hosts[scope] = host
            try:
                yield
            finally:
                self._hosts.pop(scope, None)

    def _make_room(self, host: str) -> None:
        if sum(each == host for each in self._hosts.values()) >= self._host_max:
            self._push_out_of(host)
        if len(self._hosts) >= self._pending_max:
            self.push_out()

    def _push_out_of(self, host: str) -> None:
        oldest = next(scope for scope, each in self._hosts.items() if each == host)
        del self._hosts[oldest]
        self.pushed_out += 1
        oldest.cancel()


async def _first_words(stream: trio.SocketStream) -> bytes:
    """What has come when HELLO is whole. Raises Unproven for anything else. Bound: a HELLO, and what is read at once."""
    parser, said = FrameParser(HELLO_BYTES_MAX), bytearray()
    try:
        while data := await stream.receive_some(HELLO_BYTES_MAX):
            said += data
            parser.feed(data)
            if (frame := parser.next_frame()) is not None:
                if isinstance(frame, Hello):
                    return bytes(said)
                break
        else:
            raise Unproven("it ended the connection")
    except trio.BrokenResourceError as error:
        raise Unproven("it broke the connection off") from error
    except ProtocolError:
        pass
    raise Unproven("it said something else than HELLO")


def _host(stream: trio.SocketStream) -> str:
    """The address at the other end; empty when that is gone already."""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""
