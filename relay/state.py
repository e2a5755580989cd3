"""The replicated relay state: what every member of a site knows about the other sites, fed only by the site's stream.

Each `apply_*` is called at every member with the same entry at the same point, so all members decide alike (section 3.5 of the
rules: one stream, one decision). Nothing here depends on who relays; the gateway of the coordinator reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from relay.buffer import Buffer, BufferConfig, Entry
from relay.events import GlobalView
from relay.halves import merge_parts
from relay.headers import (
    Acked,
    LineageState,
    LinkUp,
    RelayState,
    RemoteBaseline,
    RemoteGap,
    RemoteState,
    RemoteView,
    SiteDown,
    SiteVector,
)
from relay.vectors import later, raise_to
from sitestack.address import Address, ProxyUUID
from sitestack.message import Batch
from sitestack.view import View, ViewId

#: Origins remembered per site. Those that left stay as tombstones, so that a late replay is recognised (S7, R18); when there
#: are more, the oldest not in the site's view go. It takes as many restarts in one site within one outage to be wrong.
ORIGINS_MAX = 4_096
#: Lineages remembered per site: each is a split or a loss of the majority that the others have not forgotten yet.
LINEAGES_MAX = 8


class Admission(Enum):
    """What becomes of a batch or a gap from another site; the value is the reason of the drop."""

    #: It is the next one.
    NEXT = ""
    #: It is not above what has been admitted.
    DUPLICATE = "relay_duplicate"
    #: Something before it is missing, and no gap accounts for it.
    HOLE = "relay_hole"


def admission(reached: int, first: int, last: int) -> Admission:
    """Safety is contiguity: the next number is admitted, a lower one dropped, a hole refused."""
    if last <= reached:
        return Admission.DUPLICATE
    return Admission.NEXT if first == reached + 1 else Admission.HOLE


@dataclass(slots=True)
class Lineage:
    """One line of views of another site."""

    #: The highest epoch in which its relay has connected; None when it is known from its views only.
    epoch: ViewId | None = None
    #: Its newest view; None before the first and after it went down.
    view: View | None = None
    #: The newest view that it ever had. When it comes back it may show that one again, and none before (G3).
    reached: ViewId | None = None
    #: What is stable there of our own site.
    acked: dict[Address, int] = field(default_factory=dict)
    acked_view: ViewId | None = None

    def has(self, entry: Entry) -> bool:
        """True when the entry of our buffer is stable there."""
        if entry.batch is not None:
            return self.acked.get(entry.batch.origin, 0) >= entry.batch.last
        assert entry.view is not None
        return self.acked_view is not None and self.acked_view >= entry.view.id


@dataclass(slots=True)
class Remote:
    """Another site."""

    #: True once anything of it has been admitted: from then on what is missing is a gap, before it is a baseline.
    known: bool = False
    down: bool = False
    #: The last number admitted per origin.
    admitted: dict[Address, int] = field(default_factory=dict)
    #: Not replicated: where this member is ahead of that, after a merge with a part that had less.
    ahead: dict[Address, int] = field(default_factory=dict)
    lineages: dict[ViewId, Lineage] = field(default_factory=dict)

    @property
    def view(self) -> View | None:
        """The view that stands for the site: the newest of its lineages, so a late one of a lost part never flips it (R10)."""
        views = [lineage.view for lineage in self.lineages.values() if lineage.view is not None]
        return max(views, key=lambda view: view.id, default=None)

    def lineages_of(self, member: Address) -> list[ViewId]:
        """Those whose newest view has this member: the part of a split site in which it is. Empty: it is gone."""
        return [name for name, each in self.lineages.items() if each.view is not None and member in each.view.members]

    def lineage(self, name: ViewId) -> Lineage:
        """The lineage of this name, made when it is new; at the bound the oldest is forgotten."""
        found = self.lineages.get(name)
        if found is None:
            while len(self.lineages) >= LINEAGES_MAX:
                del self.lineages[next(iter(self.lineages))]
            found = self.lineages[name] = Lineage()
        return found

    def forget_merged(self, view: View) -> None:
        """A merge view continues the lineages that it joins: when its own is linked, it alone says what its site has.

        Also those that went down meanwhile, and those whose last views nobody here has seen: nothing is held for them any more.
        """
        if self.lineages[view.lineage].epoch is None:
            return
        for part in view.subviews:
            if part.lineage != view.lineage:
                self.lineages.pop(part.lineage, None)


class ReplicatedState:
    """Buffer, own view, and all that is known of the other sites."""

    def __init__(self, site: str, config: BufferConfig) -> None:
        self.site = site
        self.view: View | None = None
        self.buffer = Buffer(config)
        #: The last number of scope ALL per origin of this site.
        self.produced: dict[Address, int] = {}
        self.remotes: dict[str, Remote] = {}
        #: The other sites, as the last ACK named them.
        self._sites: tuple[str, ...] = ()

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

    def install(self, view: View, now: float, hold: bool) -> None:
        """A view of this site is an entry like the batches: no message arrives before the view that knows its origin (G5)."""
        self.view = view
        if hold:
            self.buffer.append(None, view, now)
        _bury(self.produced, view.members)

    # -- other sites ---------------------------------------------------------------------------------------------------

    def admit(self, batch: Batch) -> Admission:
        """Admit a batch of another site if it is the next one of its origin."""
        remote = self.remote(batch.site)
        answer = admission(remote.admitted.get(batch.origin, 0), batch.first, batch.last)
        if answer is Admission.NEXT:
            remote.known = True
            remote.admitted[batch.origin] = batch.last
            _bound(remote.admitted)
        return answer

    def has_been_delivered(self, site: str, origin: Address, last: int) -> bool:
        """True when this member had it already in its part of a split site; others had not, so it was admitted again."""
        ahead = self.remote(site).ahead
        reached = ahead.get(origin, 0)
        if 0 < reached <= last:
            del ahead[origin]
        return last <= reached

    def apply_gap(self, gap: RemoteGap) -> tuple[int, int] | None:
        """Skip what a site no longer holds: after what it begins, and after what it does for this member. None: not at all."""
        remote = self.remote(gap.site)
        reached = remote.admitted.get(gap.origin, 0)
        if gap.last <= reached or gap.first > reached + 1:
            return None
        remote.known = True
        remote.admitted[gap.origin] = gap.last
        return reached, max(reached, remote.ahead.get(gap.origin, 0))

    def apply_baseline(self, baseline: RemoteBaseline) -> dict[Address, int]:
        """Begin to know a site after these numbers; those that were new."""
        remote = self.remote(baseline.site)
        fresh = {origin: n for origin, n in baseline.origins.items() if n > 0 and origin not in remote.admitted}
        remote.known = True
        remote.admitted.update(fresh)
        return fresh

    def apply_view(self, entry: RemoteView) -> bool:
        """A view of another site; False when a newer one of its lineage is known. A merge view ends the lineages it joins."""
        remote = self.remote(entry.site)
        lineage = remote.lineage(entry.view.lineage)
        if lineage.view is not None and lineage.view.id >= entry.view.id:
            return False
        if lineage.reached is not None and lineage.reached > entry.view.id:
            return False
        lineage.view, lineage.reached = entry.view, entry.view.id
        remote.known, remote.down = True, False
        remote.forget_merged(entry.view)
        self._drop_acked()  # what was held only for a lineage that ends here
        _bury(remote.admitted, entry.view.members)
        return True

    def apply_down(self, entry: SiteDown) -> None:
        """A lineage has been away too long: it leaves the global view, and with `forget` pins nothing any more."""
        remote = self.remote(entry.site)
        lineage = remote.lineages.get(entry.lineage)
        if lineage is None:
            return
        lineage.view = None
        if entry.forget:
            del remote.lineages[entry.lineage]
            self._drop_acked()
        remote.down = remote.view is None

    def apply_link_up(self, entry: LinkUp) -> None:
        """Fence every lower epoch of the lineage."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        if lineage.epoch is None or lineage.epoch < entry.epoch:
            lineage.epoch = entry.epoch

    def apply_acked(self, entry: Acked) -> int:
        """Another site has more of ours; how many entries were dropped because all that count have them."""
        lineage = self.remote(entry.site).lineage(entry.lineage)
        produced = self.produced
        raise_to(lineage.acked, entry.vector.origins)
        lineage.acked_view = later(lineage.acked_view, entry.vector.view)
        if len(lineage.acked) > ORIGINS_MAX:
            lineage.acked = {origin: n for origin, n in lineage.acked.items() if origin in produced}
        self._sites = entry.sites
        return self._drop_acked()

    def _drop_acked(self) -> int:
        """Drop what all sites have that entries are held for; how many entries that were."""
        pins = [self.pinning(site) for site in self._sites]
        if not pins or not all(pins):
            return 0  # a site that has never been linked has nothing yet
        waiting = [lineage for lineages in pins for lineage in lineages]
        return self.buffer.drop_while(lambda held: all(each.has(held) for each in waiting))

    def pinning(self, site: str) -> list[Lineage]:
        """The lineages of a site that entries are held for: those that have ever linked."""
        remote = self.remotes.get(site)
        return [] if remote is None else [each for each in remote.lineages.values() if each.epoch is not None]

    # -- answers -------------------------------------------------------------------------------------------------------

    def admitted_vector(self, site: str, lineage: ViewId) -> SiteVector | None:
        """What this site has admitted of another one, as a STATE says it; None when that one is unknown here."""
        remote = self.remotes.get(site)
        if remote is None or not remote.known:
            return None
        known = remote.lineages.get(lineage)
        return SiteVector(dict(remote.admitted), None if known is None or known.view is None else known.view.id)

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
        remotes = [
            RemoteState(
                site,
                remote.known,
                remote.down,
                dict(remote.admitted),
                tuple(
                    [
                        LineageState(name, each.epoch, each.view, each.reached, SiteVector(dict(each.acked), each.acked_view))
                        for name, each in remote.lineages.items()
                    ]
                ),
            )
            for site, remote in self.remotes.items()
        ]
        buffer = self.buffer
        view = None if self.view is None else self.view.id
        return RelayState(view, buffer.first, buffer.give(), buffer.base_view, dict(self.produced), tuple(remotes), self._sites)

    def merge(self, parts: list[RelayState], now: float) -> None:
        """Go on from the states of all parts of a split site. What this member has it will not be given again."""
        reached = {site: dict(remote.admitted) for site, remote in self.remotes.items()}
        for site, remote in self.remotes.items():
            raise_to(reached[site], remote.ahead)
        self.take(merge_parts([self.give(), *parts], self.buffer.config.budget_entries), now)
        for site, numbers in reached.items():
            remote = self.remote(site)
            remote.ahead = {origin: n for origin, n in numbers.items() if n > remote.admitted.get(origin, 0)}

    def take(self, state: RelayState, now: float) -> None:
        """Start from another member's point of the stream. Nothing of it is delivered here (S9)."""
        self.buffer.take(state.first, state.entries, state.base_view, now)
        self.produced = dict(state.produced)
        self._sites = state.sites
        self.remotes = {}
        for given in state.remotes:
            lineages = {}
            for each in given.lineages:
                lineages[each.lineage] = Lineage(each.epoch, each.view, each.reached, dict(each.acked.origins), each.acked.view)
            self.remotes[given.site] = Remote(given.known, given.down, dict(given.admitted), {}, lineages)


def _bury(numbers: dict[Address, int], members: tuple[Address, ...]) -> None:
    """Keep a vector within its bound: members that live move to its end, the oldest tombstones go."""
    for member in members:
        if member in numbers:
            numbers[member] = numbers.pop(member)
    _bound(numbers)


def _bound(numbers: dict[Address, int]) -> None:
    while len(numbers) > ORIGINS_MAX:
        del numbers[next(iter(numbers))]
