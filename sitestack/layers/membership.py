"""Membership (GMS): join, leave, exclusion of the dead, and the agreed installation of views.

Every change of the view is a flush in two phases, prepare and commit. This file is a member's half and the way in and out of
the stack; `leader.py` and `flush.py` are the leader's half, `participant.py` holds the promises, `joining.py` is the way in,
`merging.py` finds the other parts of a split site. Nothing is sequenced in a view before every member of it stands ready, so a
leader that dies while committing leaves nothing undecided: whoever has installed the view proves that all the others are ready
for it, and they install it first.

Sources: seed 003, reliable view installation (A11, A12), traps S3, S5, S6, S10, S13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sitestack.address import Address
from sitestack.events import (
    Blocked,
    Connect,
    CutReached,
    DigestAnswer,
    DigestQuery,
    Disconnect,
    Event,
    Found,
    Left,
    ReachCut,
    SeenView,
    Settled,
    StatesCollected,
    Suspect,
    Unsuspect,
    ViewInstalled,
)
from sitestack.frame import Frame, Header
from sitestack.layer import Announce, CollectStates, Down, Dropped, Effect, Layer, Local, Up
from sitestack.layers import membership_headers as wire
from sitestack.layers.joining import Joining, Phase
from sitestack.layers.leader import Leader, LeaderTimes
from sitestack.layers.merging import MergeTimes, Merging
from sitestack.layers.participant import Participant
from sitestack.message import UNICASTS
from sitestack.view import View, ViewId


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """Times and bounds of membership."""

    #: How long a coordinator may take to let a joiner in before the joiner looks around again.
    join_timeout_s: float = 4.0
    #: How long a graceful leave may take before the member goes as if it had crashed.
    leave_timeout_s: float = 3.0
    #: How long a member may stand blocked before it looks whether it should lead itself.
    blocked_timeout_s: float = 10.0
    #: Frames of a view that is not installed yet; beyond, they are dropped and their senders send again.
    held_frames_max: int = 4_096
    #: What applies to whoever leads.
    leader: LeaderTimes = field(default_factory=LeaderTimes)
    #: What applies to finding the other parts of a split site.
    merge: MergeTimes = field(default_factory=MergeTimes)


@dataclass(frozen=True, slots=True)
class MembershipStatistics:
    """Numbers for operators."""

    view: ViewId | None
    members: int
    views_installed: int
    flushes_started: int
    merges_started: int
    suspected: int
    held_frames: int
    held_frames_max: int
    joiners: int
    joiners_max: int
    join_attempts: int
    blocked: bool


class Membership(Layer):
    """GMS."""

    name: ClassVar[str] = "membership"
    HEADERS: ClassVar[dict[int, type[Header]]] = wire.HEADERS
    FRAMES_UP = "own"
    FRAMES_DOWN = "unicasts"

    def __init__(self, local: Local, config: MembershipConfig) -> None:
        self._me = local.address
        self._local = local
        self._config = config
        self._member = Participant()
        self._leader = Leader(local, self._member, config.leader)
        self._merging = Merging(local, self._member, self._leader, config.merge)
        self._joining = Joining(local, config.join_timeout_s)
        self._leave_due: float | None = None
        self._gone = False
        self._held: list[Frame] = []
        self._views_installed = 0
        leader, merging = self._leader, self._merging
        self._handlers: dict[type[Header], Callable[[Address, Any, float], list[Effect]]] = {
            wire.JoinRequest: leader.join,
            wire.JoinOffer: lambda source, header, now: self._joining.offered(source),
            wire.JoinRedirect: lambda source, header, now: self._joining.redirected(header, now),
            wire.LeaveRequest: lambda source, header, now: leader.leave(source, now),
            wire.SuspectReport: lambda source, header, now: leader.report(header.members),
            wire.FlushRequest: self._handle_request,
            wire.FlushReply: self._handle_reply,
            wire.FlushReject: leader.rejected,
            wire.Prepare: self._handle_prepare,
            wire.Prepared: leader.prepared,
            wire.Share: self._handle_share,
            wire.Shared: leader.shared,
            wire.Commit: self._handle_commit,
            wire.Installed: self._handle_installed,
            wire.MergeHint: lambda source, header, now: merging.hinted(now),
            wire.MergeRequest: lambda source, header, now: merging.requested(source, now),
            wire.MergeReply: merging.replied,
        }

    # -- the contract ----------------------------------------------------------------------------------------------

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Tag unicasts with the view; start to join or to leave."""
        if isinstance(event, Frame):
            view = self._member.view
            if not isinstance(event.dest, Address) or view is None or _is_application_unicast(event):
                return [Down(event)]
            return [Down(event.push(wire.ViewTag(view.id)))]
        if isinstance(event, Connect):
            # A member that says it again has moved to another address: that is for discovery alone.
            return [Down(event), *(self._joining.start() if self._member.view is None else [])]
        if isinstance(event, Disconnect):
            self._leave_due = now + self._config.leave_timeout_s
            return self._ask_to_leave(now)
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Handle what is about membership, and let only frames of the installed view pass."""
        if isinstance(event, Frame):
            return self._frame_up(event, now)
        match event:
            case Found():
                return self._found(event, now)
            case DigestAnswer():
                return self._answer(event)
            case CutReached():
                return self._cut_reached()
            case StatesCollected():
                return self._collected(event)
            case Suspect():
                return self._leader.suspect(event.members, now)
            case Unsuspect():
                self._leader.unsuspect(event.members)
                return []
            case SeenView():
                return self._merging.seen(event, now)
            case ViewInstalled():
                return self._view_installed(event, now)
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        """Go on with whatever is due."""
        if self._leave_due is not None and now >= self._leave_due:
            return self._go(answered=False)
        blocked = self._blocked_due()
        if blocked is not None and now >= blocked:
            self._member.blocked_since = now
            self._leader.retry(now)
        return [*self._joining.expire(now), *self._leader.expire(now), *self._merging.expire(now)]

    def deadline(self) -> float | None:
        """The earliest of all that is waited for; nothing any more once this process has left."""
        if self._gone:
            return None
        parts = (self._joining, self._leader, self._merging)
        dues = (*[part.deadline() for part in parts], self._leave_due, self._blocked_due())
        return min((due for due in dues if due is not None), default=None)

    def statistics(self) -> MembershipStatistics:
        """Numbers for operators."""
        view = self._member.view
        return MembershipStatistics(
            view=None if view is None else view.id,
            members=0 if view is None else len(view.members),
            views_installed=self._views_installed,
            flushes_started=self._leader.flushes_started,
            merges_started=self._merging.merges_started,
            suspected=len(self._leader.suspected),
            held_frames=len(self._held),
            held_frames_max=self._config.held_frames_max,
            joiners=self._leader.joiners,
            joiners_max=self._config.leader.joiners_max,
            join_attempts=self._joining.attempts,
            blocked=self._member.blocked_since is not None,
        )

    # -- frames ----------------------------------------------------------------------------------------------------

    def _frame_up(self, frame: Frame, now: float) -> list[Effect]:
        if not frame.headers:
            return [Up(frame)]
        header = frame.headers[-1]
        if type(header) is wire.ViewTag:
            return self._tagged(frame, header.view)
        handler = self._handlers.get(type(header))
        if handler is None:
            return [Up(frame)]
        return [] if self._gone else handler(frame.source, header, now)

    def _tagged(self, frame: Frame, view: ViewId) -> list[Effect]:
        installed = self._member.view
        if installed is not None and view == installed.id:
            return [Up(frame.pop())]
        if installed is not None and view < installed.id:
            return [Dropped("old_view")]
        if len(self._held) >= self._config.held_frames_max:
            return [Dropped("held_frames")]
        self._held.append(frame)
        return []

    def _release_held(self) -> list[Effect]:
        """What was sent in this view before it was installed here (S3); what waits for a later one goes on waiting."""
        held, self._held = self._held, []
        effects: list[Effect] = []
        for frame in held:
            tag = frame.top(wire.ViewTag)
            assert tag is not None
            effects += self._tagged(frame, tag.view)
        return effects

    # -- in and out ------------------------------------------------------------------------------------------------

    def _found(self, found: Found, now: float) -> list[Effect]:
        if self._joining.phase is Phase.IDLE:
            return self._merging.found(found, now)
        effects = self._joining.found(found, now)
        return self._found_site() if effects is None else effects

    def _found_site(self) -> list[Effect]:
        """Nobody else is there: the first view, with this process alone.

        It counts above what this joiner has stood ready for. There it may be a member all the same, by a commit that it did not
        hear, and only who is seen in a later view is given up and merged (`merging.py`).
        """
        view_id = ViewId(self._member.promised.counter + 1, self._me)
        return self._install(View(view_id, view_id, (self._me,), (self._local.name,)), ())

    def _ask_to_leave(self, now: float) -> list[Effect]:
        view = self._member.view
        if view is None or len(view.members) == 1:
            return self._go()
        if self._leader.leads():
            return self._leader.leave(self._me, now)
        candidate = self._leader.candidate()
        return [] if candidate is None else [self._say(candidate, wire.LeaveRequest())]

    def _go(self, answered: bool = True) -> list[Effect]:
        self._leave_due = None
        self._gone = True
        return [Announce(Left(answered))]

    # -- the member's half of a flush ------------------------------------------------------------------------------

    def _handle_request(self, source: Address, header: wire.FlushRequest, now: float) -> list[Effect]:
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
            return self._answer(DigestAnswer({}))
        return [*([Announce(Blocked())] if fresh else []), Down(DigestQuery())]

    def _answer(self, answer: DigestAnswer) -> list[Effect]:
        member = self._member
        if member.asked is None:
            return []
        proposal, member.asked = member.asked, None
        installed = None if member.view is None else member.view.id
        prepared = None if member.prepare is None else member.prepare.view.id
        return [self._say(proposal.creator, wire.FlushReply(proposal, installed, prepared, answer.digest))]

    def _handle_reply(self, source: Address, header: wire.FlushReply, now: float) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is not None and header.installed == prepare.view.id and source in prepare.view.members:
            # The last leader died while committing, and here is one who got the commit: the view is in force.
            effects = self._catch_up(prepare)
            self._leader.retry(now)
            return effects
        return self._leader.replied(source, header, now)

    def _handle_prepare(self, leader: Address, header: wire.Prepare, now: float) -> list[Effect]:
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
            effects = self._catch_up(member.prepare)
        elif member.view is None or member.view.id != header.base:
            return [Dropped("foreign_prepare")]
        member.prepare = header
        return [*effects, Down(ReachCut(header.cut, header.holders))]

    def _catch_up(self, prepare: wire.Prepare) -> list[Effect]:
        """Install a view that is in force elsewhere, and stay blocked: the flush that showed it goes on."""
        blocked_since = self._member.blocked_since
        effects = self._install(prepare.view, prepare.states, blocked=True)
        self._member.blocked_since = blocked_since
        return effects

    def _cut_reached(self) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is None:
            return []
        if prepare.collect:
            return [CollectStates(prepare.view.id.counter)]
        return [self._say(prepare.view.id.creator, wire.Prepared(prepare.view.id, ()))]

    def _collected(self, collected: StatesCollected) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is None or collected.token != prepare.view.id.counter:
            return []
        return [self._say(prepare.view.id.creator, wire.Prepared(prepare.view.id, collected.states))]

    def _handle_share(self, leader: Address, header: wire.Share, now: float) -> list[Effect]:
        member = self._member
        if member.prepare is None or member.prepare.view.id != header.proposal or header.proposal != member.promised:
            return [Dropped("stale_share")]
        member.share(header.states)
        return [self._say(leader, wire.Shared(header.proposal))]

    def _handle_commit(self, leader: Address, header: wire.Commit, now: float) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is None or header.proposal != prepare.view.id or header.proposal != self._member.promised:
            return [Dropped("stale_commit")]
        if self._me not in prepare.view.members:
            # A leaver is done; a leaving leader first sees everybody installed (or its time run out).
            return self._go() if leader != self._me else []
        return [*self._install(prepare.view, prepare.states), self._say(leader, wire.Installed(header.proposal))]

    def _handle_installed(self, source: Address, header: wire.Installed, now: float) -> list[Effect]:
        everybody = self._leader.confirmed(source, header)
        leaving = self._leave_due is not None and self._member.prepare is not None
        return self._go() if everybody and leaving else []

    def _install(self, view: View, states: tuple[Header, ...], blocked: bool = False) -> list[Effect]:
        previous = self._member.install(view)
        self._joining.done()
        self._views_installed += 1
        return [Up(Settled()), Announce(ViewInstalled(view, previous, states, blocked))]

    def _view_installed(self, event: ViewInstalled, now: float) -> list[Effect]:
        self._leader.view_installed(event.view, now)
        self._merging.view_installed(now)
        effects = self._release_held()
        if self._leave_due is not None:
            effects += self._ask_to_leave(now)
        return effects

    def _blocked_due(self) -> float | None:
        since = self._member.blocked_since
        return None if since is None else since + self._config.blocked_timeout_s

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._me, to, (header,)))


def _is_application_unicast(frame: Frame) -> bool:
    """They survive view changes; everything else from above means something in its view only."""
    return frame.batch is not None and frame.batch.scope in UNICASTS
