"""The publisher: posts messages to a node of a site, one at a time, until each is delivered.

Members deduplicate messages by key (`relay/node/http/messages.py`), so after any failure the same
message is posted again, to this or the next node. The standard library's client suffices.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from pyspark_relay.sink.target import Target

#: Read timeout (s): longer than a node's own limit for a message (504).
ANSWER_S = 20.0
#: Minimum pause (s) before the nodes are asked again.
PAUSE_S = 0.5
_ANSWER_BYTES_MAX = 64 << 10
_WHY_CHARACTERS_MAX = 200


class PublishError(Exception):
    """A message was rejected, or not accepted in time; the argument is a sentence."""


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

    def publish(self, payload: bytes, key: str, scope: str = "all") -> None:
        """Return once a node has delivered the message.

        Raises PublishError if it is rejected, or not delivered within the target's timeout.
        """
        ends = self._clock() + self._target.timeout_s
        tries = 0
        while True:
            tries += 1
            url = self._target.urls[self._at]
            answer = self._ask(payload, key, scope)
            if answer.status == 200:
                return
            if answer.is_final:
                raise PublishError(f"{url} refuses message {key}: {answer}{_hint(answer)}")
            pause = self._pause(answer, tries)
            if self._clock() + pause >= ends:
                waited = f"within {self._target.timeout_s:g} s, {tries} tries"
                raise PublishError(f"Message {key} was not accepted {waited}; the last answer of {url}: {answer}")
            if pause:
                self._sleep(pause)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _pause(self, answer: Answer, tries: int) -> float:
        """Return the pause (s). After 429 the same node is asked again, otherwise the next one."""
        wished = max(answer.retry_after_s or 0.0, PAUSE_S)
        if answer.status == 429:
            return wished
        self.close()
        self._at = (self._at + 1) % len(self._target.urls)
        return wished if tries % len(self._target.urls) == 0 else 0.0

    def _ask(self, payload: bytes, key: str, scope: str) -> Answer:
        is_used = self._connection is not None
        answer = self._post(payload, key, scope)
        # Nodes close idle connections, which does not indicate a failure.
        return self._post(payload, key, scope) if is_used and answer.is_cut else answer

    def _post(self, payload: bytes, key: str, scope: str) -> Answer:
        # The node strips one pair of quotes, so a key may itself contain quotes.
        headers = {"Idempotency-Key": f'"{key}"', "Content-Type": "application/octet-stream"}
        if self._target.token:
            headers["Authorization"] = f"Bearer {self._target.token}"
        parts = urlsplit(self._target.urls[self._at])
        if self._connection is None:
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_S)
        try:
            self._connection.request("POST", f"{parts.path}/messages?scope={scope}", payload, headers)
            return self._read(self._connection.getresponse())
        except (OSError, HTTPException) as error:
            self.close()
            is_cut = isinstance(error, ConnectionError | BadStatusLine)
            return Answer(0, str(error) or type(error).__name__, is_cut=is_cut)

    def _read(self, response: HTTPResponse) -> Answer:
        body = response.read(_ANSWER_BYTES_MAX)
        if not response.isclosed():  # an oversized body: the rest is not read
            self.close()
        after = response.headers.get("Retry-After", "")
        return Answer(response.status, _why(body), float(after) if after.isdecimal() else None)


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
