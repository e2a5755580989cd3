"""The leader of a site: collects joins, leaves and suspicions, and runs flushes until one of them installs a view.

The first member of the view that is not suspected leads; all others only report to it. Two members can lead for a while, when
one of them is falsely suspected. The promises in `promises.py` let at most one win; the other retries after a random time, or
finds itself excluded.
"""

from __future__ import annotations

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.entrance import Entrance
from sitestack.layers.membership.flush import Flush, Part, Stage
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import CheckMember, Unreached
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up


class Leader:
    """The leader's half of Membership. It reads `member`, the promises of this process, and never changes them."""

    def __init__(self, local: Local, member: Promises, times: LeaderTimes) -> None:
        self.flushes_started = 0
        self.suspected: list[Address] = []
        #: Members that refuse this process as leader, or do not answer it: the next flush leaves them out.
        self._refusing: list[Address] = []
        self._leavers: list[Address] = []
        #: Members that did not take the commit of this process's last flush: they are asked anew.
        self._astray: list[Address] = []
        #: Whether a flush since this view has found that another leader may continue its lineage.
        self._is_disputed = False
        #: Members that asked to join after this view was installed here: they have not seen the commit that admitted them.
        self._unaware: list[Address] = []
        #: Joiners, and pairs of parts to merge, whose last flush stopped all members in vain.
        self._vain = Backoff(times.retry_s, times.retry_s_max, times.joiners_max)
        self._entrance = Entrance(local.address, self._vain, times.joiners_max, times.told_interval_s)
        self._local = local
        self._member = member
        self._times = times
        self._flush: Flush | None = None
        self._flush_due: float | None = None
        #: When a merge under way is given up though it gets on.
        self._flush_end = 0.0
        self._change_due: float | None = None
        #: The highest view counter known, so that no proposal is wasted on a number that is already promised.
        self._highest = 0

    @property
    def joiners(self) -> int:
        """How many joiners wait for a view."""
        return len(self._entrance.waiting)

    @property
    def failed_changes(self) -> int:
        """How many joins and merges are remembered that have stopped all members in vain."""
        return len(self._vain)

    # -- who wants what --------------------------------------------------------------------------------------------

    def leads(self) -> bool:
        """Whether this process is the first member that is not suspected."""
        return self.candidate() == self._local.address

    def candidate(self) -> Address | None:
        """The member that has to lead, as far as this process can tell; None without a view, or when nobody is left."""
        view = self._member.view
        if view is None:
            return None
        gone = self.suspected if self._stays() else [*self.suspected, self._local.address]
        return next((m for m in view.members if m not in gone), None)

    def _stays(self) -> bool:
        """False once this process has committed a view without itself: another member leads that view."""
        flush = self._flush
        return flush is None or flush.stage is not Stage.COMMITTED or self._local.address not in flush.leaving

    def join(self, joiner: Address, request: wire.JoinRequest, now: float) -> list[Effect]:
        """Take a request to join. A flush waits for its joiners, so a joiner first has to show that it hears this leader."""
        view = self._member.view
        if view is None:
            return [Dropped("join_without_view")]
        if not self.leads():
            return [self._say(joiner, wire.JoinRedirect(self.candidate() or view.coordinator))]
        if joiner in view.members:
            return self._join_of_member(joiner, now)
        effects = self._entrance.ask(joiner, request, now)
        return effects or self._want_change(now, self._times.batch_s)

    def _join_of_member(self, member: Address, now: float) -> list[Effect]:
        """A member asks to join: it has not seen the commit that admitted it. The first time the commit may still arrive.

        A second request shows that the commit is lost. All others would wait for a member that never takes part, so it is
        excluded, and joins anew.
        """
        if member not in self._unaware:
            self._unaware.append(member)
            return [Dropped("join_of_member")]
        return self.suspect((member,), now)

    def leave(self, leaver: Address, now: float) -> list[Effect]:
        """Take a request to leave, of another member or of this process itself."""
        view = self._member.view
        if view is None or leaver not in view.members:
            return [Dropped("leave_of_stranger")]
        if leaver not in self._leavers:
            self._leavers.append(leaver)
        return self._want_change(now, self._times.batch_s)

    def suspect(self, members: tuple[Address, ...], now: float) -> list[Effect]:
        """Take members that failure detection reports dead: exclude them, or report them to the leader."""
        view = self._member.view
        if view is None:
            return []
        fresh = tuple([m for m in members if m in view.members and m != self._local.address])
        self.suspected += [m for m in fresh if m not in self.suspected]
        self._entrance.discard(members)
        if not fresh:
            return []
        if not self.leads():
            leader = self.candidate()
            if leader is None:
                return []  # this process has committed its leave, and nobody else is left
            # All suspects, not only the new ones: a leader that was told of the earlier ones may have died since.
            return [self._say(leader, wire.SuspectReport(tuple(self.suspected)))]
        return self._want_change(now, 0.0 if view.coordinator in self.suspected else self._times.batch_s)

    def unsuspect(self, members: tuple[Address, ...]) -> None:
        """Take back the suspicion of members that were heard again."""
        self.suspected = [m for m in self.suspected if m not in members]

    def report(self, members: tuple[Address, ...]) -> list[Effect]:
        """Check members that another member cannot hear: the leader believes its own failure detection only."""
        view = self._member.view
        known = () if view is None else view.members
        return [Down(CheckMember(m)) for m in members if m in known and m not in self.suspected]

    def _want_change(self, now: float, delay_s: float) -> list[Effect]:
        if self._flush is not None and self._flush.stage is not Stage.COMMITTED:
            # The flush under way would wait for a suspect, so it is restarted. Any other change is left to the next flush.
            return self._restart(now) if any(m in self.suspected for m in self._flush.everybody) else []
        if self._change_due is None:
            self._change_due = now + delay_s
        return []

    # -- flushes ---------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        return min((due for due in (self._flush_due, self._change_due) if due is not None), default=None)

    def expire(self, now: float) -> list[Effect]:
        """Start a flush that is due; give up one that took too long."""
        effects: list[Effect] = []
        if self._flush_due is not None and now >= self._flush_due:
            effects = self._timed_out(now)
        if self._change_due is not None and now >= self._change_due:
            self._change_due = None
            effects += self._start(now)
        return effects

    def yield_to(self, leader: Address) -> None:
        """Give up this process's flush: it has promised a higher proposal of `leader`, so its own cannot win any more."""
        if self._flush is not None and self._flush.stage is not Stage.COMMITTED and self._flush.proposal.creator != leader:
            self._flush = self._flush_due = None

    def retry(self, now: float) -> None:
        """Start a flush if this process leads and none is under way, as the leader of the last one seems to be dead."""
        if self._flush is None and self._change_due is None and self.leads():
            self._change_due = now

    def busy(self) -> bool:
        """Whether a flush of this leader is under way or due."""
        return self._change_due is not None or (self._flush is not None and self._flush.stage is not Stage.COMMITTED)

    def hold(self, until: float) -> None:
        """Start no flush before `until`, as another coordinator is about to lead a merge; then see whether a change is due."""
        self._change_due = until

    def go_on(self, now: float) -> None:
        """End the wait that `hold` began, as the merge will not take place: see at once whether a change is due."""
        if self._change_due is not None:
            self._change_due = min(self._change_due, now)

    def may_merge(self, other: View, now: float) -> bool:
        """Whether a merge with `other` may be tried: False for a while after one that stopped all members in vain."""
        view = self._member.view
        return view is not None and not self._vain.waits((view.members, other.members), now)

    def _start(self, now: float) -> list[Effect]:
        view = self._member.view
        if view is None or not self.leads():
            return []
        gone = (*self.suspected, *self._refusing)
        survivors = tuple([m for m in view.members if m not in gone])
        leaving = tuple([m for m in survivors if m in self._leavers])
        if not self._entrance.waiting and len(leaving) == len(survivors):
            leaving = tuple([m for m in leaving if m != self._local.address])  # all leave: the leader stays, and goes last
        unchanged = survivors == view.members and not leaving and not self._entrance.waiting
        if unchanged and not self._astray and self._member.blocked_since is None:
            return []  # there is nothing to change any more
        waiting = self._entrance.waiting
        flush = Flush((Part(view, survivors),), self._propose(view), leaving, waiting, self._entrance.known())
        return self._begin(flush, survivors, now)

    def start_merge(self, others: tuple[View, ...], now: float) -> list[Effect]:
        """Start the flush that replaces this view and `others`.

        Their coordinators have agreed, and pass the request on to their members.
        """
        view = self._member.view
        assert view is not None
        parts = tuple([Part(each, each.members) for each in (view, *others)])
        self._highest = max(self._highest, *[each.id.counter for each in others])
        flush = Flush(parts, self._propose(view), (), {})
        return self._begin(flush, (*view.members, *[each.coordinator for each in others]), now)

    def _propose(self, view: View) -> ViewId:
        self._highest = max(self._highest, view.id.counter, self._member.promised.counter) + 1
        return ViewId(self._highest, self._local.address)

    def _begin(self, flush: Flush, asked: tuple[Address, ...], now: float) -> list[Effect]:
        self._flush = flush
        self._flush_due = now + (self._times.merge_timeout_s if flush.merges else self._times.flush_timeout_s)
        self._flush_end = now + self._times.merge_budget_s
        self._change_due = None
        self.flushes_started += 1
        return [self._say(m, wire.FlushRequest(flush.proposal)) for m in asked]

    def _timed_out(self, now: float) -> list[Effect]:
        """Restart the flush without those that did not answer in time. Failure detection usually notices them much earlier."""
        flush = self._flush
        assert flush is not None, "a deadline without a flush"
        if flush.stage is Stage.COMMITTED:
            return self._ask_anew(flush.unconfirmed(), now)
        missing = flush.missing()
        effects: list[Effect] = [Dropped("flush_timeout", len(missing))]
        if flush.merges:
            late = [part for part in flush.parts if any(m in missing for m in part.survivors)]
            for part in flush.parts[1:]:
                if part in late or flush.parts[0] in late:
                    self._vain.failed((flush.parts[0].view.members, part.view.members), now)
            effects.append(Up(Unreached(missing, flush.names(missing), "merge")))
        else:
            if flush.only_joiners_missing():
                for joiner in missing:
                    self._vain.failed(joiner, now)
                effects.append(Up(Unreached(missing, flush.names(missing), "join")))
            self._refusing += [m for m in missing if m in flush.survivors and m != self._local.address]
        self._entrance.discard(missing)
        return [*effects, *self._restart(now)]

    def replied(self, source: Address, reply: wire.FlushReply, now: float) -> list[Effect]:
        """Take a member's answer to the flush request; when all have answered, send each the cut of its part."""
        flush = self._current(reply.proposal, source, Stage.COLLECTING)
        if flush is None:
            return [Dropped("stale_flush_reply")]
        flush.replies[source] = reply
        self._be_patient(flush, now)
        if flush.missing():
            return []
        strangers = flush.strangers()
        if strangers:
            self._refusing += [m for m in strangers if m not in self._refusing]
            return self._restart(now)
        prepare = self._member.prepare
        flush.is_disputed = self._is_disputed = self._is_disputed or flush.disputes(None if prepare is None else prepare.view)
        flush.enter(Stage.PREPARING)
        return [self._say(member, prepare) for member, prepare in flush.prepares()]

    def _current(self, proposal: ViewId, source: Address, stage: Stage) -> Flush | None:
        """The flush that a message belongs to; None when it is over, at another stage, or does not involve `source`."""
        flush = self._flush
        if flush is None or flush.proposal != proposal or flush.stage is not stage or source not in flush.everybody:
            return None
        return flush

    def rejected(self, source: Address, reject: wire.FlushReject, now: float) -> list[Effect]:
        """Take a refusal. Retry later with a higher proposal, without that member if it refuses this leader altogether."""
        flush = self._flush
        if flush is None or reject.proposal != flush.proposal:
            return [Dropped("stale_flush_reject")]
        if flush.stage is Stage.COMMITTED:
            self._highest = max(self._highest, reject.promised.counter)
            return self._ask_anew((source,), now)
        if reject.refused and source not in self._refusing and not flush.merges:
            self._refusing.append(source)
        self._highest = max(self._highest, reject.promised.counter)
        return self._restart(now + self._times.batch_s * 10 * self._local.rng.random())

    def _ask_anew(self, members: tuple[Address, ...], now: float) -> list[Effect]:
        """Flush once more for members of the view in force that have not installed it.

        They have promised a proposal of another leader, which may have given it up. If it has not, the higher proposal wins.
        """
        view = self._member.view
        self._flush_due = None
        self._astray = [m for m in members if view is not None and m in view.members]
        return self._want_change(now, self._times.batch_s * 10 * self._local.rng.random()) if self._astray else []

    def _be_patient(self, flush: Flush, now: float) -> None:
        """Extend the deadline of a merge that made progress, within its budget: the states of its parts can be large."""
        if flush.merges:
            self._flush_due = min(now + self._times.merge_timeout_s, self._flush_end)

    def _restart(self, at: float) -> list[Effect]:
        """Give the flush up and schedule another one at time `at`.

        The coordinators of the other parts of a merge are told at once.
        """
        flush = self._flush
        self._flush = self._flush_due = None
        self._change_due = at
        others = () if flush is None else flush.parts[1:]
        return [self._say(part.view.coordinator, wire.MergeRefusal(())) for part in others]

    def prepared(self, source: Address, header: wire.Prepared, now: float) -> list[Effect]:
        """A member or joiner is ready. When all are, a merge shares the states of its parts; any other flush commits."""
        flush = self._current(header.proposal, source, Stage.PREPARING)
        if flush is None:
            return [Dropped("stale_prepared")]
        if source not in flush.done:
            flush.done.append(source)
            self._be_patient(flush, now)
        effects: list[Effect] = []
        if source == flush.parts[0].representative and source not in flush.states:
            # The joiners' first view begins at the cut, where these states were taken.
            prepare = wire.Prepare(None, flush.view(), {}, {}, False, header.states)
            effects = [self._say(m, prepare) for m in flush.joiners]
        flush.states[source] = header.states
        if flush.only_joiners_missing() and flush.missing() and self._flush_due is not None:
            self._flush_due = min(self._flush_due, now + self._times.joiner_timeout_s)
        if flush.missing():
            return effects
        if not flush.merges:
            return [*effects, *self._commit(flush)]
        flush.enter(Stage.GIVING)
        return [self._say(m, give) for m, give in flush.gives()]

    def given(self, source: Address, header: wire.Given, now: float) -> list[Effect]:
        """A part of a merge has given its states. When all have, each is sent those of the others."""
        flush = self._current(header.proposal, source, Stage.GIVING)
        if flush is None or source not in flush.missing():
            return [Dropped("stale_given")]
        flush.done.append(source)
        flush.states[source] = header.states
        self._be_patient(flush, now)
        if flush.missing():
            return []
        flush.enter(Stage.SHARING)
        return [self._say(m, share) for m, share in flush.shares()]

    def shared(self, source: Address, header: wire.Shared, now: float) -> list[Effect]:
        """A member has the states of the other parts. When all have, the merge commits."""
        flush = self._current(header.proposal, source, Stage.SHARING)
        if flush is None:
            return [Dropped("stale_shared")]
        if source not in flush.done:
            flush.done.append(source)
            self._be_patient(flush, now)
        return [] if flush.missing() else self._commit(flush)

    def _commit(self, flush: Flush) -> list[Effect]:
        flush.enter(Stage.COMMITTED)
        self._flush_due = None
        commit = wire.Commit(flush.proposal)
        me = self._local.address
        # This process comes last: its own commit may end its membership.
        return [self._say(m, commit) for m in (*[m for m in flush.everybody if m != me], me)]

    def confirmed(self, source: Address, header: wire.Installed) -> bool:
        """Note that a member has installed the view. True when all have, so that a leaving leader may go."""
        flush = self._flush
        if flush is None or header.proposal != flush.proposal or flush.stage is not Stage.COMMITTED:
            return False
        flush.installed.append(source)
        self._astray = [m for m in self._astray if m != source]
        return not flush.unconfirmed()

    def view_installed(self, view: View, now: float) -> None:
        """Forget the requests that this view fulfils and keep the rest for the next flush."""
        self._entrance.discard(view.members)
        self._leavers = [m for m in self._leavers if m in view.members]
        self.suspected = [m for m in self.suspected if m in view.members]
        self._refusing = []
        self._unaware = []
        self._astray = []
        self._is_disputed = False
        if self._flush is not None and self._flush.proposal != view.id:
            self._flush = None
        self._flush_due = None if self._flush is None else now + self._times.flush_timeout_s
        self._change_due = None
        if self.leads() and (self._entrance.waiting or self._leavers or self.suspected):
            self._change_due = now + self._times.batch_s

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._local.address, to, (header,)))
