"""A member's half of a flush: it stops, says where it stands, reaches the cut, stands ready, installs. A helper of membership.

    leader -> all   FlushRequest      member: blocked; asks NAKACK what it holds
    member -> leader  FlushReply
    leader -> all   Prepare           member: fetches up to the cut, collects the states of its layers
    member -> leader  Prepared        a merge in between: Share, Shared
    leader -> all   Commit            member: installs
    member -> leader  Installed

What it has promised is in `promises.py`; the other half is `leader.py` and `flush.py`.
"""

from __future__ import annotations

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.joining import Joining
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.merging import Merging
from sitestack.layers.membership.promises import Promises
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
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View
from sitestack.stack.layer import Announce, CollectStates, Down, Dropped, Effect, Local, Up


class Participant:
    """Answers whoever leads, step by step; a leader follows itself."""

    def __init__(self, local: Local, member: Promises, leader: Leader, merging: Merging, joining: Joining) -> None:
        self.views_installed = 0
        self._me = local.address
        self._member = member
        self._leader = leader
        self._merging = merging
        self._joining = joining

    def requested(self, source: Address, header: wire.FlushRequest, now: float) -> list[Effect]:
        """Stop, unless there is a reason to refuse."""
        view = self._member.view
        if view is not None and self._merging.forwards(source, now):
            return [self._say(m, header) for m in view.members]  # a merge: my members know me, not its leader
        reject = self._member.judge(header.proposal, source, self._leader.suspected)
        if reject is not None:
            return [self._say(header.proposal.creator, reject)]
        fresh = self._member.blocked_since is None
        self._member.promise(header.proposal, now)
        if header.proposal.creator != self._me:
            self._leader.yield_to(header.proposal.creator)
        if view is None:  # ready for a view but never in one: there is no stream to stop
            return self.answer(DigestAnswer({}))
        return [*([Announce(Blocked())] if fresh else []), Down(DigestQuery())]

    def answer(self, answer: DigestAnswer) -> list[Effect]:
        """NAKACK says what it holds: tell whoever asked last."""
        member = self._member
        if member.asked is None:
            return []
        proposal, member.asked = member.asked, None
        installed = None if member.view is None else member.view.id
        prepared = None if member.prepare is None else member.prepare.view.id
        return [self._say(proposal.creator, wire.FlushReply(proposal, installed, prepared, answer.digest))]

    def prepare(self, leader: Address, header: wire.Prepare, now: float) -> list[Effect]:
        """Go to the cut; a joiner has none and stands ready at once."""
        member = self._member
        if header.view.id.creator != leader or not member.accepts(header, self._me):
            if member.view is None and header.base is None and header.view.id < member.promised:
                # This site counts lower than the one that I was ready for: unless it is told, it goes on trying in vain.
                return [self._say(leader, wire.FlushReject(header.view.id, member.promised, False))]
            return [Dropped("stale_prepare")]
        if header.base is None:
            self._joining.ready(now)
            member.promise(header.view.id, now)
            member.asked = None
            member.prepare = header
            return [self._say(leader, wire.Prepared(header.view.id, ()))]
        effects: list[Effect] = []
        if member.prepare is not None and member.prepare.view.id == header.base:
            effects = self.catch_up(member.prepare)
        elif member.view is None or member.view.id != header.base:
            return [Dropped("foreign_prepare")]
        member.prepare = header
        return [*effects, Down(ReachCut(header.cut, header.holders))]

    def catch_up(self, prepare: wire.Prepare) -> list[Effect]:
        """Install a view that is in force elsewhere, and stay blocked: the flush that showed it goes on."""
        blocked_since = self._member.blocked_since
        effects = self.install(prepare.view, prepare.states, blocked=True)
        self._member.blocked_since = blocked_since
        return effects

    def cut_reached(self, event: CutReached) -> list[Effect]:
        """Everything before the view is delivered: collect what the layers hold, if the leader wants it, or be ready."""
        prepare = self._member.prepare
        if prepare is None:
            return []
        if prepare.collect:
            return [CollectStates(prepare.view.id.counter)]
        return [self._say(prepare.view.id.creator, wire.Prepared(prepare.view.id, ()))]

    def collected(self, collected: StatesCollected) -> list[Effect]:
        """Ready, with what the layers hold."""
        prepare = self._member.prepare
        if prepare is None or collected.token != prepare.view.id.counter:
            return []
        return [self._say(prepare.view.id.creator, wire.Prepared(prepare.view.id, collected.states))]

    def share(self, leader: Address, header: wire.Share, now: float) -> list[Effect]:
        """What the other parts of a merge hold."""
        if self._member.ready_for(header.proposal) is None:
            return [Dropped("stale_share")]
        self._member.share(header.states)
        return [self._say(leader, wire.Shared(header.proposal))]

    def commit(self, leader: Address, header: wire.Commit) -> list[Effect]:
        """Everybody is ready."""
        prepare = self._member.ready_for(header.proposal)
        if prepare is None:
            return [Dropped("stale_commit")]
        return [*self.install(prepare.view, prepare.states), self._say(leader, wire.Installed(header.proposal))]

    def install(self, view: View, states: tuple[Header, ...], blocked: bool = False) -> list[Effect]:
        """The view is in force from here on, for every layer; `blocked`: but nothing new is sent in it."""
        previous = self._member.install(view)
        self._joining.done()
        self.views_installed += 1
        return [Up(Settled()), Announce(ViewInstalled(view, previous, states, blocked))]

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._me, to, (header,)))
