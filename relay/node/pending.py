"""Pending connections: those whose other end has not proved its site yet.

Whoever reaches the port can make them, so they are bounded apart from the links, in number, time, and number from one host. At
a bound the oldest gives way: a relay needs a few round trips to prove itself, and whoever only holds a place is pushed out.
"""

from __future__ import annotations

import ssl
from collections import Counter

import trio

from relay.node.tls import TlsStream, Unproven, prove


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
        host = _host(stream)
        self._make_room(host)
        with trio.CancelScope() as scope:
            self._hosts[scope] = host
            try:
                return await prove(stream, context, server=True, timeout_s=self._handshake_s)
            finally:
                self._hosts.pop(scope, None)
        raise PushedOut("it gave way to newer callers")

    def push_out(self) -> None:
        """Close the oldest pending connection of the host that has the most."""
        if self._hosts:
            [(host, _)] = Counter(self._hosts.values()).most_common(1)
            self._push_out_of(host)

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


def _host(stream: trio.SocketStream) -> str:
    """The address at the other end; empty when that is gone already."""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""
