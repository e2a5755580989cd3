"""Remote: what every member of a site knows about one other site; only entries of the stream change it (`state.py`).

It says how far the numbered messages of each member of that site have been admitted here. A site has one lineage (a line of
views), or several while it is split; each has the epoch of its relay, its newest view, and what it acknowledged of this site.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from relay.replica.buffer import Buffer
from relay.replica.entries import LineageState, RemoteBaseline, RemoteGap, RemoteState, SiteVector
from relay.replica.held_entries import Entry
from relay.replica.vectors import bound, bury
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId

#: Lineages remembered per site: a new one comes with each split or loss of the majority, and stays until it is forgotten.
LINEAGES_MAX = 8
#: Lineages of a site whose newest view is remembered, including lineages that are forgotten otherwise.
REACHED_MAX = 64


class Admission(Enum):
    """What becomes of an entry of another site; the values other than NEXT are reasons of a drop."""

    #: The batch begins with the next number of its origin.
    NEXT = "admitted"
    #: All its numbers have been admitted before.
    DUPLICATE = "relay_duplicate"
    #: A number before it is missing, and no gap accounts for that.
    HOLE = "relay_hole"
    #: A gap that changes nothing.
    SETTLED = "relay_gap_settled"
    #: A view that is not newer than the one known of its lineage.
    OLD_VIEW = "relay_view_duplicate"
    #: The batch was admitted, but this member had delivered it already, in its part of a split site.
    DELIVERED = "relay_delivered_before_merge"
    #: It is about a site that the operator of this one has taken offline.
    OFFLINE = "relay_offline"
    #: A `Relayed` without a batch, which no member sends.
    MALFORMED = "relay_malformed"


def admission(reached: int, first: int, last: int) -> Admission:
    """Judge numbers `first` to `last` of an origin admitted up to `reached`: only what begins at the next one is admitted."""
    if last <= reached:
        return Admission.DUPLICATE
    return Admission.NEXT if first == reached + 1 else Admission.HOLE


@dataclass(slots=True)
class Lineage:
    """One line of views of another site."""

    #: The highest epoch in which its relay has connected; None while only its views are known.
    epoch: ViewId | None = None
    #: Its newest view; None before the first one, and after the lineage was taken out of the global view.
    view: View | None = None
    #: How far the messages of this site are stable there, per origin of this site; and the last view of this site there.
    acked: dict[Address, int] = field(default_factory=dict)
    acked_view: ViewId | None = None
    #: True when it is too slow for the senders of this site to wait for it (`pace.py`).
    is_slow: bool = False
    #: Not replicated, a cache of `lacks_from`: all entries before this position of the buffer are stable there.
    _lacks_from: int = 0

    def has(self, entry: Entry) -> bool:
        """True when this entry of this site's buffer is stable there."""
        if entry.batch is not None:
            return self.acked.get(entry.batch.origin, 0) >= entry.batch.last
        assert entry.view is not None
        return self.acked_view is not None and self.acked_view >= entry.view.id

    def lacks_from(self, buffer: Buffer) -> int:
        """The buffer position of the oldest entry that is not stable there; the buffer's end when all are.

        Stable entries stay stable, so each call goes on where the last one stopped.
        """
        position = max(self._lacks_from, buffer.first)
        while position < buffer.end and self.has(buffer.at(position)):
            position += 1
        self._lacks_from = position
        return position


@dataclass(slots=True)
class Remote:
    """Another site. Bounds: `ORIGINS_MAX` numbers, `LINEAGES_MAX` lineages, `REACHED_MAX` newest views of lineages."""

    #: True once anything of the site has been admitted: from then on, numbers it no longer holds are a gap, before a baseline.
    known: bool = False
    #: True when the site was taken out of the global view for want of a link.
    down: bool = False
    #: The last number admitted per origin.
    admitted: dict[Address, int] = field(default_factory=dict)
    #: Members of this site that delivered more than `admitted` before a merge, and up to which number per origin.
    ahead: dict[Address, dict[Address, int]] = field(default_factory=dict)
    #: Not replicated: numbers above `admitted` that the application state handed to this member contains already, per origin.
    inherited: dict[Address, int] = field(default_factory=dict)
    lineages: dict[ViewId, Lineage] = field(default_factory=dict)
    #: The newest view that each lineage has ever shown. A lineage may come back with that view, never with an older one (G3).
    reached: dict[ViewId, ViewId] = field(default_factory=dict)
    #: The lineage whose view stands for the site in the global view.
    shown: ViewId | None = None

    @classmethod
    def taken(cls, given: RemoteState) -> Remote:
        """The site as another member knows it."""
        lineages = {}
        for each in given.lineages:
            lineages[each.lineage] = Lineage(each.epoch, each.view, dict(each.acked.origins), each.acked.view, each.is_slow)
        ahead = {member: dict(numbers) for member, numbers in given.ahead.items()}
        return cls(given.known, given.down, dict(given.admitted), ahead, {}, lineages, dict(given.reached), given.shown)

    def give(self, site: str) -> RemoteState:
        """All that is replicated, for a joiner."""
        lineages = [
            LineageState(name, each.epoch, each.view, SiteVector(dict(each.acked), each.acked_view), each.is_slow)
            for name, each in self.lineages.items()
        ]
        ahead = {member: dict(numbers) for member, numbers in self.ahead.items()}
        admitted, reached = dict(self.admitted), dict(self.reached)
        return RemoteState(site, self.known, self.down, admitted, tuple(lineages), reached, ahead, self.shown)

    # -- what it sends -------------------------------------------------------------------------------------------------

    def admit(self, batch: Batch) -> Admission:
        """Admit a batch if it is the next one of its origin."""
        answer = admission(self.admitted.get(batch.origin, 0), batch.first, batch.last)
        if answer is Admission.NEXT:
            self.known = True
            self.admitted[batch.origin] = batch.last
            bound(self.admitted)
        return answer

    def skip(self, gap: RemoteGap) -> int | None:
        """Admit a gap; returns the last number before it. None when it is below what was admitted, or not the next one."""
        reached = self.admitted.get(gap.origin, 0)
        if gap.last <= reached or gap.first > reached + 1:
            return None
        self.known = True
        self.admitted[gap.origin] = gap.last
        bound(self.admitted)
        return reached

    def begin(self, baseline: RemoteBaseline) -> dict[Address, int]:
        """Count the numbers up to these as admitted, for origins not known yet; returns those that were new."""
        fresh = {origin: n for origin, n in baseline.origins.items() if n > 0 and origin not in self.admitted}
        self.known = True
        self.admitted.update(fresh)
        bound(self.admitted)
        return fresh

    def had(self, member: Address, origin: Address) -> int:
        """The number up to which a member had delivered an origin in its part of a split site; 0 when it is not ahead."""
        return self.ahead[member].get(origin, 0) if member in self.ahead else 0

    def settle(self, origin: Address, last: int) -> None:
        """An origin has been admitted up to `last`: members that were ahead no further than this are not ahead any more."""
        if self.inherited.get(origin, last + 1) <= last:
            del self.inherited[origin]
        for member, numbers in list(self.ahead.items()):
            if numbers.get(origin, last + 1) <= last:
                del numbers[origin]
            if not numbers:
                del self.ahead[member]

    def inherit(self, provider: Address, heir: Address) -> None:
        """The application of member `heir` begins with the state of that of member `provider`, which may be ahead.

        What was delivered to the heir itself before is superseded by that state, so the heir is not ahead on its own any more.
        """
        self.inherited = dict(self.ahead.get(provider, {}))
        self.ahead.pop(heir, None)

    def keep_ahead(self, members: tuple[Address, ...]) -> None:
        """Forget which members are ahead, except for these, the members of the view."""
        self.ahead = {member: numbers for member, numbers in self.ahead.items() if member in members}

    def vector(self, lineage: ViewId) -> SiteVector | None:
        """What has been admitted, as STATE says it to the relay of this lineage; None when nothing is known of the site."""
        if not self.known:
            return None
        known = self.lineages.get(lineage)
        return SiteVector(dict(self.admitted), None if known is None or known.view is None else known.view.id)

    # -- its lineages --------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """The view that stands for the site: that of the lineage shown; None when no lineage has one."""
        shown = None if self.shown is None else self.lineages.get(self.shown)
        return None if shown is None else shown.view

    def lineages_of(self, member: Address) -> list[ViewId]:
        """The lineages whose newest view has this member: the parts of a split site that it is in. Empty when it is gone."""
        return [name for name, each in self.lineages.items() if each.view is not None and member in each.view.members]

    def lineage(self, name: ViewId) -> Lineage:
        """The lineage of this name, made when it is new, and moved to the end: lineages are forgotten from the front."""
        found = self.lineages.pop(name, None) or Lineage()
        while len(self.lineages) >= LINEAGES_MAX:
            del self.lineages[self._dispensable()]
        self.lineages[name] = found
        self._settle()
        return found

    def _dispensable(self) -> ViewId:
        """The lineage to forget at the bound: one that never linked, of these one without a view; then one that shows no view;
        then any. Of several the first.

        So the lineage that lives is not forgotten while short-lived ones of its site come and go, nor the one whose relay tells
        of all others before its own view.
        """

        def rank(name: ViewId) -> tuple[bool, bool]:
            return self.lineages[name].epoch is not None, self.lineages[name].view is not None

        return min(self.lineages, key=rank)

    def pinning(self) -> list[Lineage]:
        """The lineages that entries are held for: those that have ever linked."""
        return [each for each in self.lineages.values() if each.epoch is not None]

    def is_news(self, view: View) -> bool:
        """True for a view newer than all that its lineage has shown, or the newest one again after the lineage went down."""
        reached, lineage = self.reached.get(view.lineage), self.lineages.get(view.lineage)
        if reached is None or reached < view.id:
            return True
        return reached == view.id and (lineage is None or lineage.view is None)

    def has_shown(self, view: View) -> bool:
        """True for a view that its lineage has ever shown, or had gone beyond."""
        reached = self.reached.get(view.lineage)
        return reached is not None and view.id <= reached

    def show(self, view: View) -> bool:
        """Take a new view of the site; False when it is no news. A merge view ends the lineages that it joins."""
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
        """Forget the lineages that a merge view joins, once its own lineage has linked and so says what the whole site has.

        That includes lineages that went down meanwhile, and those whose last views were never seen here: nothing is held for
        any of them from now on.
        """
        if self.lineages[view.lineage].epoch is None:
            return
        for part in view.subviews:
            if part.lineage != view.lineage:
                self.lineages.pop(part.lineage, None)

    def hide(self, name: ViewId, forget: bool) -> bool:
        """Take a lineage that was away too long out of the global view, or `forget` it; False when it is not known."""
        lineage = self.lineages.get(name)
        if lineage is None:
            return False
        lineage.view = None
        if forget:
            del self.lineages[name]
        self._settle()
        self.down = self.view is None
        return True

    def close(self) -> None:
        """The operator of this site has taken it offline: it leaves the global view, and nothing is held for any lineage."""
        self.lineages.clear()
        self.shown, self.down = None, True

    def _settle(self) -> None:
        """Show the newest view when the lineage that was shown has none any more."""
        if self.view is None:
            views = [lineage.view for lineage in self.lineages.values() if lineage.view is not None]
            newest = max(views, key=lambda view: view.id, default=None)
            self.shown = None if newest is None else newest.lineage


def _replaces(new: View, shown: View) -> bool:
    """True when a view of the site is to be shown instead of this one.

    A late view of a lost part never is (R10). Nor is that of a part with less than half of the members shown: the others may
    live, and are shown until the merge, or until their lineage was without a link for the grace time.
    """
    if any(part.lineage == shown.lineage for part in new.subviews):
        return True
    stay = sum(member in new.members for member in shown.members)
    return new.id > shown.id and 2 * stay >= len(shown.members)
