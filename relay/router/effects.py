"""Effects: instructions of the router to its shell. Connections are numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class Say(NamedTuple):
    """Send a frame to these connections. Only a datagram may be lost when an outbox is full."""

    clients: Sequence[int]
    frame: bytes
    is_datagram: bool = False


class Cut(NamedTuple):
    client: int
    reason: str


class Splice(NamedTuple):
    """Forward all further bytes between two connections, after their queued frames."""

    listener: int
    caller: int


Effect: TypeAlias = Say | Cut | Splice
