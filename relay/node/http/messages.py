"""`POST /messages`: publish a message, which the client may repeat until it is delivered.

A key, from the client or made here, travels with the message
(`sitestack/channel/sending/message_keys.py`). A client may repeat the message at any member of any
site, and each member delivers it once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relay.node.channel import RelayChannel
from sitestack.channel.sending.message_keys import DeliveredKey
from sitestack.channel.sending.sending import SCOPES
from sitestack.model.envelope import KEY_BYTES_MAX
from sitestack.model.errors import ChannelClosed, MessageTooLarge

MESSAGES = "/messages"
#: Maximum bytes of a body, and of all bodies in memory.
BODY_BYTES_MAX = 2 << 20
#: Seconds that a request waits for credit before the answer 429.
WRITABLE_S = 0.25
#: Seconds that a request waits for local delivery before 504. Longer than a failover.
DELIVERED_S = 10.0
#: Seconds before a rejected client should retry.
RETRY_AFTER_S = 1
_KEY_HEADER = "idempotency-key"
_FIELDS = {"text", "base64", "scope"}


class Unfit(Exception):
    """The request is not a message; the argument is the reason."""


@dataclass(frozen=True, slots=True)
class Posted:
    """Message of a request."""

    payload: bytes
    scope: Literal["all", "site"]
    key: str


#: Returns the channel between join and leave.
FindChannel = Callable[[], RelayChannel | None]


class Messages:
    """Handler of posted messages."""

    def __init__(self, channel: FindChannel, count_sent: Callable[[int], None]) -> None:
        self._channel = channel
        self._count_sent = count_sent
        #: Keys that requests wait for, one for each.
        self._under_way: set[str] = set()

    async def post(self, request: Request) -> Response:
        """Answer 200 once the message is delivered here.

        After any other answer, the key may be reused.
        """
        try:
            posted = read_posted(request, await request.body())
        except Unfit as error:
            return _refuse(400, str(error))
        channel = self._channel()
        if channel is None:
            return _refuse(503, "This node is not a member now.", again=True)
        if (known := channel.keys.known(posted.key.encode())) is not None:
            return _answer(channel, posted, known, repeated=True)
        repeated = posted.key in self._under_way
        self._under_way.add(posted.key)
        try:
            if not repeated and (refusal := await self._send(channel, posted)) is not None:
                return refusal
            with trio.move_on_after(DELIVERED_S):
                known = await channel.keys.delivered(posted.key.encode())
        finally:
            self._under_way.discard(posted.key)
        if known is None:
            return _refuse(504, "The message is not delivered yet; post it again with its key to learn when it is.", again=True)
        return _answer(channel, posted, known, repeated)

    async def _send(self, channel: RelayChannel, posted: Posted) -> Response | None:
        """Send the message, or return an error if nothing was sent."""
        with trio.move_on_after(WRITABLE_S) as waiting:
            try:
                await channel.send(posted.payload, posted.scope, key=posted.key.encode())
            except MessageTooLarge as error:
                return _refuse(413, f"{error}.")
            except ChannelClosed:
                return _refuse(503, "This node is no longer a member.", again=True)
        if waiting.cancelled_caught:
            return _refuse(429, "Retry later: members or sites are catching up.", again=True)
        if posted.scope == "all":
            self._count_sent(1)
        return None


def read_posted(request: Request, body: bytes) -> Posted:
    """Return the message of a request, from a raw or a JSON body. Raises Unfit."""
    key = request.headers.get(_KEY_HEADER, "").strip()
    if len(key) > 2 and key[0] == key[-1] == '"':  # a string in structured headers (RFC 8941)
        key = key[1:-1]
    if len(key) > KEY_BYTES_MAX or not all("!" <= each <= "~" for each in key):
        raise Unfit(f"Idempotency-Key: must have 1 to {KEY_BYTES_MAX} ASCII characters without white space.")
    key = key or secrets.token_hex(16)
    scope: Any = request.query_params.get("scope", "all")
    payload = body
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        about = _read_object(body)
        payload, scope = _payload(about), about.get("scope", scope)
    if scope not in ("all", "site"):
        raise Unfit("scope: must be all or site.")
    return Posted(payload, scope, key)


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        about = json.loads(body)
    except (ValueError, RecursionError):
        raise Unfit("The body is not JSON.") from None
    if not isinstance(about, dict) or not about.keys() <= _FIELDS or ("text" in about) is ("base64" in about):
        raise Unfit("A JSON body is an object with text or base64, and perhaps scope.")
    return about


def _payload(about: dict[str, Any]) -> bytes:
    try:
        if "text" in about:
            return str.encode(about["text"])
        return base64.b64decode(about["base64"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Unfit("text: must be a string; base64: must be a base64 string.") from None


def _answer(channel: RelayChannel, posted: Posted, known: DeliveredKey, repeated: bool) -> Response:
    """Answer for a delivered key, after comparing message and scope."""
    if known.digest != hashlib.sha256(posted.payload).digest():
        return _refuse(422, "Another message has been published with this key.")
    if known.id.scope is not SCOPES[posted.scope]:
        return _refuse(422, "This message has been published with this key and another scope.")
    mine = known.id.origin == channel.address
    identity = [known.id.site, known.id.origin.hex(), known.id.scope.name.lower(), known.id.n]
    return JSONResponse({"id": identity, "key": posted.key, "repeated": repeated or not mine})


def _refuse(status: int, why: str, *, again: bool = False) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if again else {}
    return JSONResponse({"error": why}, status, headers)
