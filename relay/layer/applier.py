"""Applier: what an entry of the site's stream does, at the same point at every member; the other end is `gateway/injector.py`.

It changes the replicated state, and what came from another site passes up: a batch with the origin as its source again, what is
missing, where a site begins, and the global view. The gateway of the relay is told what has been admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.events import Baseline, Gap, GlobalView
from relay.gateway.connections import LinkEffect
from relay.gateway.gateway import Gateway
from relay.gateway.watermarks import Admitted
from relay.replica.entries import Acked, HeldFor, LinkUp, Relayed, RemoteBaseline, RemoteGap, RemoteView, SiteDown, Trim
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.stack.layer import Dropped, Effect, Up

#: What only the coordinator puts into the stream.
ENTRIES = (Relayed, RemoteView, SiteDown, LinkUp, Acked, HeldFor, Trim, RemoteGap, RemoteBaseline)


class Applier:
    """Applies entries to the state. Bound: proxies for the origins that the state admits in a view."""

    def __init__(self, member: Address, state: ReplicatedState, gateway: Gateway) -> None:
        self._me = member
        self._state = state
        self._gateway = gateway
        self._shown: GlobalView | None = None
        self._proxies: dict[tuple[str, Address], ProxyUUID] = {}

    def installed(self) -> list[Effect]:
        """A view of this site: its coordinator stands in the proxies, and its members in the global view."""
        self._proxies.clear()
        return self._show()

    def apply(self, frame: Frame, header: Header, now: float) -> Sequence[LinkEffect]:
        """One entry, with its header; what passes up. Part of it are effects for the shell, when this member relays."""
        state = self._state
        if frame.batch is not None:
            return self._relayed(frame, frame.batch)
        if isinstance(header, RemoteView):
            return self._remote_view(frame, header, now)
        if isinstance(header, RemoteGap):
            return self._gap(frame, header)
        if isinstance(header, RemoteBaseline):
            return self._baseline(frame, header)
        if isinstance(header, Acked):
            state.apply_acked(header)
        elif isinstance(header, HeldFor):
            return self._held_for(frame, header, now)
        elif isinstance(header, Trim):
            state.buffer.trim(header.position)
        elif isinstance(header, LinkUp):
            state.apply_link_up(header)
        elif isinstance(header, SiteDown):
            state.apply_down(header)
            if self._gateway.active:
                self._gateway.went_down(header)
            return self._show()
        else:
            return [Dropped("relay_malformed")]
        return []

    def _relayed(self, frame: Frame, batch: Batch) -> list[Effect]:
        """RELAY's unwrapping of a message of another site: its sender becomes a ProxyUUID."""
        answer = self._state.admit(batch)
        if answer is not Admission.NEXT:
            if answer is Admission.HOLE and self._gateway.active:
                self._gateway.refused(batch.site)
            return [Dropped(answer.value)]
        self._admitted(Admitted(frame.seqno, batch.site, batch.origin, batch.first - 1, batch.last, None, None))
        here, begun = self._reach(batch.site, batch.origin, batch.last)
        if max(here, begun) >= batch.last:
            fresh = [] if here >= batch.last else [Up(Baseline(batch.site, {batch.origin: batch.last}))]
            return [Dropped("relay_delivered_before_merge"), *fresh]
        return [Up(Frame(self._proxy(batch.site, batch.origin), None, (), batch, False, frame.seqno, frame.stream))]

    def _reach(self, site: str, origin: Address, last: int) -> tuple[int, int]:
        """How far this member had an origin before it was admitted again up to `last`, and how far its first state had it."""
        remote = self._state.remote(site)
        reached = remote.had(self._me, origin), remote.inherited.get(origin, 0)
        remote.settle(origin, last)
        return reached

    def _gap(self, frame: Frame, gap: RemoteGap) -> list[Effect]:
        before = self._state.apply_gap(gap)
        if before is None:
            return [Dropped("relay_gap_settled")]
        self._admitted(Admitted(frame.seqno, gap.site, gap.origin, before, gap.last, None, None))
        here, begun = self._reach(gap.site, gap.origin, gap.last)
        here, begun = min(max(before, here), gap.last), min(begun, gap.last)
        effects: list[Effect] = [Up(Baseline(gap.site, {gap.origin: begun}))] if begun > here else []
        if max(here, begun) < gap.last:
            effects.append(Up(Gap(gap.site, gap.origin, max(here, begun) + 1, gap.last, gap.reason)))
        return effects

    def _baseline(self, frame: Frame, baseline: RemoteBaseline) -> list[Effect]:
        fresh = self._state.apply_baseline(baseline)
        for origin, n in fresh.items():
            self._admitted(Admitted(frame.seqno, baseline.site, origin, 0, n, None, None))
        fresh = {origin: n for origin, n in fresh.items() if self._reach(baseline.site, origin, n)[0] < n}
        return [Up(Baseline(baseline.site, fresh))] if fresh else []

    def _remote_view(self, frame: Frame, entry: RemoteView, now: float) -> Sequence[LinkEffect]:
        before = list(self._state.remote(entry.site).lineages)
        if not self._state.apply_view(entry):
            return [Dropped("relay_view_duplicate")]
        self._admitted(Admitted(frame.seqno, entry.site, None, 0, 0, entry.view.id, entry.view.lineage))
        if self._gateway.active:
            self._gateway.shown((entry.site, entry.view.lineage), now)
        ended = [name for name in before if name not in self._state.remote(entry.site).lineages]
        return [*self._gateway.ended(entry.site, ended, now), *self._show()]

    def _held_for(self, frame: Frame, entry: HeldFor, now: float) -> list[Effect]:
        position = self._state.apply_held_for(entry, now)
        if position is not None and self._gateway.active:
            self._gateway.watermarks.appended(frame.stream, frame.seqno, position)
        return self._gateway.retention.compare()

    def _admitted(self, entry: Admitted) -> None:
        if self._gateway.active:
            self._gateway.admitted(entry)

    def _show(self) -> list[Effect]:
        """RELAY's Update(RV, GV): tell the application if and only if the global view changed (REL-21)."""
        view = self._state.global_view()
        if view == self._shown:
            return []
        before, self._shown = self._shown, view
        if before is None:
            return [Up(view)]
        joined = tuple([site for site in view.components if site not in before.components])
        return [Up(replace(view, joined=joined))]

    def _proxy(self, site: str, origin: Address) -> ProxyUUID:
        """One object a sender and view."""
        found = self._proxies.get((site, origin))
        if found is None:
            assert self._state.view is not None
            found = self._proxies[(site, origin)] = ProxyUUID(origin, site, self._state.view.coordinator)
        return found
