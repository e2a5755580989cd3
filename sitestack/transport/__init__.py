"""Transports, which carry a channel's datagrams to other members. The configuration chooses one."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sitestack.model.address import Physical
from sitestack.model.level import Level

if TYPE_CHECKING:
    from sitestack.transport.watch import WatchDesk


@dataclass(slots=True)
class TrafficStatistics:
    """Counters of every transport over sockets."""

    received_datagrams: int = 0
    received_bytes: int = 0
    sent_datagrams: int = 0
    sent_bytes: int = 0


class Transport(Protocol):
    """Unreliable datagrams to one physical address, or to all members of the site. Only `wait` blocks."""

    def physical(self) -> tuple[Physical, ...]:
        """Return the addresses that reach this member, best first (LA-6, LA-30)."""
        ...

    def listener(self) -> socket.socket | WatchDesk | None:
        """Return the listening TCP socket at which others watch this member, or a shared desk; None if
        a closed connection would prove nothing.
        """
        ...

    async def wait(self) -> None:
        """Wait until `receive` has work. Always a checkpoint."""
        ...

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return arrived datagrams with their sources, at most one turn's worth."""
        ...

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Send in order; None means all members. Count failures: the protocols above retransmit."""
        ...

    def close(self) -> None:
        """Release every resource. Idempotent."""
        ...

    def statistics(self) -> object:
        """Return a dataclass of counters, a copy."""
        ...

    def levels(self) -> dict[str, Level]:
        """Return every bounded quantity by its name."""
        ...
