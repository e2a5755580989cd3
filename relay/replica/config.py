"""The budget of the relay buffer and the bounds of its spill, as they are configured."""

from __future__ import annotations

from dataclasses import dataclass

from relay.replica.held_entries import ENTRIES_MAX
from sitestack.model.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """What each member keeps on its own disk of the entries that the budget drops, so that they are no gap.

    With it a site that was away for days is sent everything.
    """

    #: Bytes on the disk at most; beyond, the oldest entries become a gap. At least twice `relay.budget.bytes`.
    bytes: int = 16 << 30
    #: Seconds after its delivery at which an entry is dropped from the disk, a sixteenth of that later at most.
    age_s: float = 259_200.0
    #: Directory below which the process makes one for its files, and removes it when it ends. Empty: nothing is kept.
    directory: str = ""


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much is held for sites that cannot be reached. Beyond it the oldest entries are dropped: a gap at those sites."""

    #: Batches and views held at most. Each takes half a kilobyte of memory besides its body; the default is so high that
    #: `budget_bytes` is reached first.
    budget_entries: int = 262_144
    #: Bytes held at most: the bodies of the batches, and `ENTRY_BYTES` for each entry.
    budget_bytes: int = 64 * 1024 * 1024
    #: Seconds after its delivery here at which an entry is too old and is dropped.
    budget_age_s: float = 600.0
    #: What each member keeps on its own disk of the entries that are dropped, so that they are no gap; None: nothing.
    spill: SpillSettings | None = None

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a budget that cannot work."""
        if not 0 < self.budget_entries <= ENTRIES_MAX:
            raise ConfigurationError(f"the relay budget must be between 1 and {ENTRIES_MAX} entries, not {self.budget_entries}")
