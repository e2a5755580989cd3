"""Shortage: whether the budget of a relay buffer can have run out for a message, so that a gap was justified.

Each message must have been so old, or have had so many behind it; with a spill its reason must also be possible.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from relay.replica.buffer import ENTRY_BYTES
from relay.replica.config import BufferConfig
from relay_lab.sim.process import Process
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId


class _Produce:
    """The entries of a site's relay buffer over time."""

    def __init__(self, processes: Sequence[Process], uniform: bool, total: bool) -> None:
        """With `agreement: uniform` a batch is buffered before any delivery, so the time of its send counts.

        Without a total order each member has another order, so only batches that preceded at all members count as
        earlier.
        """
        choose = min if total else max
        #: (origin, first number) of a batch -> the earliest time it can have been buffered (ns), its last number, its size.
        self.batches: dict[tuple[Address, int], tuple[int, int, int]] = {}
        delivered: dict[tuple[Address, int], int] = {}
        views: dict[ViewId, int] = {}
        for process in processes:
            for record in process.records:
                if isinstance(record, records.View):
                    views[record.vid] = min(record.t, views.get(record.vid, record.t))
                elif _is_produced(record, uniform):
                    assert isinstance(record, records.Deliver | records.Send)
                    key = (record.origin, record.first)
                    since, _, _ = self.batches.get(key, (record.t, 0, 0))
                    size = ENTRY_BYTES + len(record.sizes) + sum(struct.unpack(f"<{record.count}I", record.sizes))
                    self.batches[key] = (min(record.t, since), record.last, size)
                    if isinstance(record, records.Deliver):
                        delivered[key] = choose(record.t, delivered.get(key, record.t))
        same = [(t, ENTRY_BYTES) for t in views.values()]
        self._begun = _Totals([*same, *[(t, size) for t, _, size in self.batches.values()]])
        self._done = _Totals([*same, *[(t, self.batches[key][2]) for key, t in delivered.items()]])

    def within(self, gap: records.Gap) -> Iterator[tuple[Address, int, int, int]]:
        """Yield origin, first number, time, last number."""
        for (origin, first), (since, last, _) in sorted(self.batches.items()):
            if origin == gap.origin and last >= gap.first and first <= gap.last:
                yield origin, first, since, last

    def behind(self, since: int, until: int) -> tuple[int, int]:
        """Return the most entries that can have come between two times, both included, and their bytes."""
        (entries, size), (before, size_before) = self._begun.until(until), self._done.until(since - 1)
        return entries - before, size - size_before


class _Totals:
    def __init__(self, entries: list[tuple[int, int]]) -> None:
        entries.sort()
        self._times = [t for t, _ in entries]
        self._sizes = [0, *accumulate(size for _, size in entries)]

    def until(self, t: int) -> tuple[int, int]:
        count = bisect_right(self._times, t)
        return count, self._sizes[count]


class Shortage:
    """Judges gaps against the budget that all members of a run had."""

    def __init__(
        self,
        processes: Sequence[Process],
        budget: BufferConfig,
        uniform: bool = False,
        total: bool = True,
        disks_failed: Collection[str] = (),
        lacking: Mapping[tuple[str, str], Sequence[tuple[float, float]]] | None = None,
    ) -> None:
        """`disks_failed`: sites of failed disks; `lacking`: site, absent peer -> from when to when (s)."""
        self._lacking = lacking or {}
        self._budget = budget
        self._disks_failed = disks_failed
        self._uniform = uniform
        self._total = total
        self._by_site: dict[str, list[Process]] = {}
        for process in processes:
            self._by_site.setdefault(process.local.site, []).append(process)
        self._produce: dict[str, _Produce] = {}

    def objection(self, process: Process, gap: records.Gap) -> str:
        """Why a gap in the journal of this process is not justified; an empty text when it is."""
        produce = self._produce_of(gap.site)
        born_ns = min(int(p.records[0].t) for p in self._by_site[process.local.site])
        is_first = not _has_begun(process, gap)
        for origin, first, since, last in produce.within(gap):
            if gap.reason == "not_held" and self._held_nothing(gap, since, process.local.site):
                continue
            name = f"{gap.site}/{origin!r} {first}..{last}"
            if since < born_ns and is_first and self._budget.spill is None:  # it holds them for a site to come
                return f"{name} was sent before this site was there, and is declared lost instead of passed over"
            if not self._may_be_gone(produce, since, gap.t):
                return f"{name} is declared lost after {(gap.t - since) / 1e9:.3f} s, though the budget was not exceeded"
            if not _is_beyond_state(process, gap) and not self._may_be_off_disk(produce, since, gap, origin, first):
                return f"{name} is declared lost ({gap.reason}), though the spill of its relay may not have lost it so"
        return ""

    def was_removed(self, process: Process, gap: records.Gap) -> bool:
        """Whether the other site held none of a gap for this one, which was not among its peers."""
        begun = [since for _, _, since, _ in self._produce_of(gap.site).within(gap)]
        return bool(begun) and all(self._held_nothing(gap, since, process.local.site) for since in begun)

    def _produce_of(self, site: str) -> _Produce:
        if site not in self._produce:
            self._produce[site] = _Produce(self._by_site[site], self._uniform, self._total)
        return self._produce[site]

    def _may_be_off_disk(self, produce: _Produce, since: int, gap: records.Gap, origin: Address, first: int) -> bool:
        """Return whether a spill may have dropped entries: half of its bounds, as it drops segments of a sixteenth."""
        spill = self._budget.spill
        if spill is None:
            return True
        if gap.reason == "budget":
            _, size = produce.behind(since, gap.t)
            return size > spill.bytes // 2 or gap.t - since >= spill.age_s * 1e9 / 2
        if gap.reason == "disk":
            return gap.site in self._disks_failed
        return gap.reason != "not_held" or not self._relay_had(gap, origin, first)

    def _held_nothing(self, gap: records.Gap, since: int, site: str) -> bool:
        age_s = self._budget.budget_age_s
        spans = self._lacking.get((gap.site, site), ())
        return any(start + age_s <= min(end, gap.t / 1e9) and since < end * 1e9 for start, end in spans)

    def _relay_had(self, gap: records.Gap, origin: Address, first: int) -> bool:
        """Return whether the relay of that time had delivered the batch itself."""
        roles = [
            (record.t, process)
            for process in self._by_site[gap.site]
            for record in process.records
            if isinstance(record, records.Role) and record.role == "relay" and record.t <= gap.t
        ]
        relay = max(roles, key=lambda each: each[0], default=(0, None))[1]
        return relay is not None and any(
            isinstance(record, records.Deliver) and record.via == "local" and (record.origin, record.first) == (origin, first)
            for record in relay.records
        )

    def _may_be_gone(self, produce: _Produce, since: int, now: int) -> bool:
        """Return whether a full buffer, which drops to an eighth below its bound, may have dropped the entries."""
        budget = self._budget
        entries, size = produce.behind(since, now)
        return (
            now - since >= budget.budget_age_s * 1e9
            or entries > budget.budget_entries * 7 // 8
            or size > budget.budget_bytes * 7 // 8
        )


def _is_produced(record: records.Record, uniform: bool) -> bool:
    if isinstance(record, records.Send):
        return uniform and record.scope is Scope.ALL
    return isinstance(record, records.Deliver) and record.via == "local" and record.scope is Scope.ALL


def _is_beyond_state(process: Process, gap: records.Gap) -> bool:
    """Whether the process had adopted a state that ends before the gap, when the other site began after it."""
    begun = [record for record in process.records if isinstance(record, records.Baseline) and record.in_state]
    return any((each.t, each.site, each.origin, each.next) == (gap.t, gap.site, gap.origin, gap.first) for each in begun)


def _has_begun(process: Process, gap: records.Gap) -> bool:
    """Return whether the process knew the start of this origin's messages before the report of their loss (R29)."""
    for record in process.records:
        if record is gap:
            return False
        if isinstance(record, records.Baseline | records.Deliver | records.Gap) and record.origin == gap.origin:
            return True
    raise AssertionError("the gap is of this process")
