"""Settings of the spill: what each member keeps on its disk of what the budget drops (`relay/replica/spill.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relay.replica.config import SpillConfig

_SPILL = SpillConfig()


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """What each member keeps on its own disk of the entries that the budget drops, so that they are no gap.

    With it a site that was away for days is sent everything.
    """

    #: Directory below which the process makes one for its files, and removes it when it ends. Empty: nothing is kept.
    directory: str = ""
    #: Bytes on the disk at most; beyond, the oldest entries become a gap. At least twice `relay.budget.bytes`.
    bytes: int = _SPILL.bytes_max
    #: Seconds after its delivery at which an entry is dropped from the disk, a sixteenth of that later at most.
    age_s: float = _SPILL.age_s

    def config(self) -> SpillConfig | None:
        """The bounds; None when nothing is kept."""
        return SpillConfig(self.bytes, self.age_s) if self.directory else None


def spill_problems(spill: SpillSettings, held_bytes: int, held_s: float) -> Iterator[str]:
    """What is wrong with these settings, beside a budget of so many bytes and seconds."""
    if not spill.directory:
        return
    if spill.bytes < 2 * held_bytes:
        yield f"relay.budget.spill.bytes: must be at least {2 * held_bytes}, twice relay.budget.bytes, or little is spilled."
    if spill.age_s < held_s:
        yield "relay.budget.spill.age_s: must be at least relay.budget.age_s, since what is younger is in memory."
