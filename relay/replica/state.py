"""The replicated relay state: all members' knowledge of other sites.

Each `apply_*` runs at every member with the same entry at the same point, so all members decide
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.events import GlobalView
from relay.replica.buffer import Buffer
from relay.replica.config import BufferConfig
from relay.replica.entries import (
    Acked,
    HeldFor,
    LinkPace,
    LinkUp,
    RelayState,
    RemoteView,
    SiteDown,
    SiteSwitch,
    SiteVector,
    SwitchedState,
)
from relay.replica.held_entries import HeldEntries
from relay.replica.known import Known, without
from relay.replica.merge import merge_parts
from relay.replica.remote_site import Lineage, Remote
from relay.replica.spill import SpillDisk
from relay.replica.switches import Switches, switches_of
from relay.replica.vectors import bound_to, bury_own, later, raise_to
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.message import Batch
from sitestack.model.state_events import Baseline
from sitestack.model.view import View, ViewId


class ReplicatedState:
    def __init__(self, site: str, config: BufferConfig, sites: tuple[str, ...] = (), disk: SpillDisk | None = None) -> None:
        """`sites`: this member's configured sites, in order of names; a joiner receives the site's list."""
        self.site = site
        self.view: View | None = None
        self.buffer = Buffer(config, disk)
        self.produced: dict[Address, int] = {}
        #: Not replicated: numbers of departed members in this application's state.
        self.inherited: dict[Address, int] = {}
        #: Not replicated: the same of sites that this member does not know yet.
        self.unknown: dict[str, dict[Address, int]] = {}
        self.remotes: dict[str, Remote] = {}
        #: Sites that this site's stream is held for (`gateway/retention.py`). Empty: for none.
        self.sites = sites
        self.switches = Switches()

    def remote(self, site: str) -> Remote:
        found = self.remotes.get(site)
        if found is None:
            found = self.remotes[site] = Remote(inherited=self.unknown.pop(site, {}))
        return found

    @property
    def relay(self) -> Address | None:
        return None if self.view is None else self.view.coordinator

    def append(self, batch: Batch, now: float) -> int:
        last = self.produced[batch.origin] = batch.last
        position = self.buffer.append(batch, None, now)
        if self.switches.offline and self._is_nobody_online():
            self.buffer.drop_through(position)
        elif _has_acked(self.remotes, batch.origin, last):
            self._drop_acked()  # with `order: fifo` an Acked may precede the batch that it acknowledges
        return position

    def install(self, view: View, now: float) -> None:
        """Install a view of this site, which is held like a batch (G5)."""
        self.view = view
        if self.sites:
            self.buffer.append(None, view, now)
            if self.switches.offline:
                self._drop_acked()
        bury_own(self.produced, view.members, self.buffer.all_runs())
        for remote in self.remotes.values():
            remote.keep_ahead(view.members)

    def inherit(self, provider: Address, heir: Address) -> list[Baseline]:
        """Return where the heir begins, where its part was ahead of the provider's state."""
        begun = [(site, remote.inherit(provider, heir)) for site, remote in self.remotes.items()]
        return [Baseline(site, origins, in_state=True, at_join=True) for site, origins in begun if origins]

    def apply_view(self, entry: RemoteView) -> bool:
        """Accept a view of another site; return False if it is old."""
        is_news = self.remote(entry.site).show(entry.view)
        if is_news:
            self._drop_acked()  # a lineage that ends here may have been the last to lack some entries
        return is_news

    def apply_down(self, entry: SiteDown) -> None:
        """Hide a lineage that was away too long; with `forget`, stop holding entries for it."""
        if self.remote(entry.site).hide(entry.lineage, entry.forget) and entry.forget:
            self._drop_acked()

    def apply_link_up(self, entry: LinkUp) -> None:
        """Note the epoch in which a lineage has connected: lower ones are now refused."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        if lineage.epoch is None or lineage.epoch < entry.epoch:
            lineage.epoch = entry.epoch

    def apply_link_pace(self, entry: LinkPace) -> bool:
        """Note whether a lineage is too slow to wait for; return False if unchanged or unknown."""
        lineage = self.remote(entry.site).lineages.get(entry.lineage)
        if lineage is None or lineage.is_slow is entry.is_slow:
            return False
        lineage.is_slow = entry.is_slow
        return True

    def apply_acked(self, entry: Acked) -> None:
        """Note another site's acknowledgements, and drop the entries that all required sites have."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        raise_to(lineage.acked, entry.vector.origins)
        lineage.acked_view = later(lineage.acked_view, entry.vector.view)
        bound_to(lineage.acked, self.produced)
        self._drop_acked()

    def apply_held_for(self, entry: HeldFor, now: float) -> int | None:
        """Hold the stream for these sites from now on, and take others out of the global view.

        Return the buffer position of the view in force if holding begins now, else None.
        """
        before, self.sites = self.sites, entry.sites
        self.switches.keep(self.sites)
        for site, remote in self.remotes.items():
            if site not in self.sites:
                remote.close(is_down=False)
        if not self.sites:
            self.buffer.clear()
        elif not before and self.view is not None:
            return self.buffer.append(None, self.view, now)
        else:
            self._drop_acked()
        return None

    def apply_switch(self, entry: SiteSwitch) -> bool:
        """Take a site offline or online; return False if it is so already, or not held for."""
        if entry.site not in self.sites or not self.switches.apply(entry, self.produced):
            return False
        if entry.is_offline:
            self.remote(entry.site).close()
            self._drop_acked()
        return True

    def _is_nobody_online(self) -> bool:
        return all(site in self.switches.offline for site in self.sites)

    def _drop_acked(self) -> None:
        if self.switches.offline and self._is_nobody_online():
            self.buffer.clear()
            return
        pins = [self.pinning(site) for site in self.sites if site not in self.switches.offline]
        if not pins or not all(pins):
            return
        waiting = [lineage for lineages in pins for lineage in lineages]
        if self.buffer.spill is not None:
            self.buffer.spill.drop_while(
                lambda spilled: all(spilled.is_within(each.acked, each.acked_view) for each in waiting)
            )
        self.buffer.drop_while(lambda held: all(each.has(held) for each in waiting))

    def pinning(self, site: str) -> list[Lineage]:
        remote = self.remotes.get(site)
        return [] if remote is None else remote.pinning()

    def admitted_vector(self, site: str, lineage: ViewId) -> SiteVector | None:
        """Return the admitted numbers of another site for STATE; None for an unknown site."""
        remote = self.remotes.get(site)
        return None if remote is None else remote.vector(lineage)

    def baselines(self) -> list[tuple[str, dict[Address, int]]]:
        """Return the admitted numbers of each other site: where a joiner begins (R29)."""
        return [(site, dict(remote.admitted)) for site, remote in self.remotes.items() if remote.admitted]

    def global_view(self) -> GlobalView:
        views = {site: remote.view for site, remote in self.remotes.items()}
        views[self.site] = self.view
        components: dict[str, ViewId] = {}
        members: list[ProxyUUID] = []
        names: list[str] = []
        relay = None if self.view is None else self.view.coordinator
        for site in sorted(views):
            view = views[site]
            if view is not None:
                components[site] = view.id
                members += [ProxyUUID(member, site, relay, f"{name}@{site}") for member, name in view.named()]
                names += view.names
        down = tuple(sorted(site for site, remote in self.remotes.items() if remote.down))
        return GlobalView(components, tuple(members), tuple(names), down)

    def give(self, known: Known | None = None) -> RelayState:
        remotes = tuple([remote.give(site) for site, remote in self.remotes.items()])
        buffer = self.buffer
        view = None if self.view is None else self.view.id
        entries = buffer.give() if known is None else without(buffer.give(), known)
        produced, switches = dict(self.produced), self.switches.give()
        return SwitchedState(view, buffer.first, entries, buffer.base_view, produced, remotes, self.sites, switches)

    def merge(
        self, parts: list[RelayState], members: Mapping[ViewId, Sequence[Address]], now: float
    ) -> list[tuple[str, dict[Address, int]]]:
        """Adopt the merged state of all parts of a split site; `members`: those of each part, by its
        view.

        Return baselines of sites that this member's part did not know (R29).
        """
        known = [site for site, remote in self.remotes.items() if remote.known]
        before = self.remotes
        self.adopt(merge_parts([self.give(), *parts], members), now)
        self.buffer.trim(self.buffer.end - 1 - HeldEntries.items_max)  # more would not fit into a joiner's state
        for site, remote in before.items():
            self.remote(site).inherited, self.remote(site).own = remote.inherited, remote.own
        for site in [each for each in self.unknown if each in self.remotes]:
            self.remotes[site].inherited = self.unknown.pop(site)
        self._drop_acked()  # one part may hold entries that all sites have
        return [(site, origins) for site, origins in self.baselines() if site not in known]

    def adopt(self, state: RelayState, now: float) -> None:
        """Replace this state by another member's. Its contents are not delivered here (S9)."""
        self.buffer.adopt_entries(state.first, state.entries, state.base_view, now)
        self.produced = dict(state.produced)
        self.sites = state.sites
        self.remotes = {given.site: Remote.taken(given) for given in state.remotes}
        self.switches.adopt(switches_of(state))
        for site in self.switches.offline:
            self.remote(site).close()


def _has_acked(remotes: Mapping[str, Remote], origin: Address, last: int) -> bool:
    """Return whether any lineage has acknowledged this number; every batch asks."""
    for remote in remotes.values():
        for lineage in remote.lineages.values():
            if lineage.acked.get(origin, 0) >= last:
                return True
    return False
