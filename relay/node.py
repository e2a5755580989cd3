"""Node: one member of one site, whole and pure: a stack with the relay layer in it, and what it wants from the shell, sorted.

The shell (trio, or the simulator) hands in what happened, calls `expire` when `deadline` is due, and `flush` once a turn; then
it carries out the turn: events first (journal, application), then datagrams and the bridge.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.events import BridgeEffect
from sitestack.address import Address, Physical
from sitestack.events import Event
from sitestack.frame import Frame
from sitestack.stack import Stack


@dataclass(frozen=True, slots=True)
class NodeTurn:
    """What the shell has to do at the end of a turn."""

    #: For the application and the journal, in stream order.
    events: tuple[Event | Frame, ...]
    #: (where to, or None for multicast; bytes).
    datagrams: tuple[tuple[Physical | None, bytes], ...]
    #: For the TCP connections to other sites, in order.
    bridge: tuple[BridgeEffect, ...]


class Node:
    """A member."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    @property
    def address(self) -> Address:
        """The member's address."""
        return self.stack.address

    def down(self, event: Event | Frame, now: float) -> None:
        """From the application (`Connect`, `Disconnect`, frames) and about the bridge (`BridgeReceived` and its like)."""
        self.stack.down(event, now)

    def receive(self, data: bytes, source: Physical, now: float) -> None:
        """A datagram."""
        self.stack.receive(data, source, now)

    def expire(self, now: float) -> None:
        """Run what is due."""
        self.stack.expire(now)

    def deadline(self) -> float | None:
        """When `expire` wants to be called; None for never."""
        return self.stack.deadline()

    def flush(self, now: float) -> NodeTurn:
        """End a turn."""
        turn = self.stack.flush(now)
        events = tuple([event for event in turn.events if not isinstance(event, BridgeEffect)])
        bridge = tuple([event for event in turn.events if isinstance(event, BridgeEffect)])
        return NodeTurn(events, turn.datagrams, bridge)
