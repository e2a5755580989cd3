"""Entry: one batch or view of this site as one member holds it for the other sites."""

from __future__ import annotations

from dataclasses import dataclass

from relay.replica.held_entries import HeldEntry
from sitestack.model.fast_frozen import fast_frozen


@fast_frozen
@dataclass(frozen=True, slots=True)
class Entry(HeldEntry):
    """An entry as one member holds it. `since`: when this member delivered it (s), which differs between members."""

    size: int
    since: float
    #: Messages and bytes appended here before this entry, so that `held_from` subtracts instead of walking the entries.
    messages_before: int
    bytes_before: int
