"""Messages in the bodies of requests: raw, a JSON object, or a JSON object a line (NDJSON)."""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from starlette.requests import Request

from sitestack.model.envelope import KEY, KEY_BYTES_MAX, NO_HEADERS, Envelope, wrap
from sitestack.model.errors import LocalError
from sitestack.model.fast_frozen import fast_frozen

NDJSON = "application/x-ndjson"
#: Maximum lines of one NDJSON body.
LINES_MAX = 4_096
_KEY_HEADER = "idempotency-key"
_FIELDS = {"text", "base64", "scope", "key", "headers"}
_VISIBLE = re.compile("[!-~]*")


class Unfit(Exception):
    """The request or line is not a message; the argument is the reason."""


@fast_frozen
@dataclass(frozen=True, slots=True)
class Posted:
    payload: bytes
    scope: Literal["all", "site"]
    key: str
    headers: Mapping[str, bytes] = field(default_factory=lambda: NO_HEADERS)


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def read_posted(request: Request, body: bytes) -> Posted:
    """Return the message of a request, from a raw or a JSON body. Raises Unfit."""
    key = request.headers.get(_KEY_HEADER, "").strip()
    if len(key) > 2 and key[0] == key[-1] == '"':  # a string in structured headers (RFC 8941)
        key = key[1:-1]
    scope = request.query_params.get("scope", "all")
    if media_type(request) == "application/json":
        return read_object(body, scope, key)
    return _posted(body, scope, key)


def read_lines(request: Request, body: bytes) -> list[bytes]:
    """Return the lines of an NDJSON body, without empty ones. Raises Unfit."""
    if _KEY_HEADER in request.headers:
        raise Unfit("Idempotency-Key: each line has its own key.")
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > LINES_MAX:
        raise Unfit(f"The body has {len(lines)} lines, more than {LINES_MAX}.")
    return lines


def read_object(text: bytes, scope: Any, key: str = "") -> Posted:
    """Return the message of a JSON object. `scope` and `key`: those of the request. Raises Unfit."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise Unfit("The message is not JSON.") from None
    if not isinstance(about, dict) or not about.keys() <= _FIELDS or ("text" in about) is ("base64" in about):
        raise Unfit("A message is an object with text or base64, and perhaps scope, key and headers.")
    own = about.get("key", key)
    if key and own != key:
        raise Unfit("key: differs from Idempotency-Key.")
    posted = _posted(_payload(about), about.get("scope", scope), own)
    return replace(posted, headers=_headers(about["headers"])) if "headers" in about else posted


def _posted(payload: bytes, scope: Any, key: Any) -> Posted:
    if not isinstance(key, str) or len(key) > KEY_BYTES_MAX or not _VISIBLE.fullmatch(key):
        raise Unfit(f"Idempotency-Key: must have 1 to {KEY_BYTES_MAX} ASCII characters without white space.")
    if scope not in ("all", "site"):
        raise Unfit("scope: must be all or site.")
    return Posted(payload, scope, key or secrets.token_hex(16))


def _payload(about: dict[str, Any]) -> bytes:
    try:
        if "text" in about:
            return str.encode(about["text"])
        return base64.b64decode(about["base64"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Unfit("text: must be a string; base64: must be a base64 string.") from None


def _headers(about: Any) -> dict[str, bytes]:
    """Return the headers. Raises Unfit unless `channel.send` accepts them, too."""
    try:
        headers = {name: base64.b64decode(value, validate=True) for name, value in about.items()}
        wrap(Envelope(headers={KEY: bytes(KEY_BYTES_MAX), **headers}), b"")
    except LocalError as error:
        raise Unfit(f"headers: {error}.") from None
    except (AttributeError, TypeError, ValueError, binascii.Error):
        raise Unfit("headers: must be an object of base64 strings.") from None
    if KEY in headers:
        raise Unfit(f"headers: {KEY} is reserved; use key.")
    return headers
