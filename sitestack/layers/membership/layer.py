"""Membership (GMS): join, leave, exclusion of dead members, and the agreed installation of views.

Every view change is a flush in two phases, prepare and commit. This module contains the layer and
the leave procedure. `joining.py` joins a site. `leader.py` and `flush.py` are the leader's half of
a flush; `participant.py` is a member's half, with its promises in `promises.py`. `merging.py` finds
the other parts of a split site. `quarantine.py` blocks an excluded member, `majority.py` a part
without the majority. `view_tags.py` keeps unicasts in their view.

Nothing is sequenced in a view before all its members are ready for it. So a leader that dies while
committing leaves nothing undecided.

Sources: JGroups' GMS and its design "Reliable view installation" (A11, A12); traps S3, S5, S6, S10,
S13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.config import MembershipConfig
from sitestack.layers.membership.joining import Joining, Phase
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.majority import Majority
from sitestack.layers.membership.merging import Merging
from sitestack.layers.membership.participant import Participant
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.quarantine import Quarantine
from sitestack.layers.membership.reminders import Reminders
from sitestack.layers.membership.view_tags import ViewTags
from sitestack.model.address import Address
from sitestack.model.events import (
    CheckMember,
    Connect,
    CutReached,
    DigestAnswer,
    Disconnect,
    Event,
    Found,
    Held,
    Left,
    SeenView,
    Stable,
    Stalled,
    StatesCollected,
    Suspect,
    Unsuspect,
    ViewInstalled,
)
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.state_events import Fetched, Fetching
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Up

#: Seconds blocked in a flush before a member checks whether it has to lead itself.
BLOCKED_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class MembershipStatistics:
    flushes_started: int
    merges_started: int


class Membership(Layer):
    """GMS of JGroups. Only unicasts pass through it; NAKACK binds multicasts to a view."""

    name: ClassVar[str] = "membership"
    HEADERS: ClassVar[dict[int, type[Header]]] = wire.HEADERS
    FRAMES_UP = "own"
    FRAMES_DOWN = "unicasts"
    PASSES_LANES = True

    def __init__(self, local: Local, config: MembershipConfig, *, fetches: bool = False) -> None:
        """`fetches`: a layer above fetches state before this process joins (`Offered`)."""
        self._me = local.address
        self._local = local
        self._config = config
        self._member = Promises()
        self._leader = Leader(local, self._member, config.leader)
        self._merging = Merging(local, self._member, self._leader, config.merge, fetches)
        self._joining = Joining(local, config.join_timeout_s, fetches)
        self._quarantine = Quarantine(self._member, config.quarantine)
        self._majority = Majority(config.members if config.when_split == "majority" else None)
        parts = (self._member, self._leader, self._merging, self._joining, self._quarantine, self._majority)
        self._follower = Participant(local, *parts)
        self._reminders = Reminders(local, self._member)
        self._tags = ViewTags(self._member, config.held_frames_max)
        self._leave_due: float | None = None
        self._gone = False
        leader, merging, follower = self._leader, self._merging, self._follower
        self._handlers: dict[type[Header], Callable[[Address, Any, float], list[Effect]]] = {
            wire.JoinRequest: leader.join,
            wire.JoinOffer: lambda source, header, now: self._joining.offered(source),
            wire.JoinRedirect: lambda source, header, now: self._joining.redirected(header, now),
            wire.LeaveRequest: lambda source, header, now: leader.leave(source, now),
            wire.SuspectReport: self._handle_report,
            wire.FlushRequest: follower.requested,
            wire.FlushReply: self._handle_reply,
            wire.FlushReject: leader.handle_reject,
            wire.Prepare: follower.prepare,
            wire.Prepared: leader.handle_answer,
            wire.Give: follower.give,
            wire.Given: leader.handle_answer,
            wire.Share: follower.share,
            wire.Shared: leader.handle_answer,
            wire.Commit: self._handle_commit,
            wire.Installed: self._handle_installed,
            wire.MergeHint: lambda source, header, now: merging.hinted(now),
            wire.MergeRequest: lambda source, header, now: merging.requested(source, now),
            wire.MergeReply: merging.replied,
            wire.MergeQuestion: lambda source, header, now: [self._local.unicast(source, wire.MergeAnswer(header.survey))],
            wire.MergeAnswer: merging.answered,
            wire.MergeFetch: merging.fetch,
            wire.MergeFetched: merging.heard_fetched,
            wire.MergeRefusal: merging.refused,
        }

    def lane_header(self, scope: Scope | None) -> Header | None:
        return self._tags.header(scope)

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            return self._tags.tag(event) if isinstance(event.dest, Address) else [Down(event)]
        self.stale.add(self)
        if isinstance(event, Connect):
            # A second `Connect` reports another address, which only discovery needs.
            return [Down(event), *(self._joining.find_site() if self._member.view is None else [])]
        if isinstance(event, Disconnect):
            self._leave_due = now + self._config.leave_timeout_s
            return self._ask_to_leave(now)
        if isinstance(event, Fetching):
            self._joining.fetching(now)
            return self._merging.errand.fetching(now)
        if isinstance(event, Fetched):
            joins = self._joining.phase is not Phase.IDLE
            return self._joining.fetched(event, now) if joins else self._merging.errand.fetched()
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            return self._frame_up(event, now)
        if isinstance(event, Stable | Held):
            return [Up(event)]
        self.stale.add(self)
        match event:
            case Found():
                return self._found(event, now)
            case DigestAnswer():
                return self._follower.answer(event)
            case CutReached():
                return self._follower.cut_reached(event)
            case StatesCollected():
                return self._follower.collected(event)
            case Suspect():
                return self._leader.suspect(event.members, now)
            case Unsuspect():
                self._leader.changes.unsuspect(event.members)
                return []
            case Stalled():
                return self._quarantine.stalled(now)
            case SeenView():
                return [*self._quarantine.seen(event, now), *self._merging.seen(event, now)]
            case ViewInstalled():
                return self._view_installed(event, now)
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        if self._leave_due is not None and now >= self._leave_due:
            return self._go(answered=False)
        blocked = self._blocked_due()
        if blocked is not None and now >= blocked:
            self._member.blocked_since = now
            self._leader.retry(now)
        effects = [*self._quarantine.expire(now), *self._joining.expire(now)]
        return [*effects, *self._leader.expire(now), *self._merging.expire(now)]

    def deadline(self) -> float | None:
        """The earliest deadline of all parts; None once this process has left."""
        if self._gone:
            return None
        parts = (self._quarantine, self._joining, self._leader, self._merging)
        dues = (*[part.deadline() for part in parts], self._leave_due, self._blocked_due())
        return min((due for due in dues if due is not None), default=None)

    def statistics(self) -> MembershipStatistics:
        return MembershipStatistics(self._leader.flushes_started, self._merging.merges_started)

    def levels(self) -> dict[str, Level]:
        """`blocked` is 1 during a flush and in quarantine."""
        return {
            "blocked": Level.of(int(self._member.blocked_since is not None or bool(self._quarantine)), 1),
            **self._leader.changes.levels(),
            **self._tags.levels(),
            "silent_parts": Level.of(
                self._merging.silent_parts, self._config.merge.apart_max, "coordinators that are not asked again soon"
            ),
        }

    def give_state(self) -> Header | None:
        """Return the standing of this view; a view's states are read as it is installed."""
        return self._majority.give_state()

    def _frame_up(self, frame: Frame, now: float) -> list[Effect]:
        if not frame.headers:
            return [Up(frame)]
        header = frame.headers[-1]
        if type(header) is wire.ViewTag:
            return self._tags.judge(frame, header.view)
        handler = self._handlers.get(type(header))
        if handler is None:
            return [Up(frame)]
        self.stale.add(self)
        return [] if self._gone else handler(frame.source, header, now)

    def _found(self, found: Found, now: float) -> list[Effect]:
        if self._joining.phase is Phase.IDLE:
            return self._merging.found(found, now)
        effects = self._joining.found(found, now)
        return self._found_site() if effects is None else effects

    def _found_site(self) -> list[Effect]:
        """Install the first view, with this process alone.

        Its counter is above that of every view that this joiner has prepared, of which it may be a
        member by a lost commit.
        """
        view_id = ViewId(self._member.promised.counter + 1, self._me)
        return self._follower.install(View(view_id, view_id, (self._me,), (self._local.name,)), ())

    def _ask_to_leave(self, now: float) -> list[Effect]:
        view = self._member.view
        if view is None or len(view.members) == 1:
            return self._go()
        if self._leader.leads():
            return self._leader.leave(self._me, now)
        candidate = self._leader.candidate()
        return [] if candidate is None else [self._local.unicast(candidate, wire.LeaveRequest())]

    def _go(self, answered: bool = True) -> list[Effect]:
        self._leave_due = None
        self._gone = True
        return [Announce(Left(answered))]

    def _handle_reply(self, source: Address, header: wire.FlushReply, now: float) -> list[Effect]:
        prepare = self._member.prepare
        if prepare is not None and header.installed == prepare.view.id and source in prepare.view.members:
            return self._follower.catch_up(prepare)  # the last leader died while committing
        return self._leader.handle_reply(source, header, now)

    def _handle_commit(self, leader: Address, header: wire.Commit, now: float) -> list[Effect]:
        prepare = self._member.ready_for(header.proposal)
        if prepare is not None and self._me not in prepare.view.members:
            # A leaving leader first waits until all members have installed the view, or until its
            # time is over.
            return self._go() if leader != self._me else []
        return self._follower.commit(leader, header)

    def _handle_installed(self, source: Address, header: wire.Installed, now: float) -> list[Effect]:
        everybody = self._leader.confirm(source, header)
        leaving = self._leave_due is not None and self._member.prepare is not None
        return self._go() if everybody and leaving else []

    def _handle_report(self, source: Address, header: wire.SuspectReport, now: float) -> list[Effect]:
        """Check the suspects of another member: a leader believes its own failure detection only."""
        view, suspected = self._member.view, self._leader.changes.suspected
        known = () if view is None else view.members
        checks = [Down(CheckMember(m)) for m in header.members if m in known and m not in suspected]
        return [*checks, *self._reminders.reported(source, header.members)]

    def _view_installed(self, event: ViewInstalled, now: float) -> list[Effect]:
        self._leader.view_installed(event.view, now)
        self._merging.view_installed(event.view, now)
        effects = [*self._tags.release(), *self._reminders.view_installed(event.view)]
        if self._leave_due is not None:
            effects += self._ask_to_leave(now)
        return effects

    def _blocked_due(self) -> float | None:
        since = self._member.blocked_since
        return None if since is None else since + BLOCKED_TIMEOUT_S
