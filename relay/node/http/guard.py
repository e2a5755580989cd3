"""Guard: the HTTP server gets to see whole, small requests without a body, and no other protocol.

The server's library speaks HTTP/2 and WebSocket too, and reads bodies of any length. Nothing here needs them.
"""

from __future__ import annotations

import trio

#: Request line and headers of one request at most.
HEAD_BYTES_MAX = 8_192
_READ_BYTES = 16_384
_HEAD_END = b"\r\n\r\n"
_METHODS = (b"GET", b"HEAD")
#: Headers that announce a body, and that ask for another protocol.
_BODY, _OTHER_PROTOCOL = (b"content-length", b"transfer-encoding", b"expect"), (b"upgrade", b"http2-settings")


def why_refused(head: bytes) -> str:
    """Status code and phrase for a request that is not taken; empty for one that is. `head` ends with an empty line."""
    request, *headers = head.removesuffix(_HEAD_END).split(b"\r\n")
    names = {each.partition(b":")[0].strip().lower() for each in headers}
    if request.partition(b" ")[0] not in _METHODS:
        return "405 Method Not Allowed"
    if names.intersection(_BODY):
        return "413 Content Too Large"
    return "400 Bad Request" if names.intersection(_OTHER_PROTOCOL) else ""


class GuardedStream:
    """The stream of one connection as the server reads and writes it, until `refused` says why a request is not taken.

    It never holds more than one head and one read. How long a head may take is for the server to say, which closes idle
    connections; an answer has to be taken within `answer_timeout_s` (seconds).
    """

    def __init__(self, stream: trio.SocketStream, answer_timeout_s: float) -> None:
        self.socket = stream.socket
        #: The status of the request that was refused, which is the last one; empty until then.
        self.refused = ""
        #: Covers the server, which has nothing more to do once a request was refused.
        self.scope = trio.CancelScope()
        self._stream = stream
        self._answer_timeout_s = answer_timeout_s
        self._arrived = bytearray()

    async def receive_some(self, _max_bytes: int | None = None) -> bytes:
        """The next whole head; nothing after the last one."""
        while True:
            at = self._arrived.find(_HEAD_END)
            if (at if at >= 0 else len(self._arrived)) > HEAD_BYTES_MAX - len(_HEAD_END):
                self._refuse("431 Request Header Fields Too Large")
            elif at >= 0:
                head = bytes(self._arrived[: at + len(_HEAD_END)])
                del self._arrived[: len(head)]
                if why := why_refused(head):
                    self._refuse(why)
                await trio.lowlevel.checkpoint()
                return head
            await trio.lowlevel.checkpoint()
            if not (chunk := await self._stream.receive_some(_READ_BYTES)):
                return b""
            self._arrived += chunk

    def _refuse(self, status: str) -> None:
        self.refused = status
        self.scope.cancel()

    async def send_all(self, data: bytes) -> None:
        """Send. Raises BrokenResourceError, also when the client takes too long, or the server is ending this direction."""
        with trio.move_on_after(self._answer_timeout_s) as sending:
            try:
                await self._stream.send_all(data)
            except trio.BusyResourceError as error:  # the server knows no such error, and it would end the node
                raise trio.BrokenResourceError("the connection is being closed") from error
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the answer was not taken in time")

    async def send_eof(self) -> None:
        if not self.refused:
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection, except after a refusal: that one is still to be told."""
        if not self.refused:
            await self._stream.aclose()
