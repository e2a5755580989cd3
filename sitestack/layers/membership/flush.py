"""The leader's side of one flush: the members asked, their answers, the cuts, and the view to install.

collecting --all survivors blocked--> preparing --all at the cut--> committed
in a merge, after preparing:  giving --a member of each part has--> sharing --all have the others'
states--> committed

An ordinary flush replaces one view and may admit joiners. A merge replaces several views, each with
its cut, and distributes each part's states before any member installs. If a member dies, refuses,
or reports another view, the flush is replaced by one with a higher proposal, never repaired (S5,
S6, SEQ-23).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sitestack.layers.membership.headers import Commit, FlushReply, Give, Given, Prepare, Prepared, Share, Shared
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import SubView, View, ViewId, next_lineage


class Stage(Enum):
    COLLECTING = "collecting"
    PREPARING = "preparing"
    GIVING = "giving"
    SHARING = "sharing"
    COMMITTED = "committed"


_AFTER = {Stage.PREPARING: Stage.GIVING, Stage.GIVING: Stage.SHARING}


@dataclass(frozen=True, slots=True)
class Part:
    view: View
    survivors: tuple[Address, ...]

    @property
    def representative(self) -> Address:
        """The member whose layers send the part's states."""
        return self.survivors[0]


class Flush:
    """One attempt to install a view with id `proposal`. The leader's own part is the first."""

    def __init__(
        self,
        parts: tuple[Part, ...],
        proposal: ViewId,
        leaving: tuple[Address, ...],
        joiners: dict[Address, str],
        known: tuple[Header, ...] = (),
    ) -> None:
        """`leaving`: survivors that are not in the new view. `joiners`: address -> logical name.
        `known`: the states that each joiner knows.
        """
        self.parts = parts
        self.proposal = proposal
        self.leaving = leaving
        self.joiners = dict(joiners)
        self.known = known
        self.stage = Stage.COLLECTING
        self.survivors = tuple([member for part in parts for member in part.survivors])
        self.replies: dict[Address, FlushReply] = {}
        self.states: dict[Address, tuple[Header, ...]] = {}
        self.done: list[Address] = []
        self.installed: list[Address] = []
        #: Another leader may have committed a view that continues the lineage.
        self.is_disputed = False

    @property
    def merges(self) -> bool:
        return len(self.parts) > 1

    @property
    def everybody(self) -> tuple[Address, ...]:
        """All processes to prepare: survivors, leavers and joiners."""
        return (*self.survivors, *self.joiners)

    def missing(self) -> tuple[Address, ...]:
        if self.stage is Stage.COLLECTING:
            return tuple([member for member in self.survivors if member not in self.replies])
        if self.stage is Stage.GIVING:
            return tuple([part.representative for part in self.parts if part.representative not in self.done])
        return tuple([member for member in self.everybody if member not in self.done])

    def unconfirmed(self) -> tuple[Address, ...]:
        return tuple([member for member in self.view().members if member not in self.installed])

    def names(self, members: tuple[Address, ...]) -> tuple[str, ...]:
        known = dict(self.joiners)
        for part in self.parts:
            known.update(part.view.named())
        return tuple([known[member] for member in members])

    def only_joiners_missing(self) -> bool:
        """Return whether the old members are ready and wait for joiners."""
        return self.stage is Stage.PREPARING and all(member in self.done for member in self.survivors)

    def expects(self, proposal: ViewId, source: Address, stage: Stage) -> bool:
        """Return whether an answer belongs to the present stage."""
        if proposal != self.proposal or self.stage is not stage or source not in self.everybody:
            return False
        return stage is not Stage.GIVING or source in self.missing()

    def note_answer(self, source: Address, answer: Prepared | Given | Shared) -> list[tuple[Address, Header]]:
        """Note that `source` has completed the present stage; return the messages to send.

        The joiners' first view begins at the cut.
        """
        if source not in self.done:
            self.done.append(source)
        if isinstance(answer, Shared):
            return []
        first = isinstance(answer, Prepared) and source == self.parts[0].representative and source not in self.states
        self.states[source] = answer.states
        if not first:
            return []
        prepare = Prepare(None, self.view(), {}, {}, False, answer.states)
        return [(joiner, prepare) for joiner in self.joiners]

    def enter_next(self) -> Sequence[tuple[Address, Header]]:
        """Enter the next stage once all have completed the present one; return its messages."""
        shares = self.merges and self.stage is not Stage.SHARING
        return self.enter(_AFTER[self.stage] if shares else Stage.COMMITTED)

    def enter(self, stage: Stage) -> Sequence[tuple[Address, Header]]:
        self.stage = stage
        self.done = []
        if stage is Stage.PREPARING:
            return self._prepares()
        if stage is Stage.GIVING:
            return self._gives()
        if stage is Stage.SHARING:
            return self._shares()
        leader, commit = self.proposal.creator, Commit(self.proposal)
        # The leader comes last: its own commit may end its membership.
        return [(member, commit) for member in (*[m for m in self.everybody if m != leader], leader)]

    def strangers(self) -> tuple[Address, ...]:
        """Return survivors without their part's view installed or prepared."""
        return tuple(
            [
                member
                for part in self.parts
                for member in part.survivors
                if part.view.id not in (self.replies[member].installed, self.replies[member].prepared)
            ]
        )

    def disputes(self, prepared: View | None) -> bool:
        """Return whether a survivor prepared another leader's view that may be in force and continue
        the lineage (S23).

        `prepared`: the view that this leader prepared last. If most members of the other view are
        survivors of this flush, the rest cannot continue it.
        """
        base = self.parts[0].view
        for other in {reply.prepared for reply in self.replies.values()}:
            if other is None or other == base.id or other.creator == self.proposal.creator:
                continue  # none, the replaced view, or an own attempt
            if prepared is None or prepared.id != other:
                return True
            rivals = next_lineage(base, prepared.members, other) == base.lineage
            continues = next_lineage(prepared, self.survivors, self.proposal) == base.lineage
            if rivals and not prepared.subviews and not continues:
                return True
        return False

    def view(self) -> View:
        """Return the next view: the remaining members, part by part, then the joiners."""
        stay = [(m, part.view.name_of(m)) for part in self.parts for m in part.survivors if m not in self.leaving]
        old = self.parts[0]
        forks = self.merges or self.is_disputed
        lineage = self.proposal if forks else next_lineage(old.view, old.survivors, self.proposal)
        parts = self.parts if self.merges else ()
        subviews = tuple([SubView(part.view.id, part.survivors, part.view.lineage) for part in parts])
        members = (*[member for member, _ in stay], *self.joiners)
        return View(self.proposal, lineage, members, (*[name for _, name in stay], *self.joiners.values()), subviews)

    def _prepares(self) -> list[tuple[Address, Prepare]]:
        view = self.view()
        messages = []
        for part in self.parts:
            upto, holders = self._cut(part)
            for member in part.survivors:
                collect = self.merges or (member == part.representative and bool(self.joiners))
                known = self.known if collect else ()
                messages.append((member, Prepare(part.view.id, view, upto, holders, collect, (), known)))
        return messages

    def _cut(self, part: Part) -> tuple[dict[Address, int], dict[Address, Address]]:
        """Return the longest held prefix of each stream, and its holder."""
        upto: dict[Address, int] = {}
        holders: dict[Address, Address] = {}
        for member in part.survivors:
            reply = self.replies[member]
            if reply.installed != part.view.id:
                continue
            for sender, number in reply.digest.items():
                known = upto.get(sender, 0)
                if number > known or (number == known > 0 and member == sender):
                    upto[sender], holders[sender] = number, member
        return upto, holders

    def _gives(self) -> list[tuple[Address, Give]]:
        messages = []
        for part in self.parts:
            takers = [self.states.get(member, ()) for other in self.parts if other is not part for member in other.survivors]
            known = tuple([header for headers in takers for header in headers]) if all(takers) else ()
            messages.append((part.representative, Give(self.proposal, known)))
        return messages

    def _shares(self) -> list[tuple[Address, Share]]:
        messages = []
        for part in self.parts:
            others = [other.representative for other in self.parts if other is not part]
            share = Share(self.proposal, tuple([state for other in others for state in self.states.get(other, ())]))
            messages += [(member, share) for member in part.survivors]
        return messages
