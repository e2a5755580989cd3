"""The publisher: posts messages at a node of a site, one after the other, each until it is told that it has arrived.

A message has a key, and members show what has the same key once (`relay/node/http/messages.py`). So whatever goes wrong, the
same message is posted again with the same key, here or at the next node. The standard library's client is enough for
that, and executors need nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from pyspark_relay.sink.target import Target

#: Seconds without a byte after which an answer is given up: longer than a node lets a message be under way (504).
ANSWER_S = 20.0
#: Seconds until nodes are asked again, at least.
PAUSE_S = 0.5
_ANSWER_BYTES_MAX = 64 << 10
_WHY_CHARACTERS_MAX = 200


class PublishError(Exception):
    """A message was refused, or nobody took it in time; the argument is a sentence."""


class Answer(NamedTuple):
    """What a node has said."""

    #: 0: it did not answer.
    status: int
    why: str
    #: After how many seconds it wants to be asked again; None: it does not say.
    retry_after_s: float | None = None
    #: Whether it ended the connection in the place of an answer.
    is_cut: bool = False

    @property
    def is_final(self) -> bool:
        """Whether it will say the same again."""
        return self.status not in (0, 408, 429) and self.status < 500

    def __str__(self) -> str:
        return f"{self.status or 'no answer'}, {self.why}" if self.why else str(self.status)


class Publisher:
    """One connection at a time, to the node that answered last."""

    def __init__(
        self,
        target: Target,
        begin_at: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`begin_at`: which of the nodes is asked first, so that several publishers spread over them."""
        self._target = target
        self._at = begin_at % len(target.urls)
        self._clock = clock
        self._sleep = sleep
        self._connection: HTTPConnection | None = None

    def publish(self, payload: bytes, key: str, scope: str = "all") -> None:
        """Return once the message is delivered at a node.

        Raises PublishError when it is refused, or not delivered within the target's time.
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
                raise PublishError(f"Message {key} was not taken {waited}; at last {url} said: {answer}")
            if pause:
                self._sleep(pause)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _pause(self, answer: Answer, tries: int) -> float:
        """Seconds to wait. Whoever says that it is too much is asked again; in place of others the next node is."""
        wished = max(answer.retry_after_s or 0.0, PAUSE_S)
        if answer.status == 429:
            return wished
        self.close()
        self._at = (self._at + 1) % len(self._target.urls)
        return wished if tries % len(self._target.urls) == 0 else 0.0

    def _ask(self, payload: bytes, key: str, scope: str) -> Answer:
        is_used = self._connection is not None
        answer = self._post(payload, key, scope)
        # A node closes connections on which nothing is asked for a while: that says nothing of the node.
        return self._post(payload, key, scope) if is_used and answer.is_cut else answer

    def _post(self, payload: bytes, key: str, scope: str) -> Answer:
        # A node takes one pair of quotes away, so that a key which has some itself stays what it is.
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
        if not response.isclosed():  # there is more, which nobody wants
            self.close()
        after = response.headers.get("Retry-After", "")
        return Answer(response.status, _why(body), float(after) if after.isdecimal() else None)


def _why(body: bytes) -> str:
    """The sentence in an answer, if it has one."""
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
