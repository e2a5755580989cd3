"""Pace: for which other sites senders wait, and which entries the budget must keep meanwhile.

Senders wait for a site in the global view that keeps a least pace, also while its relay is
replaced. They do not wait for a down or slow site: the budget drops its entries (X11). All input is
replicated, except that senders do not wait for a site that is sent entries of a member's own disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from relay.replica.remote_site import Lineage
from relay.replica.state import ReplicatedState
from sitestack.model.view import ViewId


class Pace:
    """Reads the replicated state.

    `when_down`: with `wait`, senders also wait for a down or slow site.
    """

    def __init__(self, state: ReplicatedState, when_down: Mapping[str, Literal["gap", "wait"]]) -> None:
        self._state = state
        self._when_down = when_down
        self._waiting: tuple[str, ...] = ()

    def waits_for(self) -> tuple[str, ...]:
        """Return the sites for which senders wait: at the budget, until an eighth below it."""
        buffer = self._state.buffer
        config, entries = buffer.config, buffer.end - buffer.first
        if self._waiting or entries >= config.budget_entries or buffer.bytes >= config.budget_bytes:
            eighths = dict.fromkeys(self._waiting, 7)
            floors = {site: self._floor(site) for site in self._state.sites}
            lagging = {site: floor for site, floor in floors.items() if floor is not None}
            self._waiting = tuple([site for site, at in lagging.items() if self._is_at_budget(at, eighths.get(site, 8))])
        return self._waiting

    def floor(self) -> int:
        """Return the first position that the budget must keep: one that a waited-for site lacks.

        An overfull buffer is trimmed regardless, because a joiner receives all of it.
        """
        buffer = self._state.buffer
        floors = [] if buffer.is_overfull else [self._floor(site) for site in self._state.sites]
        return min([each for each in floors if each is not None], default=buffer.end)

    def waited_for(self, site: str) -> list[tuple[ViewId, Lineage]]:
        """Return the lineages of a site that senders wait for when they lag."""
        remote = self._state.remotes.get(site)
        linked = [] if remote is None else [(name, each) for name, each in remote.lineages.items() if each.epoch is not None]
        shown = [(name, each) for name, each in linked if each.view is not None]
        if self.waits_however_long(site):
            return shown or linked  # ignore its lost parts
        return [(name, each) for name, each in shown if not each.is_slow]

    def is_near_budget(self, site: str) -> bool:
        """Return whether a site is at six eighths of the budget."""
        floor = self._floor(site)
        return floor is not None and self._is_at_budget(floor, 6)

    def waits_however_long(self, site: str) -> bool:
        """Return whether senders wait for this site even while it is down or slow, but not offline."""
        return self._when_down.get(site) == "wait" and site not in self._state.switches.offline

    def _floor(self, site: str) -> int | None:
        buffer = self._state.buffer
        lineages = self.waited_for(site)
        if not lineages:
            return buffer.first if self.waits_however_long(site) else None
        floors = [lineage.lacks_from(buffer) for _, lineage in lineages if not self._catches_up(site, lineage)]
        return min(floors, default=None)

    def _catches_up(self, site: str, lineage: Lineage) -> bool:
        """Return whether a lineage still lacks entries on the disk that has room: no entry gets lost."""
        spill = self._state.buffer.spill
        if spill is None or self.waits_however_long(site):
            return False
        has_room = spill.has_room(self._state.buffer.config.budget_bytes)
        return has_room and spill.is_lacking(lineage.acked, lineage.acked_view)

    def _is_at_budget(self, position: int, eighths: int) -> bool:
        """Return whether the entries from this position on fill this many eighths of the budget."""
        buffer = self._state.buffer
        if position >= buffer.end:
            return False
        config = buffer.config
        entries, (_, size) = buffer.end - position, buffer.held_from(position)
        return 8 * entries >= eighths * config.budget_entries or 8 * size >= eighths * config.budget_bytes
