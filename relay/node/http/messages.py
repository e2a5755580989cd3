"""`POST /messages`: publish messages, which the client may repeat until they are delivered.

The key travels with the message (`sitestack/channel/sending/message_keys.py`): each member of any
site delivers it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
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
from sitestack.channel.sending.sending import PORTION_BYTES, SCOPES
from sitestack.model.envelope import HEADERS_BYTES_MAX
from sitestack.model.errors import ChannelClosed, MessageTooLarge, NoMajority
from sitestack.model.fast_frozen import fast_frozen

MESSAGES = "/messages"
#: Maximum bytes of a body, and of all bodies in memory.
BODY_BYTES_MAX = 2 << 20
#: Seconds that a request waits for credit before the answer 429.
WRITABLE_S = 0.25
#: Seconds that a message waits for local delivery before 504; longer than a failover.
DELIVERED_S = 10.0
#: Lines sent without a checkpoint, about five milliseconds.
LINES_AT_ONCE = 256
#: Maximum chunks of `LINES_AT_ONCE` lines of one request that are sent and not answered.
CHUNKS_UNDER_WAY_MAX = 2
#: Bytes of a message in a batch besides payload, headers and key.
ENVELOPE_BYTES = 32
#: Answers after which a request sends none of its later lines.
_STOPS = (429, 503)

Answer = tuple[int, dict[str, Any]]
FindChannel = Callable[[], RelayChannel | None]


@fast_frozen
@dataclass(frozen=True, slots=True)
class UnderWay:
    channel: RelayChannel
    posted: Posted
    #: Whether another request has sent the message.
    repeated: bool
    #: Time (s) at which the answer is 504.
    deadline: float

    def known(self) -> DeliveredKey | None:
        return self.channel.keys.known(self.posted.key.encode())


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
            [begun] = await self.begin([posted], WRITABLE_S)
            status, about = await self.end(begun) if isinstance(begun, UnderWay) else begun
        finally:
            self.forget([posted.key])
        return refuse(status, about["error"]) if "error" in about else JSONResponse(about)

    async def begin(self, lines: Sequence[Posted | Answer], writable_s: float) -> list[UnderWay | Answer]:
        """Send the messages in order; return the answers, or the waits for them.

        Wait `writable_s` (seconds) for credit. After an answer in `_STOPS` no message is sent. The
        caller must call `forget`.
        """
        if (channel := self._channel()) is None:
            return [_error(503, "This node is not a member now.")] * len(lines)
        begun: list[UnderWay | Answer] = []
        deadline = trio.current_time() + DELIVERED_S
        for run in _runs(lines):
            places: list[int] = []
            for place, each in enumerate(run, len(begun)):
                if not isinstance(each, Posted):
                    begun.append(each)
                elif (known := channel.keys.known(each.key.encode())) is not None:
                    begun.append(_told(channel, each, known, repeated=True))
                else:
                    repeated = each.key in self._under_way
                    self._under_way.add(each.key)
                    begun.append(UnderWay(channel, each, repeated, deadline))
                    if not repeated:
                        places.append(place)
            to_send = [under_way.posted for place in places if isinstance(under_way := begun[place], UnderWay)]
            for place, refusal in zip(places, await self._send(channel, to_send, writable_s), strict=False):
                if refusal is not None:
                    begun[place] = refusal
                    if refusal[0] in _STOPS:
                        return begun[:place] + [refusal] * (len(lines) - place)
        return begun

    async def end(self, sent: UnderWay) -> Answer:
        if (known := sent.known()) is None:
            with trio.move_on_at(sent.deadline):
                known = await sent.channel.keys.delivered(sent.posted.key.encode())
        if known is None:
            return _error(504, "The message is not delivered yet; post it again with its key to learn when it is.")
        return _told(sent.channel, sent.posted, known, sent.repeated)

    def forget(self, keys: Sequence[str]) -> None:
        self._under_way.difference_update(keys)

    async def _send(self, channel: RelayChannel, run: list[Posted], writable_s: float) -> list[Answer | None]:
        """Send messages of one scope, and return why each was not sent, up to one in `_STOPS`."""
        if not run:
            return []
        payloads, scope = [each.payload for each in run], run[0].scope
        headers = [each.headers for each in run] if any(each.headers for each in run) else None
        with trio.move_on_after(writable_s) as waiting:
            try:
                if len(run) == 1:  # without a checkpoint, which would find a time that is over at once
                    await channel.send(payloads[0], scope, headers=run[0].headers, key=run[0].key)
                else:
                    await channel.send_many(payloads, scope, headers=headers, keys=[each.key for each in run])
            except MessageTooLarge as error:
                if len(run) == 1:
                    return [_error(413, f"{error}.")]
                waiting.deadline = inf  # each waits for itself
                return await self._send_each(channel, run, writable_s)
            except ChannelClosed:
                return [_error(503, "This node is no longer a member.")]
            except NoMajority as error:
                return [_error(503, f"{error}.")]
        if waiting.cancelled_caught:
            return [_error(429, "Retry later: members or sites are catching up.")]
        if scope == "all":
            self._count_sent(len(run))
        return []

    async def _send_each(self, channel: RelayChannel, run: list[Posted], writable_s: float) -> list[Answer | None]:
        refusals: list[Answer | None] = []
        for each in run:
            refusals += await self._send(channel, [each], writable_s) or [None]
            if (last := refusals[-1]) is not None and last[0] in _STOPS:
                break
        return refusals


def _runs(lines: Sequence[Posted | Answer]) -> Iterator[list[Posted | Answer]]:
    """Yield the lines in order. The messages of a run have one scope, and are one portion of
    `send_many`: a cancelled one has sent none of them.
    """
    run: list[Posted | Answer] = []
    size, scope = 0, ""
    for each in lines:
        if isinstance(each, Posted):
            grown = len(each.payload) + ENVELOPE_BYTES + (HEADERS_BYTES_MAX if each.headers else len(each.key))
            if run and (each.scope != scope or size + grown > PORTION_BYTES):
                yield run
                run, size = [], 0
            size, scope = size + grown, each.scope
        run.append(each)
    if run:
        yield run


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
        begun, to_end = trio.open_memory_channel[list[UnderWay | Answer]](CHUNKS_UNDER_WAY_MAX)
        async with trio.open_nursery() as nursery, to_end:
            nursery.start_soon(self._begin_all, begun)
            async for chunk in to_end:
                piece: list[bytes] = []
                for each in chunk:
                    if piece and isinstance(each, UnderWay) and each.known() is None:
                        await write(b"".join(piece))
                        piece.clear()
                    status, about = await self._messages.end(each) if isinstance(each, UnderWay) else each
                    piece.append(json.dumps({"status": status, **about}).encode() + b"\n")
                if piece:
                    await write(b"".join(piece))

    async def _begin_all(self, begun: trio.MemorySendChannel[list[UnderWay | Answer]]) -> None:
        async with begun:
            for start in range(0, len(self._lines), LINES_AT_ONCE):
                lines = self._lines[start : start + LINES_AT_ONCE]
                chunk = await self._messages.begin([*map(self._read, lines)], DELIVERED_S)
                await begun.send(chunk)
                if not isinstance(chunk[-1], UnderWay) and chunk[-1][0] in _STOPS:
                    await begun.send(chunk[-1:] * (len(self._lines) - start - len(lines)))
                    break

    def _read(self, line: bytes) -> Posted | Answer:
        try:
            posted = read_object(line, self._scope)
        except Unfit as error:
            return _error(400, str(error))
        self._keys.append(posted.key)
        return posted


def _told(channel: RelayChannel, posted: Posted, known: DeliveredKey, repeated: bool) -> Answer:
    if known.digest != hashlib.sha256(posted.payload).digest():
        return _error(422, "Another message has been published with this key.")
    if known.id.scope is not SCOPES[posted.scope]:
        return _error(422, "This message has been published with this key and another scope.")
    mine = known.id.origin == channel.address
    identity = [known.id.site, known.id.origin.hex(), known.id.scope.name.lower(), known.id.n]
    return 200, {"id": identity, "key": posted.key, "repeated": repeated or not mine}


def _error(status: int, why: str) -> Answer:
    return status, {"error": why}
