"""Answer to `GET /events`: server-sent events until the client or the node ends.

The connection closes if the client reads too slowly, and the stream ends if the ring evicts its
next event; after a reconnect, a `gap` event names the missing events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import trio
from starlette.types import Receive, Scope, Send

from relay.node.http.event_ring import EventRing
from relay.node.output.event_json import to_server_sent

#: Writes a piece of an answer.
Write = Callable[[bytes], Awaitable[None]]

#: Header with the node's site, percent-encoded.
SITE_HEADER = b"relay-site"
MEDIA_TYPE = "text/event-stream; charset=utf-8"
#: Seconds without an event before a comment.
KEEP_ALIVE_S = 15.0
#: Milliseconds that a conforming client waits before it reconnects.
RETRY_MS = 500


class EventStream:
    """ASGI answer with the events after a number."""

    def __init__(
        self,
        ring: EventRing,
        streams: trio.CapacityLimiter,
        after: int,
        *,
        messages: bool,
        foreign: str = "",
        is_allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        """`foreign`: id that the client sent, if it names another process. `is_allowed`: for each piece."""
        self._ring = ring
        self._streams = streams
        self._after = after
        self._messages = messages
        self._foreign = foreign
        self._is_allowed = is_allowed

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async with self._streams:
            await stream(MEDIA_TYPE, receive, send, self._follow, (SITE_HEADER, quote(self._ring.site).encode()))

    def _missed(self) -> bytes:
        oldest = self._ring.oldest(self._messages)
        first = self._ring.id_of(oldest)
        if self._foreign:
            self._after = oldest - 1
            about = {"gap": {"after": self._foreign, "before": first}, "reason": "another_process"}
        elif oldest > self._after + 1:
            about = {"gap": {"after": self._ring.id_of(self._after), "before": first}, "reason": "no_longer_held"}
            self._after = oldest - 1
        else:
            return b""
        return to_server_sent(self._ring.id_of(self._after), {"event": "gap", **about})

    async def _follow(self, write: Write) -> None:
        ring, missed = self._ring, self._missed()
        # A client that is disconnected before the first event resumes here, but not beyond an unread gap.
        await write(f"retry: {RETRY_MS}\n".encode() + (missed or f"id: {ring.id_of(self._after)}\n\n".encode()))
        quiet_until = trio.current_time() + KEEP_ALIVE_S
        while self._is_allowed() and ring.oldest(self._messages) <= self._after + 1:
            chunk, self._after = ring.read(self._after, self._messages)
            if not chunk:
                with trio.move_on_at(quiet_until) as quiet:
                    await ring.grown(self._after)
                if not quiet.cancelled_caught:
                    continue
                chunk = b": nothing new\n\n"
            await write(chunk)
            await trio.lowlevel.checkpoint()
            quiet_until = trio.current_time() + KEEP_ALIVE_S


async def stream(
    media_type: str,
    receive: Receive,
    send: Send,
    follow: Callable[[Write], Awaitable[None]],
    *more_headers: tuple[bytes, bytes],
) -> None:
    """Answer with the pieces of `follow`, until it returns or the client disconnects."""

    async def write(piece: bytes) -> None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})

    headers = [(b"content-type", media_type.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, *more_headers]})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
        await follow(write)
        nursery.cancel_scope.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
