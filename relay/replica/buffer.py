"""The relay buffer: what this site has delivered and some other site may not have yet, in stream order.

Every member holds the same entries at the same positions, because they come and go only by entries of the stream. So whoever
relays next has all that it needs (R3), and a second in line needs no state of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from relay.replica.held_entries import ENTRIES_MAX, HeldEntries, HeldEntry
from relay.replica.vectors import bound
from sitestack.model.address import Address
from sitestack.model.errors import ConfigurationError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Batch
from sitestack.model.view import View

#: What an entry costs besides the body of its batch.
ENTRY_BYTES = 256

#: While senders wait for a site nothing that it lacks goes for the budget, so this comes on top: the credit of eight members.
ON_THEIR_WAY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much is held for sites that cannot be reached. Beyond it the oldest entries go, and become a gap there."""

    #: Batches and views, each of which takes half a kilobyte of memory besides its body; so many that the bytes run out first.
    budget_entries: int = 262_144
    #: Bytes of bodies, with an allowance per entry.
    budget_bytes: int = 64 * 1024 * 1024
    #: Seconds since an entry was delivered here.
    budget_age_s: float = 600.0

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a budget that cannot work."""
        if not 0 < self.budget_entries <= ENTRIES_MAX:
            raise ConfigurationError(f"the relay budget must be between 1 and {ENTRIES_MAX} entries, not {self.budget_entries}")


@fast_frozen
@dataclass(frozen=True, slots=True)
class Entry(HeldEntry):
    """A batch of this site, or a view of it; `since` is when this member got it (it differs between members)."""

    size: int
    since: float
    #: What was appended here before it: so what is held from it on is a difference, and nobody has to look at all that.
    messages_before: int
    bytes_before: int


class Run(NamedTuple):
    """Consecutive numbers of one origin."""

    first: int
    last: int


class Buffer:
    """Entries at positions `first .. end - 1`.

    Bound: the coordinator casts a Trim as soon as the budget is exceeded, so what is above it is what is delivered until that
    comes back; when nothing can be cast, nothing is delivered either.
    """

    def __init__(self, config: BufferConfig) -> None:
        self.config = config
        self.bytes = 0
        self.bytes_high = 0
        #: The newest view that was dropped: the one in force before the first entry.
        self.base_view: View | None = None
        #: What the budget has taken last of each origin, in a row. Not replicated: it only says why something is gone.
        self._trimmed: dict[Address, Run] = {}
        self._entries: list[Entry] = []
        #: First and last number of each run that is held, kept up with the entries: a rewind does not walk through them.
        self._runs: dict[Address, deque[list[int]]] = {}
        #: Index of the first entry, and how many positions went before the list began.
        self._head = 0
        self._offset = 0
        #: All that was ever appended here.
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
    def is_overfull(self) -> bool:
        """More than the budget and what members can have on their way when they are told to wait."""
        return len(self) >= 2 * ENTRIES_MAX or self.bytes >= self.config.budget_bytes + ON_THEIR_WAY_BYTES

    def append(self, batch: Batch | None, view: View | None, now: float) -> int:
        """Add an entry; its position."""
        size = ENTRY_BYTES + (0 if batch is None else len(batch.body))
        self._entries.append(Entry(batch, view, size, now, self._messages, self._bytes))
        if batch is not None:
            self._messages += batch.count
            runs = self._runs.get(batch.origin)
            if runs is None:
                self._runs[batch.origin] = deque([[batch.first, batch.last]])
            elif runs[-1][1] + 1 == batch.first:
                runs[-1][1] = batch.last
            else:
                runs.append([batch.first, batch.last])
        self._bytes += size
        self.bytes += size
        self.bytes_high = max(self.bytes_high, self.bytes)
        return self.end - 1

    def at(self, position: int) -> Entry:
        """The entry at a position that is held."""
        assert self.first <= position < self.end
        return self._entries[position - self._offset]

    def held_from(self, position: int) -> tuple[int, int]:
        """The messages and the bytes from a position that is held to the end."""
        entry = self.at(position)
        return self._messages - entry.messages_before, self._bytes - entry.bytes_before

    def drop_through(self, position: int) -> int:
        """Drop all entries up to a position; how many there were."""
        dropped = 0
        while self.first <= position and self.first < self.end:
            self._drop_first()
            dropped += 1
        return dropped

    def trim(self, position: int) -> None:
        """Drop all entries up to a position, so that the budget holds."""
        for place in range(self.first, min(position + 1, self.end)):
            batch = self.at(place).batch
            if batch is not None:
                before = self._trimmed.pop(batch.origin, Run(batch.first, batch.first - 1))
                first = before.first if before.last + 1 == batch.first else batch.first
                self._trimmed[batch.origin] = Run(first, batch.last)
        bound(self._trimmed)
        self.drop_through(position)

    def drop_while(self, covered: Callable[[Entry], bool]) -> int:
        """Drop entries from the front as long as they are covered; how many there were."""
        dropped = 0
        while self.first < self.end and covered(self._entries[self._head]):
            self._drop_first()
            dropped += 1
        return dropped

    def _drop_first(self) -> None:
        entry = self._entries[self._head]
        self.bytes -= entry.size
        if entry.batch is not None:
            self._drop_numbers(entry.batch)
        if entry.view is not None and (self.base_view is None or self.base_view.id < entry.view.id):
            self.base_view = entry.view
        self._head += 1
        if self._head >= 1_024 and 2 * self._head >= len(self._entries):
            del self._entries[: self._head]
            self._offset += self._head
            self._head = 0

    def _drop_numbers(self, batch: Batch) -> None:
        """What is dropped first was appended first: it begins the first run of its origin."""
        runs = self._runs[batch.origin]
        if runs[0][1] > batch.last:
            runs[0][0] = batch.last + 1
        elif len(runs) > 1:
            runs.popleft()
        else:
            del self._runs[batch.origin]

    def excess(self, now: float) -> int | None:
        """The position up to which entries must go for the budget to hold; None when it holds.

        Once over, it goes an eighth below, so that a full buffer is not trimmed at every batch.
        """
        config = self.config
        over = len(self) > config.budget_entries or self.bytes > config.budget_bytes
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
        """When the oldest entry above this position will be too old; None when there is none."""
        position = max(self.first, after + 1)
        return self._due(self.at(position)) if position < self.end else None

    def _due(self, entry: Entry) -> float:
        """The one sum that both `excess` and `age_due` look at: a difference would round otherwise, and time stand still."""
        return entry.since + self.config.budget_age_s

    def runs(self) -> dict[Address, list[Run]]:
        """The numbers that are held, per origin and lowest first. One run that ends in the newest number is the rule.

        After a merge there may be holes, also at the end: a part that was away brings back what the others have let go.
        """
        return {origin: [Run(*run) for run in runs] for origin, runs in self._runs.items()}

    def reasons(self, origin: Address, first: int, last: int) -> list[tuple[Run, str]]:
        """Why these numbers, which are not held, are gone, lowest first: `budget` or `not_held`."""
        taken = self._trimmed.get(origin, Run(first, first - 1))
        parts = (
            (Run(first, min(last, taken.first - 1)), "not_held"),
            (Run(max(first, taken.first), min(last, taken.last)), "budget"),
            (Run(max(first, taken.last + 1), last), "not_held"),
        )
        return [(run, reason) for run, reason in parts if run.first <= run.last]

    def give(self) -> HeldEntries:
        """All entries, for a joiner."""
        return HeldEntries.of(self._entries[self._head :])

    def take(self, first: int, entries: Iterable[HeldEntry], base_view: View | None, now: float) -> None:
        """Start from what another member holds."""
        self._offset, self._head, self._entries, self.bytes = first, 0, [], 0
        self._runs = {}
        self.base_view = base_view
        for entry in entries:
            self.append(entry.batch, entry.view, now)
        held = self._runs
        for origin in [each for each in held if each in self._trimmed and self._trimmed[each].last >= held[each][0][0]]:
            del self._trimmed[origin]  # another part of the site had it still: that part knows why it goes
