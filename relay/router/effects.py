"""Effects: what the router asks its shell to do with connections, which are numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class Say(NamedTuple):
    """Send a frame to these connections. A datagram may be lost where there is no room, anything else may not."""

    clients: Sequence[int]
    frame: bytes
    is_datagram: bool = False


class Cut(NamedTuple):
    """Close a connection."""

    client: int
    reason: str


class Splice(NamedTuple):
    """From now on pass each byte of one connection on to the other one. What was said to them before leaves first."""

    listener: int
    caller: int


Effect: TypeAlias = Say | Cut | Splice
