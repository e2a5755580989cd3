"""Unsent messages: one stream for each scope of multicasts, and one for each target of unicasts."""

from __future__ import annotations

from enum import IntFlag

from sitestack.model.address import Address, ProxyUUID, with_site
from sitestack.model.errors import LocalError
from sitestack.model.message import UNICASTS, Scope

#: Maximum targets: each has a permanent counter.
TARGETS_MAX = 100_000


class Manner(IntFlag):
    """How messages are sent. A batch holds messages of one manner only."""

    PLAIN = 0
    #: Not delivered to the sender's own application (`loopback=False`).
    SILENT = 1
    ENVELOPED = 2
    #: In envelopes, between channels: not delivered to an application.
    INTERNAL = 6
    #: In envelopes, and with keys: a separate batch each, unless all receivers split batches
    #: (`keys_share_batches`).
    KEYED = 10


class BatchStream:
    """The messages of one scope and target: full batches, and the one that is filling."""

    __slots__ = ("body_bytes", "full", "manner", "next_back", "next_number", "payloads", "scope", "target")

    def __init__(self, scope: Scope, target: Address | None = None) -> None:
        self.scope = scope
        self.target = target
        self.next_number = 1
        #: The number that is delivered back here next (multicasts only).
        self.next_back = 1
        self.full: list[tuple[list[bytes], Manner]] = []
        self.payloads: list[bytes] = []
        self.manner = Manner.PLAIN
        self.body_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not (self.payloads or self.full)

    def cut(self) -> None:
        """Count the open batch as full."""
        if self.payloads:
            self.full.append((self.payloads, self.manner))
            self.payloads = []
            self.body_bytes = 0

    def pop_payloads(self) -> tuple[list[bytes], Manner]:
        if self.full:
            return self.full.pop(0)
        payloads, self.payloads, self.body_bytes = self.payloads, [], 0
        return payloads, self.manner


class Targets:
    """The streams of all targets ever used, and separately the few with unsent messages."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._lines: dict[Scope, dict[ProxyUUID, BatchStream]] = {scope: {} for scope in UNICASTS}
        self._open: dict[Scope, dict[ProxyUUID, BatchStream]] = {scope: {} for scope in UNICASTS}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def open(self, target: Address, scope: Scope) -> BatchStream:
        """Return the stream of a target for the next message.

        Raise LocalError after TARGETS_MAX targets, or for an out-of-band message to a non-member.
        """
        to = with_site(target, self._site)
        lines = self._lines[scope]
        line = lines.get(to)
        if line is None:
            if len(lines) >= TARGETS_MAX:
                raise LocalError(f"messages to more than {TARGETS_MAX} targets")
            is_here = to.site == self._site
            if scope is Scope.OOB and not is_here:
                raise LocalError(f"{to} is in another site; send to it without oob")
            line = lines[to] = BatchStream(scope, to.original if is_here else to)
        self._open[scope][to] = line
        return line

    def has_open(self) -> bool:
        return any(self._open.values())

    def pop_streams(self, scope: Scope) -> list[BatchStream]:
        """Return and remove the streams with unsent messages, the longest waiting first."""
        opened = self._open[scope]
        if not opened:
            return []
        lines = list(opened.values())
        opened.clear()
        return lines
