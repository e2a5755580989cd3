"""`POST /messages`: publish messages, which the client may repeat until they are delivered.

The key travels with the message (`sitestack/channel/sending/message_keys.py`): each member of any
site delivers it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from relay.node.channel import RelayChannel
from relay.node.http.event_stream import Write, stream
from relay.node.http.posted import NDJSON, Posted, Unfit, media_type, read_lines, read_object, read_posted
from relay.node.http.refusal import refuse
from sitestack.channel.sending.message_keys import DeliveredKey
from sitestack.channel.sending.sending import SCOPES
from sitestack.model.errors import ChannelClosed, MessageTooLarge, NoMajority

MESSAGES = "/messages"
#: Maximum bytes of a body, and of all bodies in memory.
BODY_BYTES_MAX = 2 << 20
#: Seconds that a request waits for credit before the answer 429.
WRITABLE_S = 0.25
#: Seconds that a message waits for local delivery before 504; longer than a failover.
DELIVERED_S = 10.0
#: Maximum lines of one request that are sent and not answered.
LINES_UNDER_WAY_MAX = 512
#: Lines sent without a checkpoint, about ten milliseconds.
LINES_AT_ONCE = 128
PIECE_BYTES = 16 << 10
#: Answers after which a request sends none of its later lines.
_STOPS = (429, 503)

Answer = tuple[int, dict[str, Any]]
FindChannel = Callable[[], RelayChannel | None]


@dataclass(frozen=True, slots=True)
class UnderWay:
    channel: RelayChannel
    posted: Posted
    #: Whether another request has sent the message.
    repeated: bool
    #: Time (s) at which the answer is 504.
    deadline: float


class Messages:
    def __init__(self, channel: FindChannel, count_sent: Callable[[int], None]) -> None:
        self._channel = channel
        self._count_sent = count_sent
        #: Keys that requests wait for.
        self._under_way: set[str] = set()

    async def post(self, request: Request) -> Response | LineAnswers:
        """Answer 200 once the message is delivered here.

        After any other answer, the key may be reused. An NDJSON body gets an answer for each line.
        """
        body = await request.body()
        try:
            if media_type(request) == NDJSON:
                return LineAnswers(self, read_lines(request, body), request.query_params.get("scope", "all"))
            posted = read_posted(request, body)
        except Unfit as error:
            return refuse(400, str(error))
        try:
            begun = await self.begin(posted, WRITABLE_S)
            status, about = await self.end(begun) if isinstance(begun, UnderWay) else begun
        finally:
            self.forget([posted.key])
        return refuse(status, about["error"]) if "error" in about else JSONResponse(about)

    async def begin(self, posted: Posted, writable_s: float) -> UnderWay | Answer:
        """Send the message, or return the answer if it is known or nothing was sent.

        Waits `writable_s` (seconds) for credit. The caller must call `forget`.
        """
        channel = self._channel()
        if channel is None:
            return _error(503, "This node is not a member now.")
        if (known := channel.keys.known(posted.key.encode())) is not None:
            return _told(channel, posted, known, repeated=True)
        repeated = posted.key in self._under_way
        self._under_way.add(posted.key)
        if not repeated and (refusal := await self._send(channel, posted, writable_s)) is not None:
            return refusal
        return UnderWay(channel, posted, repeated, trio.current_time() + DELIVERED_S)

    async def end(self, sent: UnderWay) -> Answer:
        keys, key = sent.channel.keys, sent.posted.key.encode()
        if (known := keys.known(key)) is None:
            with trio.move_on_at(sent.deadline):
                known = await keys.delivered(key)
        if known is None:
            return _error(504, "The message is not delivered yet; post it again with its key to learn when it is.")
        return _told(sent.channel, sent.posted, known, sent.repeated)

    def forget(self, keys: Sequence[str]) -> None:
        self._under_way.difference_update(keys)

    async def _send(self, channel: RelayChannel, posted: Posted, writable_s: float) -> Answer | None:
        with trio.move_on_after(writable_s) as waiting:
            try:
                await channel.send(posted.payload, posted.scope, headers=posted.headers, key=posted.key.encode())
            except MessageTooLarge as error:
                return _error(413, f"{error}.")
            except ChannelClosed:
                return _error(503, "This node is no longer a member.")
            except NoMajority as error:
                return _error(503, f"{error}.")
        if waiting.cancelled_caught:
            return _error(429, "Retry later: members or sites are catching up.")
        if posted.scope == "all":
            self._count_sent(1)
        return None


class LineAnswers:
    """ASGI answer to an NDJSON body: a line for each line, in order.

    Once a line is answered 429 or 503, so are the later ones.
    """

    def __init__(self, messages: Messages, lines: list[bytes], scope: str) -> None:
        self._messages = messages
        self._lines = lines
        self._scope = scope
        self._keys: list[str] = []

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the last line, or until the client disconnects."""
        try:
            await stream(NDJSON, receive, send, self._answer)
        finally:
            self._messages.forget(self._keys)

    async def _answer(self, write: Write) -> None:
        begun, to_end = trio.open_memory_channel[UnderWay | Answer](LINES_UNDER_WAY_MAX)
        piece: list[bytes] = []
        async with trio.open_nursery() as nursery, to_end:
            nursery.start_soon(self._begin_all, begun)
            async for first in to_end:
                for each in chain([first], _at_hand(to_end)):
                    if piece and (_would_wait(each) or sum(map(len, piece)) >= PIECE_BYTES):
                        await write(b"".join(piece))
                        piece.clear()
                    status, about = await self._messages.end(each) if isinstance(each, UnderWay) else each
                    piece.append(json.dumps({"status": status, **about}).encode() + b"\n")
        if piece:
            await write(b"".join(piece))

    async def _begin_all(self, begun: trio.MemorySendChannel[UnderWay | Answer]) -> None:
        stop: Answer | None = None
        async with begun:
            for number, line in enumerate(self._lines):
                answer = stop or await self._begin(line)
                if not isinstance(answer, UnderWay) and answer[0] in _STOPS:
                    stop = answer
                try:
                    begun.send_nowait(answer)  # messages share turns of the member
                except trio.WouldBlock:
                    await begun.send(answer)
                if number % LINES_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()

    async def _begin(self, line: bytes) -> UnderWay | Answer:
        try:
            posted = read_object(line, self._scope)
        except Unfit as error:
            return _error(400, str(error))
        self._keys.append(posted.key)
        return await self._messages.begin(posted, DELIVERED_S)


def _at_hand(begun: trio.MemoryReceiveChannel[UnderWay | Answer]) -> Iterator[UnderWay | Answer]:
    """Yield the begun lines that need no waiting."""
    with suppress(trio.WouldBlock, trio.EndOfChannel):
        while True:
            yield begun.receive_nowait()


def _would_wait(begun: UnderWay | Answer) -> bool:
    return isinstance(begun, UnderWay) and begun.channel.keys.known(begun.posted.key.encode()) is None


def _told(channel: RelayChannel, posted: Posted, known: DeliveredKey, repeated: bool) -> Answer:
    """Return the answer for a delivered key, after comparing message and scope."""
    if known.digest != hashlib.sha256(posted.payload).digest():
        return _error(422, "Another message has been published with this key.")
    if known.id.scope is not SCOPES[posted.scope]:
        return _error(422, "This message has been published with this key and another scope.")
    mine = known.id.origin == channel.address
    identity = [known.id.site, known.id.origin.hex(), known.id.scope.name.lower(), known.id.n]
    return 200, {"id": identity, "key": posted.key, "repeated": repeated or not mine}


def _error(status: int, why: str) -> Answer:
    return status, {"error": why}
