"""Filter before the HTTP library: it passes whole, small requests, and bodies only on listed paths.

The guard rejects text that both could parse differently, such as a line without a carriage return.
"""

from __future__ import annotations

import re
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import trio

from relay.node.http.token import TOKEN_REQUIRED, Tokens
from sitestack.model.level import Level

#: Maximum bytes of one request's line and headers.
HEAD_BYTES_MAX = 8_192
#: Bytes of a body or answer to be transferred within the timeout.
PIECE_BYTES = 64 << 10
_READ_BYTES = 16_384
_HEAD_END = b"\r\n\r\n"
#: Characters that end or continue a line for some parsers only.
_AMBIGUOUS = re.compile(rb"[\0\r\n]|^[ \t]")
_METHODS = (b"GET", b"HEAD")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODY, _OTHER_PROTOCOL = (b"content-length", b"transfer-encoding", b"expect"), (b"upgrade", b"http2-settings")


#: Paths that are answered even beyond the bound.
PROBES = (b"/healthz", b"/readyz")


class Refused(Exception):
    """The request is rejected: status code and reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status, self.why = status, why


class Head:
    """Line and headers of an accepted request. Raises Refused."""

    def __init__(self, head: bytes, bodies: Mapping[bytes, int]) -> None:
        """`head` ends with an empty line. `bodies`: path -> maximum bytes of a body."""
        self._lines = head.removesuffix(_HEAD_END).split(b"\r\n")
        if any(_AMBIGUOUS.search(line) for line in self._lines):
            raise Refused(400, "The head of the request is ambiguous.")
        headers = [
            (name.strip().lower(), value.strip()) for name, _, value in (each.partition(b":") for each in self._lines[1:])
        ]
        names = {name for name, _ in headers}
        method, _, target = self._lines[0].partition(b" ")
        self.path = target.partition(b" ")[0].partition(b"?")[0]
        bytes_max = bodies.get(self.path) if method == b"POST" else None
        if method not in _METHODS and bytes_max is None:
            raise Refused(405, "The method is not allowed here.")
        if bytes_max is None and names.intersection(_BODY):
            raise Refused(413, "The request must have no body.")
        if names.intersection(_OTHER_PROTOCOL):
            raise Refused(400, "The request asks for another protocol.")
        self.waits = b"expect" in names
        self.authorization = dict(headers).get(b"authorization", b"").decode("latin-1")
        self.body_bytes = 0 if bytes_max is None else _length(headers, bytes_max)

    def encode(self) -> bytes:
        """Return the head for the library, without `Expect`."""
        lines = [each for each in self._lines if each.partition(b":")[0].strip().lower() != b"expect"]
        return b"\r\n".join(lines) + _HEAD_END


def _length(headers: list[tuple[bytes, bytes]], bytes_max: int) -> int:
    """Return the length of a body. Raises Refused, also for a missing length."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in headers) or not lengths:
        raise Refused(411, "Content-Length is required.")
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise Refused(400, "Content-Length is not a number.")
    if len(lengths[0]) > 10 or int(lengths[0]) > bytes_max:
        raise Refused(413, f"The body must have at most {bytes_max} bytes.")
    return int(lengths[0])


class GuardedStream:
    """Stream of one connection for the library, until `refused` has a rejection.

    Bound: one request and one read. A body or an answer must transfer each `PIECE_BYTES` within
    `piece_timeout_s`.
    """

    def __init__(
        self,
        stream: trio.SocketStream,
        piece_timeout_s: float,
        bodies: Mapping[bytes, int],
        held: Level | None = None,
        tls: ssl.SSLContext | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """`held`: bytes of the bodies of all connections, against their bound. With `tokens` a body needs one."""
        self.socket = stream.socket
        self.refused: Refused | None = None
        #: Why there is no place, except for probes; empty if there is one.
        self.crowded = ""
        #: Covers the library, which a rejection cancels.
        self.scope = trio.CancelScope()
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = (
            stream if tls is None else trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        )
        self._held = Level(None, "bodies of requests") if held is None else held
        self._tokens = tokens
        #: Bytes of the body of each unanswered request, the oldest first.
        self._body_bytes = deque[int]()
        self._piece_timeout_s = piece_timeout_s
        self._bodies = bodies
        self._arrived = bytearray()
        #: The library then counts the connection as idle.
        self._in_body = False
        self._ended = False

    async def shake_hands(self) -> bool:
        """Return whether the client has completed any TLS handshake in time."""
        if isinstance(self._stream, trio.SSLStream):
            with trio.move_on_after(self._piece_timeout_s), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.do_handshake()
                return True
            return False
        return True

    async def receive_some(self, _max_bytes: int | None = None) -> bytes:
        """Return the next whole request, or nothing after the last one."""
        while True:
            at = self._arrived.find(_HEAD_END)
            if (at if at >= 0 else len(self._arrived)) > HEAD_BYTES_MAX - len(_HEAD_END):
                self._refuse(Refused(431, f"The head of a request must have at most {HEAD_BYTES_MAX} bytes."))
            elif at >= 0:
                head = bytes(self._arrived[: at + len(_HEAD_END)])
                del self._arrived[: len(head)]
                return await self._complete(head)
            await trio.lowlevel.checkpoint()
            if not await self._read():
                return b""

    async def _complete(self, encoded: bytes) -> bytes:
        try:
            head = Head(encoded, self._bodies)
            if self.crowded and head.path not in PROBES:
                raise Refused(503, f"Retry later: {self.crowded}.")
            if head.body_bytes and self._tokens is not None and self._tokens.find(head.authorization) is None:
                raise Refused(401, TOKEN_REQUIRED)
            self._hold(head.body_bytes)
        except Refused as refused:
            self._refuse(refused)
            await trio.lowlevel.checkpoint()
            return encoded
        if head.waits:
            with suppress(trio.BrokenResourceError):
                await self.send_all(_CONTINUE)
        if not await self._await_body(head.body_bytes):
            return b""
        body = bytes(self._arrived[: head.body_bytes])
        del self._arrived[: head.body_bytes]
        await trio.lowlevel.checkpoint()
        return head.encode() + body

    async def _await_body(self, size: int) -> bool:
        """Return whether this many bytes have arrived, each piece in time."""
        self._in_body = True
        try:
            while len(self._arrived) < size:
                wanted = min(len(self._arrived) + PIECE_BYTES, size)
                with trio.move_on_after(self._piece_timeout_s) as arriving:
                    while len(self._arrived) < wanted:
                        if not await self._read():
                            return False
                if arriving.cancelled_caught:
                    self._refuse(Refused(408, "The body came too slowly; nothing was sent."))
                    await trio.lowlevel.checkpoint()
        finally:
            self._in_body = False
        return True

    async def _read(self) -> bool:
        chunk = await self._stream.receive_some(_READ_BYTES)
        self._arrived += chunk
        return bool(chunk)

    def push_out(self) -> None:
        """Close the connection at once to free its place."""
        self.scope.cancel()
        self.socket.close()

    def _refuse(self, refused: Refused) -> None:
        self.refused = refused
        self.scope.cancel()

    def _hold(self, count: int) -> None:
        """Count a body. Raises Refused beyond the bound of all bodies."""
        if not self._held.fits(count):
            raise Refused(503, "Retry later: there are too many long requests.")
        self._held.add(count)
        self._body_bytes.append(count)

    def answered(self) -> None:
        if self._body_bytes:
            self._held.now -= self._body_bytes.popleft()

    async def turn_away(self, answer: bytes) -> None:
        """Send a last answer, then read: unread data could discard it."""
        async with self._stream:
            await self._stream.send_all(answer)
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(_READ_BYTES):
                pass

    def close(self) -> None:
        self.socket.close()  # a cancelled library does not close it
        while self._body_bytes:
            self.answered()

    async def send_all(self, data: bytes) -> None:
        """Send. Raises BrokenResourceError, also for a slow client or a cancelled library."""
        for at in range(0, len(data) or 1, PIECE_BYTES):
            if at and self.scope.cancel_called:  # the library shields its sends from cancellation
                raise trio.BrokenResourceError("the server is ending")
            await self._send(data[at : at + PIECE_BYTES])

    async def _send(self, piece: bytes) -> None:
        with trio.move_on_after(self._piece_timeout_s) as sending:
            try:
                await self._stream.send_all(piece)
            except trio.BusyResourceError as error:  # the library does not handle it
                raise trio.BrokenResourceError("the connection is being closed") from error
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the client did not read the answer in time")

    async def send_eof(self) -> None:
        if self.refused is None:
            self._ended = True
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection, unless a rejection must still be sent or a body is arriving."""
        if self.refused is None and (self._ended or not self._in_body):
            with trio.move_on_after(self._piece_timeout_s):  # a farewell of TLS
                await self._stream.aclose()
