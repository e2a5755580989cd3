"""Outboxes: what waits to be taken by each connection, bounded for each and for all together.

A datagram that does not fit is lost, as on any network, and counted; the protocols of the members send it again. Whatever else
does not fit ends the connection: its member would not know any more who is there.
"""

from __future__ import annotations

from collections import deque

from sitestack.model.level import Level

#: Bytes that wait for one connection, and for all together, at most.
OUTBOX_BYTES_MAX = 8 << 20
TOTAL_BYTES_MAX = 256 << 20
#: Bytes by which what is no datagram may exceed that: it still fits when datagrams have filled the outbox of a busy member.
NOTICE_BYTES_MAX = 1 << 20
#: Bytes that are written to a connection at a time.
WRITE_BYTES = 256 * 1024


class Outboxes:
    """The frames that wait, by connection."""

    def __init__(self, outbox_bytes_max: int = OUTBOX_BYTES_MAX, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self.lost_datagrams = 0
        self.sent_bytes = 0
        self._outbox_bytes_max = outbox_bytes_max
        self._frames: dict[int, deque[bytes]] = {}
        self._bytes: dict[int, int] = {}
        self._total = Level(total_bytes_max)

    def open(self, client: int) -> None:
        """Begin to keep what this connection is to be sent."""
        self._frames[client] = deque()
        self._bytes[client] = 0

    def close(self, client: int) -> None:
        """Throw away what waits for a connection."""
        self._frames.pop(client, None)
        self._total.now -= self._bytes.pop(client, 0)

    def put(self, client: int, frame: bytes, *, is_datagram: bool) -> bool:
        """Have a frame wait. False when there is no room for what may not be lost."""
        waiting = self._bytes.get(client)
        if waiting is None:
            return True  # it has gone meanwhile
        size = len(frame)
        if is_datagram and not (waiting + size <= self._outbox_bytes_max and self._total.fits(size)):
            self.lost_datagrams += 1
            return True
        if waiting + size > self._outbox_bytes_max + NOTICE_BYTES_MAX:
            return False
        self._frames[client].append(frame)
        self._bytes[client] = waiting + size
        self._total.add(size)
        return True

    def next_bytes(self, client: int) -> bytes:
        """The next bytes to write, about WRITE_BYTES at most; empty when nothing waits."""
        frames = self._frames.get(client)
        if not frames:
            return b""
        taken, size = [], 0
        while frames and size < WRITE_BYTES:
            frame = frames.popleft()
            taken.append(frame)
            size += len(frame)
        self._bytes[client] -= size
        self._total.now -= size
        self.sent_bytes += size
        return b"".join(taken)

    def levels(self) -> dict[str, Level]:
        """What waits for all, and for the connection for which most does."""
        longest = max(self._bytes.values(), default=0)
        bound = self._outbox_bytes_max + NOTICE_BYTES_MAX
        return {"queued_bytes": Level.of(longest, bound), "total_queued_bytes": self._total}
