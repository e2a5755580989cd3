from __future__ import annotations

from dataclasses import dataclass

from relay.replica.held_entries import ENTRIES_MAX
from sitestack.model.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """Trimmed entries kept on each member's own disk, so that they are no gap."""

    #: Maximum bytes on the disk; beyond, the oldest entries become a gap. At least twice `relay.budget.bytes`.
    bytes: int = 16 << 30
    #: Time from delivery until an entry leaves the disk; up to a sixteenth longer.
    age_s: float = 259_200.0
    #: Directory in which the process makes one for its spill files, and removes it when it ends. Empty: no
    #: spill.
    directory: str = ""


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """Budget of entries held for unreachable sites. Beyond it the oldest become a gap."""

    #: Maximum number of batches and views. Each costs half a kilobyte besides its body; by default
    #: `budget_bytes` is reached first.
    budget_entries: int = 262_144
    #: Maximum bytes: the bodies of the batches, and `ENTRY_BYTES` for each entry.
    budget_bytes: int = 64 * 1024 * 1024
    #: Seconds from its delivery here after which an entry is dropped.
    budget_age_s: float = 600.0
    #: Dropped entries kept on each member's own disk, so that they are no gap; None: no spill.
    spill: SpillSettings | None = None

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a budget that cannot work."""
        if not 0 < self.budget_entries <= ENTRIES_MAX:
            raise ConfigurationError(f"the relay budget must be between 1 and {ENTRIES_MAX} entries, not {self.budget_entries}")
