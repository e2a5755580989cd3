"""Relay buffer: the batches and views of this site that some other site may still lack, in stream order.

All members hold the same entries at the same positions, because only entries of the stream add and remove them. So any member
can take over relaying with a complete buffer (R3), and a second in line keeps no state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from relay.replica.config import BufferConfig
from relay.replica.gone import Gone, HeldNumbers, Run, joined
from relay.replica.held_entries import ENTRIES_MAX, Entry, HeldEntries, HeldEntry
from relay.replica.spill import Spill, SpillDisk
from sitestack.model.address import Address
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch
from sitestack.model.view import View

#: Bytes that each entry counts against the budget, on top of the body of its batch.
ENTRY_BYTES = 256

#: Bytes by which the buffer may exceed its budget: the credit of eight members. While senders wait for a site, the budget takes
#: nothing that this site lacks, and the members' messages that are under way already come on top.
ON_THEIR_WAY_BYTES = 32 * 1024 * 1024


#: Stands in the list for what was dropped.
_DROPPED = Entry(None, None, 0, 0.0, 0, 0)


class Buffer:
    """Entries at positions `first .. end - 1`.

    Bound: the coordinator casts a Trim as soon as the budget is exceeded, so the excess is what is delivered before that Trim
    comes back through the stream. When nothing can be cast, nothing is delivered either.
    """

    def __init__(self, config: BufferConfig, disk: SpillDisk | None = None) -> None:
        """With a spill configured `disk` is where it goes; without a disk there is none."""
        self.config = config
        self.bytes = 0
        self.bytes_high = 0
        #: The newest view that was dropped: the view in force before the first entry.
        self.base_view: View | None = None
        self._gone = Gone()
        #: Not replicated: what the budget took, as far as this member has it on its disk.
        self.spill = None if config.spill is None or disk is None else Spill(config.spill, disk, self._gone)
        self._entries: list[Entry] = []
        #: The numbers in memory. After the merge of a split site there may be holes, also at the end: one part still holds what
        #: the others dropped.
        self.numbers = HeldNumbers()
        #: Index of the oldest entry in the list; the dropped entries before it are cut off in bulk.
        self._head = 0
        #: Position of the list's first element.
        self._offset = 0
        #: Messages and bytes appended since the beginning, those dropped since included.
        self._messages = 0
        self._bytes = 0

    @property
    def first(self) -> int:
        """The position of the oldest entry."""
        return self._offset + self._head

    @property
    def end(self) -> int:
        """The position that the next entry will have."""
        return self._offset + len(self._entries)

    def __len__(self) -> int:
        return len(self._entries) - self._head

    @property
    def is_over_budget(self) -> bool:
        """True when entries or bytes exceed the budget; some may be too old besides."""
        return len(self) > self.config.budget_entries or self.bytes > self.config.budget_bytes

    @property
    def is_overfull(self) -> bool:
        """True above the budget and what may come on top: from here on the budget takes also what senders wait for."""
        return len(self) >= 2 * ENTRIES_MAX or self.bytes >= self.config.budget_bytes + ON_THEIR_WAY_BYTES

    def append(self, batch: Batch | None, view: View | None, now: float) -> int:
        """Append a batch or a view, delivered at `now`; returns its position."""
        size = ENTRY_BYTES + (0 if batch is None else len(batch.body))
        self._entries.append(Entry(batch, view, size, now, self._messages, self._bytes))
        if batch is not None:
            self._messages += batch.count
            self.numbers.append(batch)
        self._bytes += size
        self.bytes += size
        self.bytes_high = max(self.bytes_high, self.bytes)
        return self.end - 1

    def at(self, position: int) -> Entry:
        """The entry at a position, which must be held."""
        assert self.first <= position < self.end
        return self._entries[position - self._offset]

    def held_from(self, position: int) -> tuple[int, int]:
        """Number of messages and bytes from a held position to the end of the buffer."""
        entry = self.at(position)
        return self._messages - entry.messages_before, self._bytes - entry.bytes_before

    def drop_through(self, position: int) -> None:
        """Drop all entries up to and including a position."""
        while self.first <= position and self.first < self.end:
            self._drop_first()

    def trim(self, position: int) -> None:
        """Drop all entries up to and including a position for the budget's sake: to the disk, or with a note that they went."""
        entries = self._entries[self._head : max(position + 1 - self._offset, self._head)]
        if self.spill is not None:
            self.spill.append(self.first, entries, self.base_view)
        else:
            for entry in entries:
                if entry.batch is not None:
                    self._gone.note(entry.batch)
        self.drop_through(position)

    def clear(self) -> None:
        """Drop everything, also what is on the disk: nothing is held for anybody."""
        if self.spill is not None:
            self.spill.clear()
        self.drop_through(self.end - 1)

    def drop_while(self, covered: Callable[[Entry], bool]) -> None:
        """Drop entries from the front as long as they are `covered`."""
        while self.first < self.end and covered(self._entries[self._head]):
            self._drop_first()

    def _drop_first(self) -> None:
        entry = self._entries[self._head]
        self.bytes -= entry.size
        if entry.batch is not None:
            self.numbers.drop(entry.batch)
        if entry.view is not None and (self.base_view is None or self.base_view.id < entry.view.id):
            self.base_view = entry.view
        self._entries[self._head] = _DROPPED  # or the body would stay until the list is shortened
        self._head += 1
        if self._head >= 1_024 and 2 * self._head >= len(self._entries):
            del self._entries[: self._head]
            self._offset += self._head
            self._head = 0

    def change_budget(self, entries: int, size: int) -> None:
        """Hold so many entries and bytes from now on; what exceeds them is found in excess at the next look."""
        self.config = replace(self.config, budget_entries=entries, budget_bytes=size)

    def is_in_excess(self, now: float) -> bool:
        """True when `excess` finds something: asked at each turn, so it looks at no entry but the oldest."""
        return self.first < self.end and (self.is_over_budget or now >= self._due(self.at(self.first)))

    def excess(self, now: float) -> int | None:
        """The position up to which entries must be dropped for the budget to hold; None when it holds.

        An exceeded budget is trimmed to an eighth below it, so that a full buffer is not trimmed at every batch.
        """
        config, over = self.config, self.is_over_budget
        keep_entries = config.budget_entries * 7 // 8 if over else config.budget_entries
        keep_bytes = config.budget_bytes * 7 // 8 if over else config.budget_bytes
        size, position = self.bytes, self.first
        while position < self.end:
            entry = self.at(position)
            if self.end - position <= keep_entries and size <= keep_bytes and now < self._due(entry):
                break
            size -= entry.size
            position += 1
        return position - 1 if position > self.first else None

    def age_due(self, after: int) -> float | None:
        """Time (s) at which the oldest entry above position `after` becomes too old; None when there is no such entry."""
        position = max(self.first, after + 1)
        return self._due(self.at(position)) if position < self.end else None

    def _due(self, entry: Entry) -> float:
        """Time (s) at which an entry becomes too old.

        `excess` and `age_due` must use this same sum: `now - since` rounds differently, so at the time that `age_due` names
        `excess` could find nothing too old, and virtual time would stand still.
        """
        return entry.since + self.config.budget_age_s

    def all_runs(self) -> dict[Address, list[Run]]:
        """The runs of numbers that are held in memory or on this member's disk, per origin, lowest first."""
        held = self.numbers.runs()
        if self.spill is None or not len(self.spill):
            return held
        spilled = self.spill.runs()
        return {origin: joined([*spilled.get(origin, ()), *held.get(origin, ())]) for origin in {**spilled, **held}}

    def base_before(self, position: int) -> View | None:
        """The view in force before what is held from a position on, in memory or on the disk."""
        segment = None if self.spill is None or position >= self.first else self.spill.segment_from(position)
        return self.base_view if segment is None else segment.base

    def reasons(self, origin: Address, first: int, last: int) -> list[tuple[Run, GapReason]]:
        """Why these numbers, none of which is held, are gone: runs, lowest first, each with its reason."""
        return self._gone.explain(origin, first, last) if first <= last else []

    def batches(self) -> Iterator[Batch]:
        """The batches that are held, in order."""
        return (entry.batch for entry in self._entries[self._head :] if entry.batch is not None)

    def give(self) -> HeldEntries:
        """All entries that are held, for a joiner."""
        return HeldEntries.of(self._entries[self._head :])

    def adopt_entries(self, first: int, entries: Iterable[HeldEntry], base_view: View | None, now: float) -> None:
        """Replace the contents by what another member holds, its first entry at position `first`."""
        self._offset, self._head, self._entries, self.bytes = first, 0, [], 0
        self.numbers = HeldNumbers()
        self.base_view = base_view
        for entry in entries:
            self.append(entry.batch, entry.view, now)
        self._gone.held_again(self.numbers.runs())
