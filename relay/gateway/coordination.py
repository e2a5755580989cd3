"""Coordination: entries about relaying that the coordinator casts apart from its links' traffic.

Retention        for which sites the stream is held LeastPace        which of these sites are too
slow for senders to wait Trim             entries dropped for the budget SiteSwitch       which site
is offline
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.gateway.config import GatewayConfig
from relay.gateway.injector import Injector
from relay.gateway.least_pace import LeastPace
from relay.gateway.link_table import LinkTable
from relay.gateway.retention import Retention
from relay.replica.entries import SiteSwitch, Trim
from relay.replica.pace import Pace
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address


class Coordination:
    """Present at every member; only the coordinator's casts entries. Bounds: those of its parts."""

    def __init__(
        self,
        me: Address,
        config: GatewayConfig,
        sites: Iterable[str],
        state: ReplicatedState,
        pace: Pace,
        table: LinkTable,
        injector: Injector,
    ) -> None:
        self.retention = Retention(me, sites, state)
        self._least_pace = LeastPace(state, pace, table, config.pace_min_bytes_s, config.grace_s)
        self._state = state
        self._pace = pace
        self._injector = injector
        #: The buffer position up to which a Trim was cast in this view; -1: none.
        self._trimming = -1
        #: Cast switches that are not back. Bound: one for each site.
        self._switching: dict[str, SiteSwitch] = {}

    def begin_view(self) -> None:
        self._trimming = -1

    def start_over(self) -> None:
        self.retention.start_over()
        self._least_pace.start()
        self._switching.clear()

    def switch(self, site: str, is_offline: bool) -> None:
        """Cast that a site is offline or online, unless it is so already, or about to be."""
        before = self._switching.get(site)
        if (site in self._state.switches.offline if before is None else before.is_offline) is not is_offline:
            entry = self._switching[site] = SiteSwitch(site, is_offline)
            self._injector.cast(entry)

    def switched(self, entry: SiteSwitch) -> None:
        if self._switching.get(entry.site) == entry:
            del self._switching[entry.site]

    def due(self, now: float) -> None:
        held_for = self.retention.due(now)
        if held_for is not None:
            self._injector.cast(held_for)
        for slow in self._least_pace.due(now):
            self._injector.cast(slow)
        self._cast_trim(now)

    def _cast_trim(self, now: float) -> None:
        """Cast a Trim above the budget, but never past an entry that a waited-for site lacks."""
        buffer = self._state.buffer
        if not buffer.is_in_excess(now) or (floor := self._floor()) <= buffer.first:
            return
        position = buffer.excess(now)
        if position is not None and min(position, floor - 1) > self._trimming:
            self._trimming = min(position, floor - 1)
            self._injector.cast(Trim(self._trimming))

    def _floor(self) -> int:
        """Return the first position that the budget must keep: the first that a waited-for site
        lacks.

        An overfull buffer is trimmed regardless, because a joiner receives all of it.
        """
        buffer = self._state.buffer
        return buffer.end if buffer.is_overfull else self._pace.floor()

    def deadline(self, before: float | None) -> float | None:
        """Return the time (s) of the next call of `due`, or `before` if that is earlier."""
        for each in (self._least_pace.deadline(), self.retention.deadline()):
            if each is not None and (before is None or each < before):
                before = each
        return self._age_due(before)

    def _age_due(self, before: float | None) -> float | None:
        """Return when (s) the oldest entry that may be trimmed is too old, or `before` if earlier."""
        buffer, after = self._state.buffer, self._trimming
        due = buffer.age_due(after)
        if due is None or (before is not None and before <= due) or self._floor() <= max(buffer.first, after + 1):
            return before
        return due
