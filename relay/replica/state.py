"""The replicated relay state: what every member of a site knows about the other sites, fed only by the site's stream.

Each `apply_*` is called at every member with the same entry at the same point, so all members decide alike: one
stream, one decision. Nothing here depends on who relays; the gateway of the coordinator reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.events import GlobalView
from relay.replica.buffer import Buffer, BufferConfig
from relay.replica.entries import (
    Acked,
    HeldFor,
    LinkPace,
    LinkUp,
    RelayState,
    RemoteBaseline,
    RemoteGap,
    RemoteView,
    SiteDown,
    SiteVector,
)
from relay.replica.merge import merge_parts
from relay.replica.remote_site import Admission, Lineage, Remote
from relay.replica.vectors import ORIGINS_MAX, bury, later, raise_to
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId


class ReplicatedState:
    """Buffer, own view, and all that is known of the other sites."""

    def __init__(self, site: str, config: BufferConfig, sites: tuple[str, ...] = ()) -> None:
        """`sites`: what a founder of the site begins with, the others in its own configuration, in order of their names."""
        self.site = site
        self.view: View | None = None
        self.buffer = Buffer(config)
        #: The last number of scope ALL per origin of this site.
        self.produced: dict[Address, int] = {}
        self.remotes: dict[str, Remote] = {}
        #: The others that what this site sends is held for (`gateway/retention.py`). Who relays to nobody holds nothing.
        self.sites = sites

    def remote(self, site: str) -> Remote:
        """What is known of another site."""
        found = self.remotes.get(site)
        if found is None:
            found = self.remotes[site] = Remote()
        return found

    # -- this site -----------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, now: float) -> int:
        """Hold a batch of this site for the others; its position in the buffer."""
        self.produced[batch.origin] = batch.last
        position = self.buffer.append(batch, None, now)
        if any(
            each.acked.get(batch.origin, 0) >= batch.last for other in self.remotes.values() for each in other.lineages.values()
        ):
            self._drop_acked()  # with `order: fifo` an ACK may come before what it is for
        return position

    def install(self, view: View, now: float) -> None:
        """A view of this site is an entry like the batches: no message arrives before the view that knows its origin (G5)."""
        self.view = view
        if self.sites:
            self.buffer.append(None, view, now)
        bury(self.produced, view.members)
        for remote in self.remotes.values():
            remote.keep_ahead(view.members)

    # -- other sites ---------------------------------------------------------------------------------------------------

    def admit(self, batch: Batch) -> Admission:
        """Admit a batch of another site if it is the next one of its origin."""
        return self.remote(batch.site).admit(batch)

    def apply_gap(self, gap: RemoteGap) -> int | None:
        """Admit a gap. The last number before it; None when the gap changes nothing."""
        return self.remote(gap.site).skip(gap)

    def inherit(self, provider: Address, heir: Address) -> None:
        """The heir's application begins with the state of the provider's: what that is ahead in is no news for it."""
        for remote in self.remotes.values():
            remote.inherit(provider, heir)

    def apply_baseline(self, baseline: RemoteBaseline) -> dict[Address, int]:
        """Begin to know a site after these numbers; those that were new."""
        return self.remote(baseline.site).begin(baseline)

    def apply_view(self, entry: RemoteView) -> bool:
        """A view of another site; False when a newer one of its lineage is known. A merge view ends the lineages it joins."""
        is_news = self.remote(entry.site).show(entry.view)
        if is_news:
            self._drop_acked()  # what was held only for a lineage that ends here
        return is_news

    def apply_down(self, entry: SiteDown) -> None:
        """A lineage has been away too long: it leaves the global view, and with `forget` pins nothing any more."""
        if self.remote(entry.site).hide(entry.lineage, entry.forget) and entry.forget:
            self._drop_acked()

    def apply_link_up(self, entry: LinkUp) -> None:
        """Fence every lower epoch of the lineage."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        if lineage.epoch is None or lineage.epoch < entry.epoch:
            lineage.epoch = entry.epoch

    def apply_link_pace(self, entry: LinkPace) -> bool:
        """Whether senders wait for this lineage; False when it is not known any more, or that was so before."""
        lineage = self.remote(entry.site).lineages.get(entry.lineage)
        if lineage is None or lineage.is_slow is entry.is_slow:
            return False
        lineage.is_slow = entry.is_slow
        return True

    def apply_acked(self, entry: Acked) -> int:
        """Another site has more of ours; how many entries were dropped because all that count have them."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        produced = self.produced
        raise_to(lineage.acked, entry.vector.origins)
        lineage.acked_view = later(lineage.acked_view, entry.vector.view)
        if len(lineage.acked) > ORIGINS_MAX:
            lineage.acked = {origin: n for origin, n in lineage.acked.items() if origin in produced}
        return self._drop_acked()

    def apply_held_for(self, entry: HeldFor, now: float) -> int | None:
        """Hold for these sites from now on; the position of the view in force when that begins here, else None."""
        before, self.sites = self.sites, entry.sites
        if not self.sites:
            self.buffer.drop_through(self.buffer.end - 1)
        elif not before and self.view is not None:
            return self.buffer.append(None, self.view, now)
        else:
            self._drop_acked()
        return None

    def _drop_acked(self) -> int:
        """Drop what all sites have that entries are held for; how many entries that were."""
        pins = [self.pinning(site) for site in self.sites]
        if not pins or not all(pins):
            return 0  # a site that has never been linked has nothing yet
        waiting = [lineage for lineages in pins for lineage in lineages]
        return self.buffer.drop_while(lambda held: all(each.has(held) for each in waiting))

    def pinning(self, site: str) -> list[Lineage]:
        """The lineages of a site that entries are held for: those that have ever linked."""
        remote = self.remotes.get(site)
        return [] if remote is None else remote.pinning()

    # -- answers -------------------------------------------------------------------------------------------------------

    def admitted_vector(self, site: str, lineage: ViewId) -> SiteVector | None:
        """What this site has admitted of another one, as a STATE says it; None when that one is unknown here."""
        remote = self.remotes.get(site)
        return None if remote is None else remote.vector(lineage)

    def baselines(self) -> list[tuple[str, dict[Address, int]]]:
        """What of each other site this one has admitted: where a joiner begins (R29)."""
        return [(site, dict(remote.admitted)) for site, remote in self.remotes.items() if remote.admitted]

    def global_view(self) -> GlobalView:
        """One component per living site, in order of their names."""
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
                members += [ProxyUUID(member, site, relay) for member in view.members]
                names += view.names
        down = tuple(sorted(site for site, remote in self.remotes.items() if remote.down))
        return GlobalView(components, tuple(members), tuple(names), down)

    # -- joiners -------------------------------------------------------------------------------------------------------

    def give(self) -> RelayState:
        """Everything, as of this point of the stream."""
        remotes = [remote.give(site) for site, remote in self.remotes.items()]
        buffer = self.buffer
        view = None if self.view is None else self.view.id
        return RelayState(view, buffer.first, buffer.give(), buffer.base_view, dict(self.produced), tuple(remotes), self.sites)

    def merge(
        self, parts: list[RelayState], members: Mapping[ViewId, Sequence[Address]], now: float
    ) -> list[tuple[str, dict[Address, int]]]:
        """Go on from the states of all parts of a split site; where sites begin of which this member's part knew nothing (R29).

        `members` of each part, by its view. What a member has it will not be given again.
        """
        known = [site for site, remote in self.remotes.items() if remote.known]
        inherited = {site: remote.inherited for site, remote in self.remotes.items()}
        self.take(merge_parts([self.give(), *parts], members), now)
        self.buffer.trim(self.buffer.end - 1 - self.buffer.config.budget_entries)
        for site, numbers in inherited.items():
            self.remote(site).inherited = numbers
        self._drop_acked()  # one part may still hold what the others know to be everywhere
        return [(site, origins) for site, origins in self.baselines() if site not in known]

    def take(self, state: RelayState, now: float) -> None:
        """Start from another member's point of the stream. Nothing of it is delivered here (S9)."""
        self.buffer.take(state.first, state.entries, state.base_view, now)
        self.produced = dict(state.produced)
        self.sites = state.sites
        self.remotes = {given.site: Remote.taken(given) for given in state.remotes}
