"""Relay buffer: batches and views of this site that other sites may lack, in stream order.

Only entries of the stream add and remove them, so all members hold the same and any can relay (R3).
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

#: Bytes that each entry counts against the budget, on top of its batch's body.
ENTRY_BYTES = 256

#: Bytes by which the buffer may exceed its budget while senders wait: the credit of eight members.
ON_THEIR_WAY_BYTES = 32 * 1024 * 1024


_DROPPED = Entry(None, None, 0, 0.0, 0, 0)


class Buffer:
    """Entries at positions `first .. end - 1`.

    Bound: the coordinator casts a Trim once the budget is exceeded.
    """

    def __init__(self, config: BufferConfig, disk: SpillDisk | None = None) -> None:
        """`disk`: where a configured spill goes."""
        self.config = config
        self.bytes = 0
        self.bytes_high = 0
        #: The view in force before the first entry.
        self.base_view: View | None = None
        self._gone = Gone()
        #: not replicated
        self.spill = None if config.spill is None or disk is None else Spill(config.spill, disk, self._gone)
        self._entries: list[Entry] = []
        #: The numbers in memory. After a merge there may be holes, also at the end.
        self.numbers = HeldNumbers()
        #: Positions of the oldest entry, and behind the newest one.
        self.first = self.end = 0
        #: Position of the first place in the list.
        self._offset = 0
        self._messages = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def is_over_budget(self) -> bool:
        """True when entries or bytes exceed the budget, regardless of age."""
        return len(self) > self.config.budget_entries or self.bytes > self.config.budget_bytes

    @property
    def is_overfull(self) -> bool:
        """True above budget and reserve: even entries that senders wait for are then dropped."""
        return len(self) >= 2 * ENTRIES_MAX or self.bytes >= self.config.budget_bytes + ON_THEIR_WAY_BYTES

    def append(self, batch: Batch | None, view: View | None, now: float) -> int:
        size = ENTRY_BYTES + (0 if batch is None else len(batch.body))
        self._entries.append(Entry(batch, view, size, now, self._messages, self._bytes))
        if batch is not None:
            self._messages += batch.count
            self.numbers.append(batch)
        self._bytes += size
        self.bytes += size
        self.bytes_high = max(self.bytes_high, self.bytes)
        self.end += 1
        return self.end - 1

    def at(self, position: int) -> Entry:
        assert self.first <= position < self.end
        return self._entries[position - self._offset]

    def held_from(self, position: int) -> tuple[int, int]:
        entry = self._entries[position - self._offset]
        return self._messages - entry.messages_before, self._bytes - entry.bytes_before

    def drop_through(self, position: int) -> None:
        while self.first <= position and self.first < self.end:
            self._drop_first()

    def trim(self, position: int) -> None:
        """Drop entries up to and including a position for the budget: to the disk, or noted as gone."""
        entries = self._entries[self.first - self._offset : max(position + 1, self.first) - self._offset]
        if self.spill is not None:
            self.spill.append(self.first, entries, self.base_view)
        else:
            for entry in entries:
                if entry.batch is not None:
                    self._gone.note(entry.batch.origin, Run(entry.batch.first, entry.batch.last), GapReason.BUDGET)
        self.drop_through(position)

    def clear(self) -> None:
        if self.spill is not None:
            self.spill.clear()
        self.drop_through(self.end - 1)

    def drop_while(self, covered: Callable[[Entry], bool]) -> None:
        """Drop entries from the front while they are `covered`."""
        while self.first < self.end and covered(self._entries[self.first - self._offset]):
            self._drop_first()

    def _drop_first(self) -> None:
        place = self.first - self._offset
        entry = self._entries[place]
        self.bytes -= entry.size
        if entry.batch is not None:
            self.numbers.drop(entry.batch)
        if entry.view is not None and (self.base_view is None or self.base_view.id < entry.view.id):
            self.base_view = entry.view
        self._entries[place] = _DROPPED  # releases the body at once
        self.first += 1
        if place >= 1_023 and 2 * (place + 1) >= len(self._entries):
            del self._entries[: place + 1]
            self._offset = self.first

    def change_budget(self, entries: int, size: int) -> None:
        self.config = replace(self.config, budget_entries=entries, budget_bytes=size)

    def is_in_excess(self, now: float) -> bool:
        """Return whether `excess` would find entries; cheap, since every turn calls it."""
        return self.first < self.end and (self.is_over_budget or now >= self._due(self.at(self.first)))

    def excess(self, now: float) -> int | None:
        """Return the position up to which to drop entries for the budget; None within it. An exceeded
        budget is trimmed to an eighth below it.
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
        """Return when (s) the oldest entry above position `after` becomes too old, or None."""
        position = after + 1 if after >= self.first else self.first
        return self._due(self._entries[position - self._offset]) if position < self.end else None

    def _due(self, entry: Entry) -> float:
        """Return when (s) an entry becomes too old.

        `excess` and `age_due` must share this sum: `now - since` rounds differently, and virtual
        time would stall.
        """
        return entry.since + self.config.budget_age_s

    def all_runs(self) -> dict[Address, list[Run]]:
        """Return the runs of numbers in memory or on the disk, per origin, lowest first."""
        held = self.numbers.runs()
        if self.spill is None or not len(self.spill):
            return held
        spilled = self.spill.runs()
        return {origin: joined([*spilled.get(origin, ()), *held.get(origin, ())]) for origin in {**spilled, **held}}

    def base_before(self, position: int) -> View | None:
        """Return the view in force before the entries from a position on, in memory or on the disk."""
        segment = None if self.spill is None or position >= self.first else self.spill.segment_from(position)
        return self.base_view if segment is None else segment.base

    def reasons(self, origin: Address, first: int, last: int) -> list[tuple[Run, GapReason]]:
        """Return why these numbers are gone: runs, lowest first, each with its reason."""
        return self._gone.explain(origin, first, last) if first <= last else []

    def batches(self) -> Iterator[Batch]:
        return (entry.batch for entry in self._entries[self.first - self._offset :] if entry.batch is not None)

    def give(self) -> HeldEntries:
        return HeldEntries.of(self._entries[self.first - self._offset :])

    def adopt_entries(self, first: int, entries: Iterable[HeldEntry], base_view: View | None, now: float) -> None:
        self.first = self.end = self._offset = first
        self._entries, self.bytes = [], 0
        self.numbers = HeldNumbers()
        self.base_view = base_view
        for entry in entries:
            self.append(entry.batch, entry.view, now)
        self._gone.held_again(self.numbers.runs())
