"""Guard: the HTTP server gets to see whole, small requests, with a body only where one is wanted, and no other protocol.

The server's library speaks HTTP/2 and WebSocket too, and reads bodies of any length. Nothing here needs them. What it could
read differently than the guard, such as a line that ends without a carriage return, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import trio

#: Request line and headers of one request at most.
HEAD_BYTES_MAX = 8_192
#: Bytes that a client has to take, or of a body to send, within the time that it is given.
PIECE_BYTES = 64 << 10
_READ_BYTES = 16_384
_HEAD_END = b"\r\n\r\n"
#: In a line these end it for some readers and not for others, or make it a part of the line before.
_AMBIGUOUS = re.compile(rb"[\0\r\n]|^[ \t]")
_METHODS = (b"GET", b"HEAD")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Headers that announce a body, and that ask for another protocol.
_BODY, _OTHER_PROTOCOL = (b"content-length", b"transfer-encoding", b"expect"), (b"upgrade", b"http2-settings")


class Refused(Exception):
    """This request is not taken; the argument is the status code and phrase of the answer."""


class Head:
    """A request's line and headers, which are taken. Raises Refused."""

    def __init__(self, head: bytes, bodies: Mapping[bytes, int]) -> None:
        """`head` ends with an empty line. `bodies`: the paths that bodies are posted to, with the bytes of one at most."""
        self._lines = head.removesuffix(_HEAD_END).split(b"\r\n")
        if any(_AMBIGUOUS.search(line) for line in self._lines):
            raise Refused("400 Bad Request")
        headers = [
            (name.strip().lower(), value.strip()) for name, _, value in (each.partition(b":") for each in self._lines[1:])
        ]
        names = {name for name, _ in headers}
        method, _, target = self._lines[0].partition(b" ")
        bytes_max = bodies.get(target.partition(b" ")[0].partition(b"?")[0]) if method == b"POST" else None
        if method not in _METHODS and bytes_max is None:
            raise Refused("405 Method Not Allowed")
        if bytes_max is None and names.intersection(_BODY):
            raise Refused("413 Content Too Large")
        if names.intersection(_OTHER_PROTOCOL):
            raise Refused("400 Bad Request")
        #: Whether the client sends the body only when it is told to.
        self.waits = b"expect" in names
        #: The length of the body.
        self.body_bytes = 0 if bytes_max is None else _length(headers, bytes_max)

    def encode(self) -> bytes:
        """The head as the server is to see it: without `Expect`, which has been answered."""
        lines = [each for each in self._lines if each.partition(b":")[0].strip().lower() != b"expect"]
        return b"\r\n".join(lines) + _HEAD_END


def _length(headers: list[tuple[bytes, bytes]], bytes_max: int) -> int:
    """The length of a body. Raises Refused: one whose length is not said beforehand is not taken."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in headers) or not lengths:
        raise Refused("411 Length Required")
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise Refused("400 Bad Request")
    if len(lengths[0]) > 10 or int(lengths[0]) > bytes_max:
        raise Refused("413 Content Too Large")
    return int(lengths[0])


class GuardedStream:
    """The stream of one connection as the server reads and writes it, until `refused` says why a request is not taken.

    It never holds more than one request and one read. The server closes connections on which no request begins; what has begun
    goes on at a least pace: each `PIECE_BYTES` of a body or of an answer within `piece_timeout_s` (seconds).
    """

    def __init__(self, stream: trio.SocketStream, piece_timeout_s: float, bodies: Mapping[bytes, int]) -> None:
        self.socket = stream.socket
        #: The status of the request that was refused, which is the last one; empty until then.
        self.refused = ""
        #: Covers the server, which has nothing more to do once a request was refused.
        self.scope = trio.CancelScope()
        self._stream = stream
        self._piece_timeout_s = piece_timeout_s
        self._bodies = bodies
        self._arrived = bytearray()
        #: Whether a body is on its way, for which the server takes the connection to be idle.
        self._in_body = False
        #: Whether the server has ended its direction.
        self._ended = False

    async def receive_some(self, _max_bytes: int | None = None) -> bytes:
        """The next whole request; nothing after the last one."""
        while True:
            at = self._arrived.find(_HEAD_END)
            if (at if at >= 0 else len(self._arrived)) > HEAD_BYTES_MAX - len(_HEAD_END):
                self._refuse("431 Request Header Fields Too Large")
            elif at >= 0:
                head = bytes(self._arrived[: at + len(_HEAD_END)])
                del self._arrived[: len(head)]
                return await self._complete(head)
            await trio.lowlevel.checkpoint()
            if not await self._read():
                return b""

    async def _complete(self, encoded: bytes) -> bytes:
        """The request with this head, once its body is there."""
        try:
            head = Head(encoded, self._bodies)
        except Refused as refused:
            self._refuse(str(refused))
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
        """Whether so many bytes have arrived, which they must piece by piece."""
        self._in_body = True
        try:
            while len(self._arrived) < size:
                wanted = min(len(self._arrived) + PIECE_BYTES, size)
                with trio.move_on_after(self._piece_timeout_s) as arriving:
                    while len(self._arrived) < wanted:
                        if not await self._read():
                            return False
                if arriving.cancelled_caught:
                    self._refuse("408 Request Timeout")
                    await trio.lowlevel.checkpoint()
        finally:
            self._in_body = False
        return True

    async def _read(self) -> bool:
        """Whether more has arrived."""
        chunk = await self._stream.receive_some(_READ_BYTES)
        self._arrived += chunk
        return bool(chunk)

    def push_out(self) -> None:
        """Close the connection at once, whatever is being sent, as its place goes to another one."""
        self.scope.cancel()
        self.socket.close()

    def _refuse(self, status: str) -> None:
        self.refused = status
        self.scope.cancel()

    async def send_all(self, data: bytes) -> None:
        """Send. Raises BrokenResourceError, also when the client takes a piece too slowly, or the server is ending."""
        for at in range(0, len(data) or 1, PIECE_BYTES):
            if at and self.scope.cancel_called:  # the server lets nobody cancel it while it sends
                raise trio.BrokenResourceError("the server is ending")
            await self._send(data[at : at + PIECE_BYTES])

    async def _send(self, piece: bytes) -> None:
        with trio.move_on_after(self._piece_timeout_s) as sending:
            try:
                await self._stream.send_all(piece)
            except trio.BusyResourceError as error:  # the server knows no such error
                raise trio.BrokenResourceError("the connection is being closed") from error
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the answer was not taken in time")

    async def send_eof(self) -> None:
        if not self.refused:
            self._ended = True
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection, except after a refusal: that one is still to be told. Nor is it idle while a body arrives."""
        if not self.refused and (self._ended or not self._in_body):
            await self._stream.aclose()
