"""How datagrams reach the other members: a channel needs a `Transport`; which one is the configuration's affair."""

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
    """Counters that every transport over sockets has."""

    received_datagrams: int = 0
    received_bytes: int = 0
    sent_datagrams: int = 0
    sent_bytes: int = 0


class Transport(Protocol):
    """Unreliable datagrams to one physical address, or to everybody in the site. Nothing but `wait` waits."""

    def physical(self) -> tuple[Physical, ...]:
        """Where the others can reach this member, best first (LA-6, LA-30)."""
        ...

    def listener(self) -> socket.socket | WatchDesk | None:
        """The listening TCP socket at which others watch this member, or the desk at one that several members share.

        None where a closed connection would say nothing.
        """
        ...

    async def wait(self) -> None:
        """Wait until `receive` has something to do. Always a checkpoint."""
        ...

    def receive(self) -> list[tuple[bytes, Physical]]:
        """What has arrived, at most one turn's worth, with where it came from."""
        ...

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Send, in order; None means everybody. What cannot be sent is counted: the protocols above repair it."""
        ...

    def close(self) -> None:
        """Give back every resource. Closing twice is allowed."""
        ...

    def statistics(self) -> object:
        """A dataclass of counters: a copy, which stays as it is."""
        ...

    def levels(self) -> dict[str, Level]:
        """Everything that has a bound, by its name."""
        ...
