"""LeastPace: which lineages are too slow for senders to wait for. A lineage whose link is cut has pace 0."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relay.gateway.link_table import Key, LinkTable
from relay.gateway.watermarks import Watermarks
from relay.replica.entries import LinkPace
from relay.replica.pace import Pace
from relay.replica.state import ReplicatedState


@dataclass(frozen=True, slots=True)
class _Mark:
    """Start of a measurement: a time (s), and bytes acknowledged on the link."""

    since: float
    acked_bytes: int
    #: The end of the buffer then: a lineage that has all entries before it keeps up.
    end: int


class LeastPace:
    """Measures slow lineages and those that senders wait for.

    Bound: a mark per replicated lineage.
    """

    def __init__(
        self,
        state: ReplicatedState,
        pace: Pace,
        table: LinkTable,
        watermarks: Watermarks,
        least_bytes_s: int,
        grace_s: float,
    ) -> None:
        self._watermarks = watermarks
        self._state = state
        self._pace = pace
        self._table = table
        self._least_bytes_s = least_bytes_s
        self._grace_s = grace_s
        self._marks: dict[Key, _Mark] = {}
        #: When (s) `due` must be called; None without marks.
        self.next_due: float | None = None

    def start(self) -> None:
        self._marks.clear()
        self.next_due = None

    def due(self, now: float) -> list[LinkPace]:
        waiting = self._pace.waits_for()
        if not waiting and not self._marks and not self._are_slow():
            return []
        entries: list[LinkPace] = []
        marks, self._marks = self._marks, {}
        for site, remote in self._state.remotes.items():
            if self._pace.waits_however_long(site):
                continue
            waited_for = self._pace.waited_for(site)
            marked = any((site, name) in marks for name, _ in waited_for) and self._pace.is_near_budget(site)
            lagging = waited_for if site in waiting or marked else []
            for name, lineage in [*lagging, *[(name, each) for name, each in remote.lineages.items() if each.is_slow]]:
                key, acked, end = (site, name), self._table.acked_bytes((site, name)), self._state.buffer.end
                mark = marks.get(key, _Mark(now, acked, end))
                if acked < mark.acked_bytes:
                    mark = replace(mark, acked_bytes=0)
                # twice the least pace, so that the state does not flap
                least_bytes = self._least_bytes_s * self._grace_s
                least, last = (2 * least_bytes, end) if lineage.is_slow else (least_bytes, mark.end)
                last = min(last, self._watermarks.sendable + 1)
                keeps_up = acked - mark.acked_bytes >= least or lineage.lacks_from(self._state.buffer) >= last
                is_time = now >= mark.since + self._grace_s
                if keeps_up is lineage.is_slow and (keeps_up or is_time):
                    entries.append(LinkPace(site, name, not keeps_up))
                self._marks[key] = _Mark(now, acked, end) if keeps_up or is_time else mark
        self.next_due = min([mark.since for mark in self._marks.values()]) + self._grace_s if self._marks else None
        return entries

    def _are_slow(self) -> bool:
        for remote in self._state.remotes.values():
            for lineage in remote.lineages.values():
                if lineage.is_slow:
                    return True
        return False
