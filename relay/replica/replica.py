"""Replica: applies the coordinator's entries (`gateway/injector.py`) at every member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from relay.events import GlobalView, SiteSwitched, SlowSite
from relay.replica.config import BufferConfig
from relay.replica.entries import (
    Acked,
    HeldFor,
    LinkPace,
    LinkUp,
    Relayed,
    RelayState,
    RemoteBaseline,
    RemoteGap,
    RemoteView,
    SiteDown,
    SiteSwitch,
    Trim,
)
from relay.replica.known import Find, completed
from relay.replica.outcome import APPLIED, Numbers, Outcome, refused
from relay.replica.pace import Pace
from relay.replica.remote_site import Admission
from relay.replica.spill import SpillDisk
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Header
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch
from sitestack.model.state_events import Baseline
from sitestack.model.view import View

ENTRIES: tuple[type[Header], ...] = (
    Relayed,
    RemoteView,
    SiteDown,
    LinkUp,
    LinkPace,
    Acked,
    HeldFor,
    Trim,
    RemoteGap,
    RemoteBaseline,
    SiteSwitch,
)
_ABOUT_A_SITE = (RemoteView, SiteDown, LinkUp, LinkPace, Acked, RemoteGap, RemoteBaseline)


class Replica:
    def __init__(
        self,
        member: Address,
        site: str,
        config: BufferConfig,
        sites: tuple[str, ...],
        when_down: Mapping[str, Literal["gap", "wait"]],
        disk: SpillDisk | None = None,
    ) -> None:
        self.state = ReplicatedState(site, config, sites, disk)
        self.pace = Pace(self.state, when_down)
        self._me = member
        self._shown: GlobalView | None = None
        #: The states of the other parts of a split site, kept until the merge view.
        self._parts: list[RelayState] = []

    def merge_with(self, part: RelayState, fetched: Find) -> None:
        """Store the state of another part of this split site. Its missing bodies are in the buffer here, or were `fetched`."""
        mine = {(batch.origin, batch.first): batch for batch in self.state.buffer.batches()}
        entries, dropped = completed(part.entries, lambda origin, first: mine.get((origin, first)) or fetched(origin, first))
        self._parts.append(replace(part, first=part.first + dropped, entries=entries))

    def merge(self, view: View, now: float) -> list[Baseline] | None:
        """Merge the stored parts; None without any.

        Return baselines of other sites that this member's part did not know.
        """
        if not self._parts:
            return None
        parts, self._parts = self._parts, []
        members = {part.id: part.members for part in view.subviews}
        return [Baseline(site, origins) for site, origins in self.state.merge(parts, members, now)]

    def install(self, view: View, is_first: bool, now: float) -> list[Baseline]:
        """Install a view of this site; return the sites' baselines with the first one (R29)."""
        self.state.install(view, now)
        if not is_first:
            return []
        begun = [*self.state.baselines(), (self.state.site, dict(self.state.produced))]
        return [Baseline(site, origins, at_join=True) for site, origins in begun if origins]

    def update(self) -> tuple[GlobalView, ...]:
        """RELAY's Update(RV, GV): return the global view if it has changed (REL-21)."""
        view = self.state.global_view()
        if view == self._shown:
            return ()
        before, self._shown = self._shown, view
        if before is None:
            return (view,)
        return (replace(view, joined=tuple([site for site in view.components if site not in before.components])),)

    def apply(self, entry: Header, batch: Batch | None, now: float) -> Outcome:
        """Apply an entry, one of `ENTRIES`; `batch` is that of a `Relayed`."""
        state = self.state
        if state.switches.offline and self._is_of_offline(entry, batch):
            return refused(Admission.OFFLINE)
        match entry:
            case Relayed():
                return refused(Admission.MALFORMED) if batch is None else self._relayed(batch)
            case Acked():
                state.apply_acked(entry)
            case RemoteView():
                return self._remote_view(entry)
            case RemoteGap():
                return self._gap(entry)
            case RemoteBaseline():
                return self._baseline(entry)
            case SiteDown():
                state.apply_down(entry)
                return Outcome(events=self.update())
            case LinkUp():
                state.apply_link_up(entry)
            case LinkPace() if state.apply_link_pace(entry):
                return Outcome(events=(SlowSite(entry.site, entry.is_slow),))
            case HeldFor():
                position = state.apply_held_for(entry, now)
                return Outcome(position=position, events=self.update())
            case SiteSwitch() if state.apply_switch(entry):
                return Outcome(events=(SiteSwitched(entry.site, entry.is_offline), *self.update()))
            case Trim():
                # With `order: fifo` members have other entries there.
                state.buffer.trim(min(entry.position, self.pace.floor() - 1))
        return APPLIED

    def _is_of_offline(self, entry: Header, batch: Batch | None) -> bool:
        if isinstance(entry, Relayed):
            return batch is not None and batch.site in self.state.switches.offline
        return isinstance(entry, _ABOUT_A_SITE) and entry.site in self.state.switches.offline

    def _relayed(self, batch: Batch) -> Outcome:
        answer = self.state.remote(batch.site).admit(batch)
        if answer is not Admission.NEXT:
            return refused(answer)
        last = batch.last
        here, begun = self._reach(batch.site, batch.origin, last)
        if max(here, begun) < last:
            return APPLIED
        if here >= last:
            return refused(Admission.DELIVERED)
        return Outcome(Admission.DELIVERED, events=(Baseline(batch.site, {batch.origin: last}, in_state=True),))

    def _reach(self, site: str, origin: Address, last: int) -> tuple[int, int]:
        """Settle an origin admitted up to `last`; return two numbers that must not be delivered again:
        delivered in this member's part, and in its first state.
        """
        remote = self.state.remote(site)
        reached = remote.had(self._me, origin), remote.inherited.get(origin, 0)
        remote.settle(origin, last)
        return reached

    def _gap(self, gap: RemoteGap) -> Outcome:
        before = self.state.remote(gap.site).skip(gap)
        if before is None:
            return refused(Admission.SETTLED)
        here, begun = self._reach(gap.site, gap.origin, gap.last)
        here, begun = min(max(before, here), gap.last), min(begun, gap.last)
        events: list[Event] = [Baseline(gap.site, {gap.origin: begun}, in_state=True)] if begun > here else []
        if max(here, begun) < gap.last:
            events.append(Gap(gap.site, gap.origin, max(here, begun) + 1, gap.last, gap.reason))
        return Outcome(events=tuple(events), numbers=(Numbers(gap.origin, before, gap.last),))

    def _baseline(self, baseline: RemoteBaseline) -> Outcome:
        """Begin with a site. Its earlier messages are history, but those after an adopted state are a gap."""
        fresh = self.state.remote(baseline.site).begin(baseline)
        site = baseline.site
        news: dict[Address, int] = {}
        events: list[Event] = []
        for origin, n in fresh.items():
            here, begun = self._reach(site, origin, n)
            if here < begun < n:
                gap = Gap(site, origin, begun + 1, n, GapReason.NOT_HELD)
                events += [Baseline(site, {origin: begun}, in_state=True), gap]
            elif here < n:
                news[origin] = n
        numbers = tuple([Numbers(origin, 0, n) for origin, n in fresh.items()])
        return Outcome(events=(*([Baseline(site, news)] if news else []), *events), numbers=numbers)

    def _remote_view(self, entry: RemoteView) -> Outcome:
        remote = self.state.remote(entry.site)
        before = tuple(remote.lineages)
        if not self.state.apply_view(entry):
            return refused(Admission.OLD_VIEW)
        parts = [part.lineage for part in entry.view.subviews]
        ended = tuple([name for name in before if name in parts and name not in remote.lineages])
        return Outcome(events=self.update(), ended=ended)
