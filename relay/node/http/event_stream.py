"""EventStream: the answer to `GET /events`, server-sent events that go on until the client or the node ends.

Each stream reads the ring at its own pace: nobody waits for a slow one. One that does not take a piece in time is cut off by
the connection, one that falls behind what the ring holds ends here; when the client comes back, a `gap` event tells it what it
missed.
"""

from __future__ import annotations

import trio
from starlette.types import Message, Receive, Scope, Send

from relay.node.http.event_ring import EventRing
from relay.node.output.event_json import to_server_sent

MEDIA_TYPE = "text/event-stream; charset=utf-8"
#: Seconds without an event of the stream after which a comment is sent, so that both ends notice when the other one is gone.
KEEP_ALIVE_S = 15.0
#: What a client that follows the standard waits (ms) before it comes back.
RETRY_MS = 500
#: Streams at a time; the other connections are for probes and requests.
STREAMS_MAX = 12


class Streams:
    """Counts the streams of one node."""

    def __init__(self) -> None:
        self.open = 0

    @property
    def is_full(self) -> bool:
        return self.open >= STREAMS_MAX


class EventStream:
    """An ASGI answer: the events after a number."""

    def __init__(self, ring: EventRing, streams: Streams, after: int, *, messages: bool, foreign: str = "") -> None:
        """`foreign`: the id that the client gave, when it is of another process, so that nobody knows what it missed."""
        self._ring = ring
        self._streams = streams
        self._after = after
        self._messages = messages
        self._foreign = foreign

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, until the client is gone or too slow."""
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        self._streams.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send(_body(f"retry: {RETRY_MS}\n\n".encode() + self._missed()))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
                await self._follow(send)
                nursery.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._streams.open -= 1

    def _missed(self) -> bytes:
        """The event that says that others are missing; nothing when none are."""
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

    async def _follow(self, send: Send) -> None:
        """Send what there is, and a comment when nothing was for a while; not all that the ring gets is for this stream."""
        ring = self._ring
        quiet_until = trio.current_time() + KEEP_ALIVE_S
        while ring.oldest(self._messages) <= self._after + 1:
            chunk, self._after = ring.read(self._after, self._messages)
            if not chunk:
                with trio.move_on_at(quiet_until) as quiet:
                    await ring.grown(self._after)
                if not quiet.cancelled_caught:
                    continue
                chunk = b": nothing new\n\n"
            await send(_body(chunk))
            await trio.lowlevel.checkpoint()
            quiet_until = trio.current_time() + KEEP_ALIVE_S


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}
