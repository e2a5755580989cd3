"""Messages that are not sent yet: one stream for each scope of multicasts, and one for each target of unicasts.

A stream gives its messages their numbers. A helper of batching, not a layer.
"""

from __future__ import annotations

from enum import IntFlag

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.message import UNICASTS, Scope

#: Targets at most: each has a counter that is never given up, since its numbers must not be used twice.
TARGETS_MAX = 100_000


class Manner(IntFlag):
    """How messages are sent. A batch holds messages of one manner only."""

    PLAIN = 0
    #: Not handed to the sender's own application (`loopback=False`).
    SILENT = 1
    #: In envelopes.
    ENVELOPED = 2
    #: In envelopes, from channel to channel: no application is shown it.
    INTERNAL = 6
    #: In envelopes, and with keys: each is a batch of its own, to be shown or not.
    KEYED = 10


class BatchStream:
    """The messages of one scope and target: full batches that wait to be sent, and the one that is filling."""

    __slots__ = ("body_bytes", "full", "manner", "next_back", "next_number", "payloads", "scope", "target")

    def __init__(self, scope: Scope, target: Address | None = None) -> None:
        self.scope = scope
        self.target = target
        self.next_number = 1
        #: The number that is delivered back here next (multicasts only); sent messages from here on are on their way.
        self.next_back = 1
        self.full: list[tuple[list[bytes], Manner]] = []
        self.payloads: list[bytes] = []
        #: Of the messages of the open batch.
        self.manner = Manner.PLAIN
        self.body_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self.payloads or self.full)

    def cut(self) -> None:
        """Count the open batch as full; the next message begins another one."""
        if self.payloads:
            self.full.append((self.payloads, self.manner))
            self.payloads = []
            self.body_bytes = 0

    def pop_payloads(self) -> tuple[list[bytes], Manner]:
        """The messages of the next batch, and how they are sent."""
        if self.full:
            return self.full.pop(0)
        payloads, self.payloads, self.body_bytes = self.payloads, [], 0
        return payloads, self.manner


class Targets:
    """The streams of all targets that were ever sent to, and separately the few that have something to send."""

    def __init__(self, site: str) -> None:
        self._site = site
        #: Bounded by TARGETS_MAX: a further target is refused with LocalError.
        self._lines: dict[Scope, dict[Address, BatchStream]] = {scope: {} for scope in UNICASTS}
        self._open: dict[Scope, dict[Address, BatchStream]] = {scope: {} for scope in UNICASTS}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def open(self, target: Address, scope: Scope) -> BatchStream:
        """The stream of a target, which is about to get a message.

        Raises LocalError after TARGETS_MAX targets, or when a message out of band is not for a member of this site.
        """
        lines = self._lines[scope]
        line = lines.get(target)
        if line is None:
            if len(lines) >= TARGETS_MAX:
                raise LocalError(f"messages to more than {TARGETS_MAX} targets")
            if isinstance(target, ProxyUUID):
                if target.site == self._site:
                    return self.open(target.original, scope)
                if scope is Scope.OOB:
                    raise LocalError(f"{target} is in another site, which nothing reaches out of band")
            line = lines[target] = BatchStream(scope, target)
        self._open[scope][target] = line
        return line

    def has_open(self) -> bool:
        """Whether any stream has something to send."""
        return any(self._open.values())

    def pop_streams(self, scope: Scope) -> list[BatchStream]:
        """The streams that have something to send, the longest waiting first. The caller has to send all of it now."""
        opened = self._open[scope]
        if not opened:
            return []
        lines = list(opened.values())
        opened.clear()
        return lines
