"""Coordination: entries about relaying that the coordinator casts apart from its links' traffic.

Retention        for which sites the stream is held
LeastPace        which of these sites are too slow for senders to wait
Trim             entries dropped for the budget
SiteSwitch       which site is offline, by order or by rule
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from relay.events import OfflineByRule
from relay.gateway.config import GatewayConfig
from relay.gateway.grace import Grace
from relay.gateway.injector import Injector
from relay.gateway.least_pace import LeastPace
from relay.gateway.link_table import LinkTable
from relay.gateway.retention import Retention
from relay.gateway.watermarks import Watermarks
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
        watermarks: Watermarks,
        injector: Injector,
        grace: Grace,
    ) -> None:
        self.retention = Retention(me, sites, state)
        self._least_pace = LeastPace(state, pace, table, watermarks, config.pace_min_bytes_s, config.grace_s)
        self._absences = _Absences(state, table, config.offline_after_s)
        self._state = state
        self._pace = pace
        self._injector = injector
        self._grace = grace
        #: The buffer position up to which a Trim was cast in this view; -1: none.
        self._trimming = -1
        #: Cast switches that are not back. Bound: one for each site.
        self._switching: dict[str, SiteSwitch] = {}

    def begin_view(self) -> None:
        self._trimming = -1

    def start_over(self) -> None:
        self.retention.start_over()
        self._least_pace.start()
        self._absences.clear()
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

    def due(self, now: float) -> list[OfflineByRule]:
        """Cast due entries; return the sites taken offline by rule."""
        held_for = self.retention.due(now)
        if held_for is not None:
            self._injector.cast(held_for)
            self._grace.leave_out(held_for.sites)
        for slow in self._least_pace.due(now):
            self._injector.cast(slow)
        self._cast_trim(now)
        by_rule = self._absences.due(now)
        for order in by_rule:
            self.switch(order.site, True)
        return by_rule

    def _cast_trim(self, now: float) -> None:
        """Cast a Trim above the budget, but never past an entry that a waited-for site lacks."""
        buffer = self._state.buffer
        if not buffer.is_in_excess(now) or (floor := self._pace.floor()) <= buffer.first:
            return
        position = buffer.excess(now)
        if position is not None and min(position, floor - 1) > self._trimming:
            self._trimming = min(position, floor - 1)
            self._injector.cast(Trim(self._trimming))

    def deadline(self, before: float | None) -> float | None:
        """Return the time (s) of the next call of `due`, or `before` if that is earlier."""
        for each in (self._least_pace.next_due, self.retention.next_due, self._absences.next_due):
            if each is not None and (before is None or each < before):
                before = each
        return self._age_due(before)

    def _age_due(self, before: float | None) -> float | None:
        """Return when (s) the oldest entry that may be trimmed is too old, or `before` if earlier."""
        buffer, after = self._state.buffer, self._trimming
        due = buffer.age_due(after)
        if due is None or (before is not None and before <= due) or self._pace.floor() <= max(buffer.first, after + 1):
            return before
        return due


class _Absences:
    """When (s) known sites without a link at this relay are to be taken offline; inf: that is cast.

    Bound: the sites with a rule. Nothing is due in a part without the majority, since the others may have the link.
    """

    def __init__(self, state: ReplicatedState, table: LinkTable, after_s: Mapping[str, float]) -> None:
        self._state = state
        self._table = table
        self._after_s = after_s
        self._due: dict[str, float] = {}
        #: The earliest of them that is not cast.
        self.next_due: float | None = None

    def clear(self) -> None:
        self._due.clear()
        self.next_due = None

    def due(self, now: float) -> list[OfflineByRule]:
        if not self._after_s:
            return []
        self._due = {site: self._due.get(site, now + after) for site, after in self._after_s.items() if self._is_away(site)}
        sites = [site for site, due in self._due.items() if due <= now]
        self._due.update(dict.fromkeys(sites, inf))
        self.next_due = min([due for due in self._due.values() if due < inf], default=None)
        return [OfflineByRule(site, self._after_s[site]) for site in sites]

    def _is_away(self, site: str) -> bool:
        state = self._state
        is_primary = state.view is not None and state.view.is_primary
        remote = state.remotes.get(site) if site in state.sites and is_primary else None
        return remote is not None and remote.known and site not in state.switches.offline and not self._table.linked(site)
