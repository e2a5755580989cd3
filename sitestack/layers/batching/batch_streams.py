"""Messages that are in no batch yet, in lines: one for each scope of multicasts, and one for each target of unicasts.

A line numbers what goes through it. A helper of batching, not a layer.
"""

from __future__ import annotations

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.message import UNICASTS, Scope

#: Each target has a counter that is never given up, since its numbers must not be used twice; so their number is bounded.
TARGETS_MAX = 100_000


class BatchStream:
    """Messages of one scope and target: some full batches to be, and the one that is filling."""

    __slots__ = ("body_bytes", "full", "next_back", "next_number", "payloads", "scope", "silent", "target")

    def __init__(self, scope: Scope, target: Address | None = None) -> None:
        self.scope = scope
        self.target = target
        self.next_number = 1
        #: The number that comes back up next (only for multicasts); what is sent and not back is on its way.
        self.next_back = 1
        self.full: list[tuple[list[bytes], bool]] = []
        self.payloads: list[bytes] = []
        #: The open batch is of messages that were sent with `loopback=False`. A batch holds messages of one kind only.
        self.silent = False
        self.body_bytes = 0

    def cut(self) -> None:
        """The one that is filling is full."""
        if self.payloads:
            self.full.append((self.payloads, self.silent))
            self.payloads = []
            self.body_bytes = 0

    def take(self) -> tuple[list[bytes], bool]:
        """The messages of the next batch, and whether it is silent."""
        if self.full:
            return self.full.pop(0)
        payloads, self.payloads, self.body_bytes = self.payloads, [], 0
        return payloads, self.silent


class Targets:
    """The lines of all targets that were ever sent to, and apart from them the few that have something to send."""

    def __init__(self, site: str) -> None:
        self._site = site
        #: Bounded by TARGETS_MAX: one more is refused with LocalError.
        self._lines: dict[Scope, dict[Address, BatchStream]] = {scope: {} for scope in UNICASTS}
        self._open: dict[Scope, dict[Address, BatchStream]] = {scope: {} for scope in UNICASTS}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def open(self, target: Address, scope: Scope) -> BatchStream:
        """The line to a target, which is about to have something to send.

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
        """Whether any line has something to send."""
        return any(self._open.values())

    def take(self, scope: Scope) -> list[BatchStream]:
        """The lines that have something to send, of which all is to be taken now; the one that has had it longest first."""
        opened = self._open[scope]
        if not opened:
            return []
        lines = list(opened.values())
        opened.clear()
        return lines
