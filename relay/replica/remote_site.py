"""Remote: what every member of a site knows about one other site. It changes by entries of the stream only (`state.py`).

The other site numbers what each of its members sends; here is what has been admitted of that. It has one line of views, or
several while it is split; each is a lineage, with the epoch of its relay, its newest view, and what it has of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from relay.replica.buffer import Buffer, Entry
from relay.replica.entries import LineageState, RemoteBaseline, RemoteGap, RemoteState, SiteVector
from relay.replica.vectors import bound, bury
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId

#: Lineages remembered per site: each is a split or a loss of the majority that the others have not forgotten yet.
LINEAGES_MAX = 8
#: Lineages of which the newest view is remembered, those included that are forgotten as such.
REACHED_MAX = 64


class Admission(Enum):
    """What becomes of an entry of another site; unless it is applied, the value is the reason of the drop."""

    #: It is the next one.
    NEXT = "admitted"
    #: It is not above what has been admitted.
    DUPLICATE = "relay_duplicate"
    #: Something before it is missing, and no gap accounts for it.
    HOLE = "relay_hole"
    #: A gap that changes nothing.
    SETTLED = "relay_gap_settled"
    #: A view below one that is known.
    OLD_VIEW = "relay_view_duplicate"
    #: It has been applied, and this member had delivered it already, in its part of a split site.
    DELIVERED = "relay_delivered_before_merge"
    #: Nobody says such a thing.
    MALFORMED = "relay_malformed"


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
    #: What is stable there of our own site.
    acked: dict[Address, int] = field(default_factory=dict)
    acked_view: ViewId | None = None
    #: Senders of our own site do not wait for it (`pace.py`).
    is_slow: bool = False
    #: Not replicated: all entries before this position are known to be stable there; it is moved on when somebody asks.
    _lacks_from: int = 0

    def has(self, entry: Entry) -> bool:
        """True when the entry of our buffer is stable there."""
        if entry.batch is not None:
            return self.acked.get(entry.batch.origin, 0) >= entry.batch.last
        assert entry.view is not None
        return self.acked_view is not None and self.acked_view >= entry.view.id

    def lacks_from(self, buffer: Buffer) -> int:
        """The position of the oldest entry that is not stable there; the end when all are. What is stable stays so."""
        position = max(self._lacks_from, buffer.first)
        while position < buffer.end and self.has(buffer.at(position)):
            position += 1
        self._lacks_from = position
        return position


@dataclass(slots=True)
class Remote:
    """Another site. Bounds: `ORIGINS_MAX` numbers, `LINEAGES_MAX` lineages, `REACHED_MAX` of which the newest view is known."""

    #: True once anything of it has been admitted: from then on what is missing is a gap, before it is a baseline.
    known: bool = False
    down: bool = False
    #: The last number admitted per origin.
    admitted: dict[Address, int] = field(default_factory=dict)
    #: Which members are ahead of that, and how far, after a merge with a part that had less.
    ahead: dict[Address, dict[Address, int]] = field(default_factory=dict)
    #: Not replicated: where the state with which this member's application begins is ahead of it.
    inherited: dict[Address, int] = field(default_factory=dict)
    lineages: dict[ViewId, Lineage] = field(default_factory=dict)
    #: The newest view that each lineage has ever shown, gone or not: it may come back with that one, and none before (G3).
    reached: dict[ViewId, ViewId] = field(default_factory=dict)

    @classmethod
    def taken(cls, given: RemoteState) -> Remote:
        """As another member gave it."""
        lineages = {}
        for each in given.lineages:
            lineages[each.lineage] = Lineage(each.epoch, each.view, dict(each.acked.origins), each.acked.view, each.is_slow)
        ahead = {member: dict(numbers) for member, numbers in given.ahead.items()}
        return cls(given.known, given.down, dict(given.admitted), ahead, {}, lineages, dict(given.reached))

    def give(self, site: str) -> RemoteState:
        """All that is replicated, for a joiner."""
        lineages = [
            LineageState(name, each.epoch, each.view, SiteVector(dict(each.acked), each.acked_view), each.is_slow)
            for name, each in self.lineages.items()
        ]
        ahead = {member: dict(numbers) for member, numbers in self.ahead.items()}
        return RemoteState(site, self.known, self.down, dict(self.admitted), tuple(lineages), dict(self.reached), ahead)

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
        """Admit a gap. The last number before it; None when the gap changes nothing."""
        reached = self.admitted.get(gap.origin, 0)
        if gap.last <= reached or gap.first > reached + 1:
            return None
        self.known = True
        self.admitted[gap.origin] = gap.last
        return reached

    def begin(self, baseline: RemoteBaseline) -> dict[Address, int]:
        """Begin to know it after these numbers; those that were new."""
        fresh = {origin: n for origin, n in baseline.origins.items() if n > 0 and origin not in self.admitted}
        self.known = True
        self.admitted.update(fresh)
        return fresh

    def had(self, member: Address, origin: Address) -> int:
        """How far a member had an origin already in its part of a split site; others had not, so it is admitted again."""
        return self.ahead[member].get(origin, 0) if member in self.ahead else 0

    def settle(self, origin: Address, last: int) -> None:
        """So far an origin has been admitted: who was ahead up to there is not ahead any more."""
        if self.inherited.get(origin, last + 1) <= last:
            del self.inherited[origin]
        for member, numbers in list(self.ahead.items()):
            if numbers.get(origin, last + 1) <= last:
                del numbers[origin]
            if not numbers:
                del self.ahead[member]

    def inherit(self, provider: Address, heir: Address) -> None:
        """The heir's application begins with the state of the provider's; what itself has been delivered is before that."""
        self.inherited = dict(self.ahead.get(provider, {}))
        self.ahead.pop(heir, None)

    def keep_ahead(self, members: tuple[Address, ...]) -> None:
        """Forget who is gone."""
        self.ahead = {member: numbers for member, numbers in self.ahead.items() if member in members}

    def vector(self, lineage: ViewId) -> SiteVector | None:
        """What has been admitted, as a STATE says it to a relay of this lineage; None when nothing is known of the site."""
        if not self.known:
            return None
        known = self.lineages.get(lineage)
        return SiteVector(dict(self.admitted), None if known is None or known.view is None else known.view.id)

    # -- its lineages --------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """The view that stands for the site: the newest of its lineages, so a late one of a lost part never flips it (R10)."""
        views = [lineage.view for lineage in self.lineages.values() if lineage.view is not None]
        return max(views, key=lambda view: view.id, default=None)

    def lineages_of(self, member: Address) -> list[ViewId]:
        """Those whose newest view has this member: the part of a split site in which it is. Empty: it is gone."""
        return [name for name, each in self.lineages.items() if each.view is not None and member in each.view.members]

    def lineage(self, name: ViewId) -> Lineage:
        """The lineage of this name, made when it is new. Something of it has come, so it is the last to be forgotten now.

        At the bound one goes that shows no view, else the one that was heard of least recently: not the one that lives while
        strays of its site come and go.
        """
        found = self.lineages.pop(name, None) or Lineage()
        while len(self.lineages) >= LINEAGES_MAX:
            hidden = [each for each, lineage in self.lineages.items() if lineage.view is None]
            del self.lineages[next(iter(hidden or self.lineages))]
        self.lineages[name] = found
        return found

    def pinning(self) -> list[Lineage]:
        """Those that entries are held for: the ones that have ever linked."""
        return [each for each in self.lineages.values() if each.epoch is not None]

    def is_news(self, view: View) -> bool:
        """True when the view is above what its lineage shows, and not below what that has ever shown."""
        reached, lineage = self.reached.get(view.lineage), self.lineages.get(view.lineage)
        if reached is None or reached < view.id:
            return True
        return reached == view.id and (lineage is None or lineage.view is None)

    def show(self, view: View) -> bool:
        """A view of the site; False when a newer one of its lineage is known. A merge view ends the lineages it joins."""
        if not self.is_news(view):
            return False
        self.lineage(view.lineage).view = view
        self.reached.pop(view.lineage, None)
        self.reached[view.lineage] = view.id
        if len(self.reached) > REACHED_MAX:
            del self.reached[next(name for name in self.reached if name not in self.lineages)]
        self.known, self.down = True, False
        self._forget_merged(view)
        bury(self.admitted, view.members)
        return True

    def _forget_merged(self, view: View) -> None:
        """A merge view continues the lineages that it joins: when its own is linked, it alone says what its site has.

        Also those that went down meanwhile, and those whose last views nobody here has seen: nothing is held for them any more.
        """
        if self.lineages[view.lineage].epoch is None:
            return
        for part in view.subviews:
            if part.lineage != view.lineage:
                self.lineages.pop(part.lineage, None)

    def hide(self, name: ViewId, forget: bool) -> bool:
        """A lineage has been away too long: it shows no view, and with `forget` is gone. False when it is not known."""
        lineage = self.lineages.get(name)
        if lineage is None:
            return False
        lineage.view = None
        if forget:
            del self.lineages[name]
        self.down = self.view is None
        return True
