"""Remote: every member's knowledge of one other site, changed by entries of the stream (`state.py`).

A site has one lineage, or several while split. Each has its relay's epoch, its newest view and its
acknowledgements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from relay.replica.buffer import Buffer
from relay.replica.entries import LineageState, RemoteBaseline, RemoteGap, RemoteState, SiteVector
from relay.replica.held_entries import Entry
from relay.replica.vectors import bound, bury, raise_to
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId

#: Maximum number of lineages per site.
LINEAGES_MAX = 8
#: Maximum number of lineages per site whose newest view is remembered.
REACHED_MAX = 64


class Admission(Enum):
    """The fate of an entry of another site; all values except NEXT are reasons of a drop."""

    #: The batch begins with the next number of its origin.
    NEXT = "admitted"
    DUPLICATE = "relay_duplicate"
    HOLE = "relay_hole"
    SETTLED = "relay_gap_settled"
    #: A view that is not newer than the known one of its lineage.
    OLD_VIEW = "relay_view_duplicate"
    #: Admitted, but this member had delivered the batch in its part of a split site.
    DELIVERED = "relay_delivered_before_merge"
    #: It is about a site that an operator here has taken offline.
    OFFLINE = "relay_offline"
    #: A `Relayed` without a batch, which no member sends.
    MALFORMED = "relay_malformed"


def admission(reached: int, first: int, last: int) -> Admission:
    """Judge numbers `first` to `last` of an origin admitted up to `reached`: only the next ones fit."""
    if last <= reached:
        return Admission.DUPLICATE
    return Admission.NEXT if first == reached + 1 else Admission.HOLE


@dataclass(slots=True)
class Lineage:
    """One line of views of another site."""

    #: The highest epoch in which its relay has connected; None while only its views are known.
    epoch: ViewId | None = None
    #: None before the first view, or while hidden from the global view.
    view: View | None = None
    #: This site's stable messages there, per origin; and this site's last view there.
    acked: dict[Address, int] = field(default_factory=dict)
    acked_view: ViewId | None = None
    is_slow: bool = False
    #: Not replicated, a cache of `lacks_from`.
    _lacks_from: int = 0

    def has(self, entry: Entry) -> bool:
        if entry.batch is not None:
            return self.acked.get(entry.batch.origin, 0) >= entry.batch.last
        assert entry.view is not None
        return self.acked_view is not None and self.acked_view >= entry.view.id

    def lacks_from(self, buffer: Buffer) -> int:
        """Return the buffer position of the oldest entry not stable there, or the buffer's end. Each
        call resumes at the last result.
        """
        position = max(self._lacks_from, buffer.first)
        while position < buffer.end and self.has(buffer.at(position)):
            position += 1
        self._lacks_from = position
        return position


@dataclass(slots=True)
class Remote:
    """Another site.

    Bounds: `ORIGINS_MAX` numbers, `LINEAGES_MAX` lineages, `REACHED_MAX` newest views.
    """

    #: True once any entry of the site is admitted.
    known: bool = False
    #: True when the site left the global view for lack of a link.
    down: bool = False
    admitted: dict[Address, int] = field(default_factory=dict)
    #: Members that delivered more than `admitted` before a merge: numbers per origin.
    ahead: dict[Address, dict[Address, int]] = field(default_factory=dict)
    #: Not replicated: per origin, the number above `admitted` in this member's state.
    inherited: dict[Address, int] = field(default_factory=dict)
    #: Not replicated: `ahead` of this member without a state.
    own: dict[Address, int] = field(default_factory=dict)
    lineages: dict[ViewId, Lineage] = field(default_factory=dict)
    #: The newest view ever shown by each lineage, which never returns with an older one (G3).
    reached: dict[ViewId, ViewId] = field(default_factory=dict)
    #: The lineage whose view represents the site in the global view.
    shown: ViewId | None = None

    @classmethod
    def taken(cls, given: RemoteState) -> Remote:
        lineages = {}
        for each in given.lineages:
            lineages[each.lineage] = Lineage(each.epoch, each.view, dict(each.acked.origins), each.acked.view, each.is_slow)
        ahead = {member: dict(numbers) for member, numbers in given.ahead.items()}
        return cls(given.known, given.down, dict(given.admitted), ahead, {}, {}, lineages, dict(given.reached), given.shown)

    def give(self, site: str) -> RemoteState:
        lineages = [
            LineageState(name, each.epoch, each.view, SiteVector(dict(each.acked), each.acked_view), each.is_slow)
            for name, each in self.lineages.items()
        ]
        ahead = {member: dict(numbers) for member, numbers in self.ahead.items()}
        admitted, reached = dict(self.admitted), dict(self.reached)
        return RemoteState(site, self.known, self.down, admitted, tuple(lineages), reached, ahead, self.shown)

    def admit(self, batch: Batch) -> Admission:
        last = batch.last
        answer = admission(self.admitted.get(batch.origin, 0), batch.first, last)
        if answer is Admission.NEXT:
            self.known = True
            self.admitted[batch.origin] = last
            bound(self.admitted)
        return answer

    def skip(self, gap: RemoteGap) -> int | None:
        """Admit a gap; return the last number before it, or None if it is not the next one."""
        reached = self.admitted.get(gap.origin, 0)
        if gap.last <= reached or gap.first > reached + 1:
            return None
        self.known = True
        self.admitted[gap.origin] = gap.last
        bound(self.admitted)
        return reached

    def begin(self, baseline: RemoteBaseline) -> dict[Address, int]:
        """Admit numbers up to these for unknown origins; return the new ones."""
        fresh = {origin: n for origin, n in baseline.origins.items() if n > 0 and origin not in self.admitted}
        self.known = True
        self.admitted.update(fresh)
        bound(self.admitted)
        return fresh

    def had(self, member: Address, origin: Address) -> int:
        """Return a member's number of an origin from its part of a split site; 0 if it is not ahead."""
        return self.ahead[member].get(origin, 0) if member in self.ahead else 0

    def settle(self, origin: Address, last: int) -> None:
        """Drop `ahead` entries that the admitted number of an origin has reached."""
        for held in (self.inherited, self.own):
            if held.get(origin, last + 1) <= last:
                del held[origin]
        for member, numbers in list(self.ahead.items()):
            if numbers.get(origin, last + 1) <= last:
                del numbers[origin]
            if not numbers:
                del self.ahead[member]

    def inherit(self, provider: Address, heir: Address) -> dict[Address, int]:
        """Begin the application of `heir` with the state of `provider`, which may be ahead and
        supersedes the heir's deliveries. Return numbers lower than the heir's or a former provider's.
        """
        self.own.update(self.ahead.pop(heir, {}))
        superseded = self.inherited
        raise_to(superseded, self.own)
        inherited = self.inherited = dict(self.ahead.get(provider, {}))
        begun = {origin: inherited.get(origin, self.admitted.get(origin, 0)) for origin in superseded}
        self.own = {origin: min(n, begun[origin]) for origin, n in self.own.items()}
        return {origin: n for origin, n in begun.items() if n < superseded[origin]}

    def disinherit(self, heir: Address) -> None:
        """Continue with the own state."""
        own = {origin: n for origin, n in self.own.items() if n > self.admitted.get(origin, 0)}
        self.own, self.inherited = {}, {}
        if own:
            self.ahead[heir] = own

    def keep_ahead(self, members: tuple[Address, ...]) -> None:
        self.ahead = {member: numbers for member, numbers in self.ahead.items() if member in members}

    def vector(self, lineage: ViewId) -> SiteVector | None:
        """Return the admitted numbers for STATE to this lineage's relay; None for an unknown site."""
        if not self.known:
            return None
        known = self.lineages.get(lineage)
        return SiteVector(dict(self.admitted), None if known is None or known.view is None else known.view.id)

    @property
    def view(self) -> View | None:
        shown = None if self.shown is None else self.lineages.get(self.shown)
        return None if shown is None else shown.view

    def lineages_of(self, member: Address) -> list[ViewId]:
        """Return the lineages whose newest view has this member; none for a departed member."""
        return [name for name, each in self.lineages.items() if each.view is not None and member in each.view.members]

    def lineage(self, name: ViewId) -> Lineage:
        """Return this lineage, new if needed, moved to the end: lineages are forgotten from the front."""
        found = self.lineages.pop(name, None) or Lineage()
        while len(self.lineages) >= LINEAGES_MAX:
            del self.lineages[self._dispensable()]
        self.lineages[name] = found
        self._settle()
        return found

    def _dispensable(self) -> ViewId:
        """Return the lineage to forget: unlinked without a view, unlinked, or any."""

        def rank(name: ViewId) -> tuple[bool, bool]:
            return self.lineages[name].epoch is not None, self.lineages[name].view is not None

        return min(self.lineages, key=rank)

    def pinning(self) -> list[Lineage]:
        """Return the lineages that entries are held for: those that have ever linked."""
        return [each for each in self.lineages.values() if each.epoch is not None]

    def is_news(self, view: View) -> bool:
        """Return whether a view is newer than all its lineage's, or the newest again after going down."""
        reached, lineage = self.reached.get(view.lineage), self.lineages.get(view.lineage)
        if reached is None or reached < view.id:
            return True
        return reached == view.id and (lineage is None or lineage.view is None)

    def has_shown(self, view: View) -> bool:
        """Return whether its lineage has shown this view or a later one."""
        reached = self.reached.get(view.lineage)
        return reached is not None and view.id <= reached

    def show(self, view: View) -> bool:
        """Accept a new view of the site; return False if it is old.

        A merge view ends the joined lineages.
        """
        if not self.is_news(view):
            return False
        self.lineage(view.lineage).view = view
        if self.view is None or _replaces(view, self.view):
            self.shown = view.lineage
        self.reached.pop(view.lineage, None)
        self.reached[view.lineage] = view.id
        if len(self.reached) > REACHED_MAX:
            del self.reached[next(name for name in self.reached if name not in self.lineages)]
        self.known, self.down = True, False
        self._forget_merged(view)
        bury(self.admitted, view.members)
        return True

    def _forget_merged(self, view: View) -> None:
        """Forget the lineages joined by a merge view, also hidden ones, once its own lineage has linked for the whole site."""
        if self.lineages[view.lineage].epoch is None:
            return
        for part in view.subviews:
            if part.lineage != view.lineage:
                self.lineages.pop(part.lineage, None)

    def hide(self, name: ViewId, forget: bool) -> bool:
        """Hide a lineage from the global view, or `forget` it; return False if it is unknown."""
        lineage = self.lineages.get(name)
        if lineage is None:
            return False
        lineage.view = None
        if forget:
            del self.lineages[name]
        self._settle()
        self.down = self.view is None
        return True

    def close(self, *, is_down: bool = True) -> None:
        """The site leaves the global view, and no entries are held for it."""
        self.lineages.clear()
        self.shown, self.down = None, is_down

    def _settle(self) -> None:
        if self.view is None:
            views = [lineage.view for lineage in self.lineages.values() if lineage.view is not None]
            newest = max(views, key=lambda view: view.id, default=None)
            self.shown = None if newest is None else newest.lineage


def _replaces(new: View, shown: View) -> bool:
    """Return whether to show a view of the site instead of this one.

    A late view of a lost part is never shown (R10), nor a part with less than half of the shown
    members.
    """
    if any(part.lineage == shown.lineage for part in new.subviews):
        return True
    stay = sum(member in new.members for member in shown.members)
    return new.id > shown.id and 2 * stay >= len(shown.members)
