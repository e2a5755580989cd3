"""Pace: for which other sites the senders of this site wait, and which entries the budget must not take meanwhile.

Senders wait for a site that is in the global view and keeps a least pace, also while its relay is replaced: when the entries
that it lacks reach the budget, senders go on only as it acknowledges, so that no gap is declared on a link that is up. Senders
do not wait for a site that is down or slow: the budget takes what it lacks, and this site goes on as if alone (X11). All input
is replicated state, so all members stop and go on at the same point of the stream; with a spill also each member's own disk,
since they do not wait for a site that is sent what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from relay.replica.remote_site import Lineage
from relay.replica.state import ReplicatedState
from sitestack.model.view import ViewId


class Pace:
    """Reads the replicated state. `when_down`: for a site with `wait`, senders wait also while it is down or slow."""

    def __init__(self, state: ReplicatedState, when_down: Mapping[str, Literal["gap", "wait"]]) -> None:
        self._state = state
        self._when_down = when_down
        self._waiting: tuple[str, ...] = ()

    def waits_for(self) -> tuple[str, ...]:
        """The sites for which senders wait now: what a site lacks has reached the budget, and is not an eighth below it yet."""
        if self._waiting or self._is_at_budget(self._state.buffer.first, 8):
            eighths = dict.fromkeys(self._waiting, 7)
            floors = {site: self._floor(site) for site in self._state.sites}
            lagging = {site: floor for site, floor in floors.items() if floor is not None}
            self._waiting = tuple([site for site, at in lagging.items() if self._is_at_budget(at, eighths.get(site, 8))])
        return self._waiting

    def floor(self) -> int:
        """The oldest position of the buffer lacking at a site that makes senders wait; the buffer's end when there is none."""
        floors = [self._floor(site) for site in self._state.sites]
        return min([each for each in floors if each is not None], default=self._state.buffer.end)

    def waited_for(self, site: str) -> list[tuple[ViewId, Lineage]]:
        """The lineages of a site that make senders wait when they lag."""
        remote = self._state.remotes.get(site)
        linked = [] if remote is None else [(name, each) for name, each in remote.lineages.items() if each.epoch is not None]
        shown = [(name, each) for name, each in linked if each.view is not None]
        if self.waits_however_long(site):
            return shown or linked  # while the site is in the global view, its lost parts are not waited for
        return [(name, each) for name, each in shown if not each.is_slow]

    def is_near_budget(self, site: str) -> bool:
        """True at six eighths of the budget: senders wait for this site, or went on a moment ago and will soon wait again."""
        floor = self._floor(site)
        return floor is not None and self._is_at_budget(floor, 6)

    def waits_however_long(self, site: str) -> bool:
        """True when the operator wants senders to wait for this site also while it is down or slow, though not offline."""
        return self._when_down.get(site) == "wait" and site not in self._state.switches.offline

    def _floor(self, site: str) -> int | None:
        buffer = self._state.buffer
        lineages = self.waited_for(site)
        if not lineages:
            return buffer.first if self.waits_however_long(site) else None  # a site that has never linked lacks everything
        floors = [lineage.lacks_from(buffer) for _, lineage in lineages if not self._catches_up(site, lineage)]
        return min(floors, default=None)

    def _catches_up(self, site: str, lineage: Lineage) -> bool:
        """Whether a lineage still lacks what is on the disk, where more has room: nobody waits, since nothing gets lost."""
        spill = self._state.buffer.spill
        if spill is None or self.waits_however_long(site):
            return False
        has_room = spill.has_room(self._state.buffer.config.budget_bytes)
        return has_room and spill.is_lacking(lineage.acked, lineage.acked_view)

    def _is_at_budget(self, position: int, eighths: int) -> bool:
        """True when what is held from this position on is at least so many eighths of the budget, in entries or in bytes."""
        buffer = self._state.buffer
        if position >= buffer.end:
            return False
        config = buffer.config
        entries, (_, size) = buffer.end - position, buffer.held_from(position)
        return 8 * entries >= eighths * config.budget_entries or 8 * size >= eighths * config.budget_bytes
