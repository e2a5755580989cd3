"""The publisher: posts messages to a node of a site, many in a request, until each is delivered.

Members deduplicate messages by key (`relay/node/http/messages.py`), so after any failure the same
messages are posted again, to this or the next node. The standard library's client suffices.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pyspark_relay.target import Target

#: Read timeout (s): longer than a node's own limit for a message (504).
ANSWER_S = 20.0
#: Minimum pause (s) before the nodes are asked again.
PAUSE_S = 0.5
_ANSWER_BYTES_MAX = 64 << 10
_WHY_CHARACTERS_MAX = 200


#: Maximum messages of a request, and about the bytes of its body.
LINES_MAX = 500
BODY_BYTES = 1 << 20
NDJSON = "application/x-ndjson"
#: Bytes of a line besides its payload: key, scope and headers.
_LINE_OVERHEAD = 256


class PublishError(Exception):
    """A message was rejected, or not accepted in time; the argument is a sentence."""


class Outgoing(NamedTuple):
    """A message to publish."""

    payload: bytes
    key: str
    scope: str = "all"
    headers: Mapping[str, bytes] = MappingProxyType({})


class Answer(NamedTuple):
    """The answer of a node."""

    #: HTTP status; 0: no answer.
    status: int
    why: str
    #: The node's Retry-After (s), if any.
    retry_after_s: float | None = None
    #: Whether the node closed the connection instead of answering.
    is_cut: bool = False

    @property
    def is_final(self) -> bool:
        """Whether a retry would get the same answer."""
        return self.status not in (0, 408, 429) and self.status < 500

    def __str__(self) -> str:
        return f"{self.status or 'no answer'}, {self.why}" if self.why else str(self.status)


class Publisher:
    """Posts over one connection at a time, to the node that answered last."""

    def __init__(
        self,
        target: Target,
        begin_at: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start at node `begin_at`, so that several publishers spread over the nodes."""
        self._target = target
        self._at = begin_at % len(target.urls)
        self._clock = clock
        self._sleep = sleep
        self._connection: HTTPConnection | None = None

    def publish(self, messages: Iterable[Outgoing]) -> None:
        """Return once nodes have delivered the messages, in their order.

        Raises PublishError if one is rejected, or not delivered within the target's timeout.
        """
        for portion in portions(messages):
            self._publish(portion)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _publish(self, left: list[Outgoing]) -> None:
        """Post these messages until each is delivered. A delivered one gives the others new time."""
        ends = self._clock() + self._target.timeout_s
        tries = 0
        while left:
            tries += 1
            url = self._target.urls[self._at]
            answers = self._ask(left)
            failed = [(each, answer) for each, answer in zip(left, answers, strict=True) if answer.status != 200]
            if len(failed) < len(left):
                tries, ends = 0, self._clock() + self._target.timeout_s
            left = [each for each, _ in failed]
            for outgoing, answer in failed:
                if answer.is_final:
                    raise PublishError(f"{url} refuses message {outgoing.key}: {answer}{_hint(answer)}")
            if not failed:
                return
            pause = self._pause(failed[0][1], tries)
            if self._clock() + pause >= ends:
                waited = f"within {self._target.timeout_s:g} s, {tries} tries"
                raise PublishError(f"Message {left[0].key} was not accepted {waited}; the last answer of {url}: {failed[0][1]}")
            if pause:
                self._sleep(pause)

    def _pause(self, answer: Answer, tries: int) -> float:
        """Return the pause (s). After 429 the same node is asked again, otherwise the next one."""
        wished = max(answer.retry_after_s or 0.0, PAUSE_S)
        if answer.status == 429:
            return wished
        self.close()
        self._at = (self._at + 1) % len(self._target.urls)
        return wished if tries % len(self._target.urls) == 0 else 0.0

    def _ask(self, messages: Sequence[Outgoing]) -> list[Answer]:
        """Return an answer for each message."""
        is_used = self._connection is not None
        answers = self._post(messages)
        # Nodes close idle connections, which does not indicate a failure.
        return self._post(messages) if is_used and answers[0].is_cut else answers

    def _post(self, messages: Sequence[Outgoing]) -> list[Answer]:
        headers = {"Content-Type": NDJSON}
        if self._target.token:
            headers["Authorization"] = f"Bearer {self._target.token}"
        path, body = "/messages", b"".join(map(_line, messages))
        if len(messages) == 1 and not messages[0].headers:  # raw, so that a value may fill the body
            [(body, key, scope, _)] = messages
            # The node strips one pair of quotes, so a key may itself contain quotes.
            headers |= {"Content-Type": "application/octet-stream", "Idempotency-Key": f'"{key}"'}
            path = f"/messages?scope={scope}"
        parts = urlsplit(self._target.urls[self._at])
        if self._connection is None:
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_S)
        answers: list[Answer] = []
        try:
            self._connection.request("POST", parts.path + path, body, headers)
            response = self._connection.getresponse()
            if response.headers.get_content_type() == NDJSON:
                answers += map(_answer, _lines(response, len(messages)))
                missing = Answer(0, "the answer ended early")
                if len(answers) < len(messages):
                    self.close()
            else:
                missing = self._read(response)
        except (OSError, HTTPException) as error:
            self.close()
            missing = Answer(0, str(error) or type(error).__name__, is_cut=isinstance(error, ConnectionError | BadStatusLine))
        if missing.status == 200 and len(messages) > 1:
            raise PublishError(f"{self._target.urls[self._at]} does not take NDJSON: upgrade the node.")
        return answers + [missing] * (len(messages) - len(answers))

    def _read(self, response: HTTPResponse) -> Answer:
        body = response.read(_ANSWER_BYTES_MAX)
        if not response.isclosed():  # an oversized body: the rest is not read
            self.close()
        after = response.headers.get("Retry-After", "")
        return Answer(response.status, _why(body), float(after) if after.isdecimal() else None)


def portions(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Yield the messages in portions, each of one request."""
    portion: list[Outgoing] = []
    size = 0
    for each in messages:
        length = len(each.payload) * 3 // 2 + _LINE_OVERHEAD
        if portion and (len(portion) >= LINES_MAX or size + length > BODY_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += length
    if portion:
        yield portion


def _line(outgoing: Outgoing) -> bytes:
    """Return the line of a message in an NDJSON body."""
    about: dict[str, object] = {"key": outgoing.key, "scope": outgoing.scope, "base64": _base64(outgoing.payload)}
    if outgoing.headers:
        about["headers"] = {name: _base64(value) for name, value in outgoing.headers.items()}
    return json.dumps(about).encode() + b"\n"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _lines(response: HTTPResponse, count: int) -> Iterator[dict[str, Any]]:
    """Yield up to `count` answers. Raises HTTPException for a line that is none."""
    for _ in range(count):
        line = response.readline(_ANSWER_BYTES_MAX)
        if not line.endswith(b"\n"):
            return
        try:
            about = json.loads(line)
            about["status"] += 0
        except (ValueError, TypeError, KeyError):
            raise HTTPException("a line of the answer has no status") from None
        yield about
    response.read(_ANSWER_BYTES_MAX)


def _answer(about: dict[str, Any]) -> Answer:
    return Answer(about["status"], " ".join(str(about.get("error", "")).split())[:_WHY_CHARACTERS_MAX])


def _why(body: bytes) -> str:
    try:
        about = json.loads(body)
        text = about["error"] if isinstance(about, dict) and "error" in about else ""
    except ValueError:
        text = body.decode(errors="replace")
    return " ".join(str(text).split())[:_WHY_CHARACTERS_MAX]


def _hint(answer: Answer) -> str:
    if answer.status != 422:
        return ""
    return " (a batch that is repeated must have the same rows in the same order, or a column key)"
