"""A connection to `GET /events` of one node at a time, which outlives nodes and pauses of the query.

A thread receives the events, also between two micro-batches. At the bounds it stops receiving. The node
then disconnects it, and it resumes by id later.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark_relay.target import Target

#: Maximum events and their bytes in memory: as many as a node holds.
EVENTS_MAX = 10_000
BYTES_MAX = 16 << 20
#: Read timeout (s), longer than the pause between comments of a node.
SILENCE_S = 20.0
#: Pause (s) after a round of all nodes without success.
PAUSE_S = 0.5
#: Maximum bytes of a line, which has up to six for each byte of a message.
_LINE_BYTES_MAX = 64 << 20
_PIECE_BYTES = 64 << 10


class SourceError(Exception):
    """No node gives the events; the argument is a sentence."""


class Received(NamedTuple):
    id: str
    event: dict[str, Any]
    size: int


class EventFollower:
    """Receives the events after an id, or all that a node holds if the id is empty."""

    def __init__(self, target: Target, after: str, site: str, *, finds_newest: bool = False) -> None:
        """`site`: the site of the nodes; empty: that of the first node which answers."""
        self._target = target
        self._after = after
        self.site = site
        self._finds_newest = finds_newest
        #: Id of the newest event when the present node was connected.
        self.newest = ""
        self._events: deque[Received] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._is_closed = False
        self._socket: socket.socket | None = None
        #: Whether a node answers at present.
        self.is_connected = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="relay events")
        self._thread.start()

    def take(self, count: int, patience_s: float) -> list[Received]:
        """Return up to `count` events; after `patience_s` without one, none. Raises SourceError."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._error, patience_s)
            if self._error is not None and not self._events:
                raise self._error
            found = [self._events.popleft() for _ in range(min(count, len(self._events)))]
            self._bytes -= sum(each.size for each in found)
            self._changed.notify_all()
        return found

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        """Receive from one node after the other until closed, or until none answers for too long."""
        at, ends = 0, time.monotonic() + self._target.timeout_s
        try:
            while True:
                url = self._target.urls[at % len(self._target.urls)]
                try:
                    for received in self._receive(url):
                        ends = time.monotonic() + self._target.timeout_s
                        if not self._put(received):
                            return
                    why = "it ended the stream"
                except (OSError, HTTPException) as error:
                    why = str(error) or type(error).__name__
                if self._is_closed:
                    return
                if time.monotonic() >= ends:
                    raise SourceError(f"No events within {self._target.timeout_s:g} s; at last {url} answered: {why}")
                at += 1
                if at % len(self._target.urls) == 0:
                    time.sleep(PAUSE_S)
        except Exception as error:  # the thread that takes the events raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _put(self, received: Received | None) -> bool:
        """Store an event, once there is space. Return whether to continue."""
        with self._changed:
            if received is not None:
                self._changed.wait_for(lambda: self._is_closed or (len(self._events) < EVENTS_MAX and self._bytes < BYTES_MAX))
                self._events.append(received)
                self._bytes += received.size
                self._after = received.id
                self._changed.notify_all()
            return not self._is_closed

    def _receive(self, url: str) -> Iterator[Received | None]:
        """Yield the events of a node, and None for every other line."""
        if self._finds_newest:
            with self._stream(url, "/events", "") as fields:
                self.newest = next((value for name, value in fields if name == "id"), "")
        with self._stream(url, "/events?from=oldest", self._after) as fields:
            event_id = ""
            for name, value in fields:
                if name == "id":
                    event_id = value
                    if self._finds_newest and value.partition("-")[0] != self.newest.partition("-")[0]:
                        raise HTTPException("another process answered than before")  # as behind the name of a service
                yield Received(event_id, json.loads(value), len(value)) if name == "data" else None

    @contextmanager
    def _stream(self, url: str, path: str, after: str) -> Iterator[Iterator[tuple[str, str]]]:
        """Provide the lines of a node, each as name and value."""
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=SILENCE_S)
        headers = {"Authorization": f"Bearer {self._target.token}"} if self._target.token else {}
        try:
            resume = {"Last-Event-ID": after} if after else {}
            response = self._get(connection, url, path, {**headers, **resume})
            self._require_site(url, unquote(response.headers.get("Relay-Site", "")))
            self._socket, self.is_connected = connection.sock, True
            yield ((name, value) for name, _, value in (line.decode().partition(": ") for line in self._lines(response)))
        finally:
            self.is_connected = False
            with suppress(OSError):
                connection.close()

    def _lines(self, response: HTTPResponse) -> Iterator[bytes]:
        """Yield the whole lines of a node. Raises SourceError for one that is too long."""
        parts: list[bytes] = []
        while piece := response.read1(_PIECE_BYTES):
            part, *lines = piece.split(b"\n")
            parts.append(part)
            for line in lines:
                yield b"".join(parts)
                parts = [line]
            if sum(map(len, parts)) > _LINE_BYTES_MAX:
                raise SourceError(f"A node sent an event of more than {_LINE_BYTES_MAX:,} bytes.")

    def _get(self, connection: HTTPConnection, url: str, path: str, headers: dict[str, str]) -> HTTPResponse:
        connection.request("GET", urlsplit(url).path + path, headers=headers)
        response = connection.getresponse()
        if response.status in (408, 429) or response.status >= 500:
            raise HTTPException(f"{response.status} {response.reason}")
        if response.status != 200:
            raise SourceError(f"{url} refuses {path.partition('?')[0]}: {response.status} {response.reason}")
        return response

    def _require_site(self, url: str, site: str) -> None:
        """Raise SourceError for a node of another site: orders and messages of scope `site` differ."""
        if self.site not in ("", site):
            raise SourceError(f"{url} is a node of {site}, not of {self.site}: read each site with its own query.")
        self.site = site
