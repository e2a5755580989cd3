"""A member's half of a flush: blocks, reports its digest, reaches the cut, is ready, installs.

leader -> all   FlushRequest      member: blocked; asks NAKACK for its digest
member -> leader  FlushReply
leader -> all   Prepare           member: fetches up to the cut, collects the states of its layers
member -> leader  Prepared        a merge in between: Give, Given; Share, Shared
leader -> all   Commit            member: installs
member -> leader  Installed
"""

from __future__ import annotations

from dataclasses import replace

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.joining import Joining
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.majority import Majority
from sitestack.layers.membership.merging import Merging
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.quarantine import Quarantine
from sitestack.model.address import Address
from sitestack.model.events import (
    Blocked,
    CutReached,
    DigestAnswer,
    DigestQuery,
    ReachCut,
    Settled,
    StatesCollected,
    ViewInstalled,
)
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, CollectStates, Down, Dropped, Effect, Local, Up


class Participant:
    def __init__(
        self,
        local: Local,
        member: Promises,
        leader: Leader,
        merging: Merging,
        joining: Joining,
        quarantine: Quarantine,
        majority: Majority,
    ) -> None:
        self._giving: ViewId | None = None
        self._local = local
        self._me = local.address
        self._member = member
        self._leader = leader
        self._merging = merging
        self._joining = joining
        self._quarantine = quarantine
        self._majority = majority

    def requested(self, source: Address, header: wire.FlushRequest, now: float) -> list[Effect]:
        """Promise the proposal and block, or reject it."""
        view = self._member.view
        if view is not None and self._merging.forwards(source, now):
            return [self._local.unicast(m, header) for m in view.members]  # a merge, whose leader the members here do not know
        reject = self._member.judge(header.proposal, source, self._leader.changes.suspected)
        if reject is not None:
            return [self._local.unicast(header.proposal.creator, reject)]
        fresh = self._member.blocked_since is None
        self._member.promise(header.proposal, now)
        refusals = self._leader.yield_to(header.proposal.creator)
        if view is None:  # a joiner that installed no view has no stream to block
            return self.answer(DigestAnswer({}))
        return [*refusals, *([Announce(Blocked())] if fresh else []), Down(DigestQuery())]

    def answer(self, answer: DigestAnswer) -> list[Effect]:
        """Send NAKACK's digest to the leader of the latest proposal."""
        member = self._member
        if member.asked is None:
            return []
        proposal, member.asked = member.asked, None
        installed = None if member.view is None else member.view.id
        return [
            self._local.unicast(proposal.creator, wire.FlushReply(proposal, installed, self._prepared(proposal), answer.digest))
        ]

    def _prepared(self, proposal: ViewId) -> ViewId | None:
        """Return the prepared view if the leader needs it: it may be in force, or continue the lineage (S23)."""
        prepare, view = self._member.prepare, self._member.view
        if prepare is None:
            return None
        rivals = view is not None and prepare.view.lineage == view.lineage
        return prepare.view.id if rivals or proposal.creator in prepare.view.members else None

    def prepare(self, leader: Address, header: wire.Prepare, now: float) -> list[Effect]:
        """Reach the cut of the old view; a joiner is ready at once."""
        member = self._member
        if header.view.id.creator != leader or not member.accepts(header, self._me):
            if member.view is None and header.base is None and header.view.id < member.promised:
                # Views here have lower counters than one that the joiner prepared elsewhere.
                return [self._local.unicast(leader, wire.FlushReject(header.view.id, member.promised, False))]
            return [Dropped("stale_prepare")]
        if header.base is None:
            self._joining.ready(now)
            member.promise(header.view.id, now)
            member.asked = None
            member.prepare = header
            return [self._local.unicast(leader, wire.Prepared(header.view.id, ()))]
        effects: list[Effect] = []
        if member.prepare is not None and member.prepare.view.id == header.base:
            effects = self.catch_up(member.prepare)
        elif member.view is None or member.view.id != header.base:
            return [Dropped("foreign_prepare")]
        member.prepare = header
        return [*effects, Down(ReachCut(header.cut, header.holders))]

    def catch_up(self, prepare: wire.Prepare) -> list[Effect]:
        """Install a view that is in force elsewhere, and stay blocked."""
        blocked_since = self._member.blocked_since
        effects = self.install(prepare.view, prepare.states, blocked=True)
        self._member.blocked_since = blocked_since
        return effects

    def cut_reached(self, event: CutReached) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is None:
            return []
        if prepare.collect:
            return [CollectStates(prepare.view.id.counter, None if prepare.view.subviews else prepare.known)]
        return [self._local.unicast(prepare.view.id.creator, wire.Prepared(prepare.view.id, ()))]

    def give(self, leader: Address, header: wire.Give, now: float) -> list[Effect]:
        prepare = self._member.ready_for(header.proposal)
        if prepare is None or not prepare.collect or not prepare.view.subviews:
            return [Dropped("stale_give"), *self._too_late(leader, header.proposal)]
        self._giving = header.proposal
        return [CollectStates(prepare.view.id.counter, header.known)]

    def collected(self, collected: StatesCollected) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is None or collected.token != prepare.view.id.counter:
            return []
        if self._giving == prepare.view.id:
            return [self._local.unicast(prepare.view.id.creator, wire.Given(prepare.view.id, collected.states))]
        return [self._local.unicast(prepare.view.id.creator, wire.Prepared(prepare.view.id, collected.states))]

    def share(self, leader: Address, header: wire.Share, now: float) -> list[Effect]:
        if self._member.ready_for(header.proposal) is None:
            return [Dropped("stale_share"), *self._too_late(leader, header.proposal)]
        self._member.share(header.states)
        return [self._local.unicast(leader, wire.Shared(header.proposal))]

    def commit(self, leader: Address, header: wire.Commit) -> list[Effect]:
        """Install the view, if it is the one promised last.

        Otherwise the leader must know: the one promised since may have abandoned its flush.
        """
        prepare = self._member.ready_for(header.proposal)
        if prepare is None:
            prepared = self._member.prepare
            if prepared is None or prepared.view.id != header.proposal:
                return [Dropped("stale_commit")]
            return [Dropped("stale_commit"), *self._too_late(leader, header.proposal)]
        return [*self.install(prepare.view, prepare.states), self._local.unicast(leader, wire.Installed(header.proposal))]

    def _too_late(self, leader: Address, proposal: ViewId) -> list[Effect]:
        """Reject a proposal that this member has overtaken with a promise to another leader."""
        if proposal >= self._member.promised:
            return []
        return [self._local.unicast(leader, wire.FlushReject(proposal, self._member.promised, False))]

    def install(self, view: View, states: tuple[Header, ...], blocked: bool = False) -> list[Effect]:
        """Put the view in force for every layer; `blocked`: nothing new is sent in it."""
        is_primary = self._majority.is_primary(view, states)
        if not is_primary:
            view = replace(view, is_primary=False)
        previous = self._member.install(view)
        quarantined = self._quarantine.install(view) or not is_primary
        self._joining.done()
        return [Up(Settled()), Announce(ViewInstalled(view, previous, states, blocked or quarantined, quarantined))]
