"""Who leads and what the leader does: collect who wants in and out, run flushes until one of them installs a view.

The first member of the view that is not suspected leads. Others only report. Two leaders can exist for a while (one is falsely
suspected); promises in `participant.py` let at most one of them win, the other backs off a random time or finds itself outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.entrance import Entrance
from sitestack.layers.membership.flush import Flush, Part, Stage
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import CheckMember, Unreached
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """Times and bounds of whoever leads."""

    #: How long joins, leaves and suspicions are collected before the view changes: a storm gives few views (F38). Whoever takes
    #: over from a coordinator does not wait: without one nothing is sequenced, and nothing relayed.
    batch_s: float = 0.05
    #: How long a flush may take before those it waits for are left out. Failure detection is the usual way, and faster.
    flush_timeout_s: float = 8.0
    #: How long members that stand ready wait for a joiner, who may have died unnoticed, or be busy taking in what it is handed.
    joiner_timeout_s: float = 4.0
    #: How long a merge may bring nobody forward before every part goes its own way again and a later attempt is made.
    merge_timeout_s: float = 5.0
    #: A join or a merge for which all stood still until it was given up is not tried again for so long; then for twice as
    #: long, and so on.
    retry_s: float = 8.0
    #: It is never put off for longer.
    retry_s_max: float = 60.0
    #: Of a joiner that does not hear the leader people are told at most this often.
    told_interval_s: float = 60.0
    #: Joiners that wait for a view; beyond, they are ignored and ask again. So many attempts that failed are remembered.
    joiners_max: int = 1_024


class Leader:
    """The leading half of Membership. `member` is this process's own participation; it is only read here."""

    def __init__(self, local: Local, member: Promises, times: LeaderTimes) -> None:
        self.flushes_started = 0
        self.suspected: list[Address] = []
        #: Members that refuse me as leader, or do not answer: to them I am gone, so to me they are.
        self._refusing: list[Address] = []
        self._leavers: list[Address] = []
        #: Members of this view that have asked to be let in since it was installed here.
        self._unaware: list[Address] = []
        #: Joiners, and pairs of parts, for which all have stood still in vain.
        self._vain = Backoff(times.retry_s, times.retry_s_max, times.joiners_max)
        self._entrance = Entrance(local.address, self._vain, times.joiners_max, times.told_interval_s)
        self._local = local
        self._member = member
        self._times = times
        self._flush: Flush | None = None
        self._flush_due: float | None = None
        self._change_due: float | None = None
        #: The highest view counter heard of, so that no proposal is wasted on one that is already promised.
        self._highest = 0

    @property
    def joiners(self) -> int:
        """How many wait to be let in."""
        return len(self._entrance.waiting)

    @property
    def failed_changes(self) -> int:
        """How many joins and merges, for which all have stood still in vain, are remembered."""
        return len(self._vain)

    # -- who wants what --------------------------------------------------------------------------------------------

    def leads(self) -> bool:
        """Whether this process is the first member that nobody has reason to think dead."""
        return self.candidate() == self._local.address

    def candidate(self) -> Address | None:
        """The member that has to act, as far as this process can tell."""
        view = self._member.view
        if view is None:
            return None
        gone = self.suspected if self._stays() else [*self.suspected, self._local.address]
        return next((m for m in view.members if m not in gone), None)

    def _stays(self) -> bool:
        """False once this process has committed a view without itself: the others are in it, and another one leads them."""
        flush = self._flush
        return flush is None or flush.stage is not Stage.COMMITTED or self._local.address not in flush.leaving

    def join(self, joiner: Address, request: wire.JoinRequest, now: float) -> list[Effect]:
        """Somebody asks to be let in. A flush has to wait for joiners, so this one shows first that it can be reached."""
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
        """A member asks to be let in: it has not seen the commit that admitted it. The first time the commit may still come.

        Asking again shows that the commit is lost. All others would wait for a member that never takes part, so it is excluded,
        and joins anew.
        """
        if member not in self._unaware:
            self._unaware.append(member)
            return [Dropped("join_of_member")]
        return self.suspect((member,), now)

    def leave(self, leaver: Address, now: float) -> list[Effect]:
        """A member asks to be let go (also this process itself)."""
        view = self._member.view
        if view is None or leaver not in view.members:
            return [Dropped("leave_of_stranger")]
        if leaver not in self._leavers:
            self._leavers.append(leaver)
        return self._want_change(now, self._times.batch_s)

    def suspect(self, members: tuple[Address, ...], now: float) -> list[Effect]:
        """Failure detection has given these up."""
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
            # All of them: whoever heard of the earlier ones may have died with its knowledge.
            return [self._say(leader, wire.SuspectReport(tuple(self.suspected)))]
        return self._want_change(now, 0.0 if view.coordinator in self.suspected else self._times.batch_s)

    def unsuspect(self, members: tuple[Address, ...]) -> None:
        """These were heard again."""
        self.suspected = [m for m in self.suspected if m not in members]

    def report(self, members: tuple[Address, ...]) -> list[Effect]:
        """Another member cannot hear these: check for myself before believing it."""
        view = self._member.view
        known = () if view is None else view.members
        return [Down(CheckMember(m)) for m in members if m in known and m not in self.suspected]

    def _want_change(self, now: float, delay_s: float) -> list[Effect]:
        if self._flush is not None and self._flush.stage is not Stage.COMMITTED:
            # Else the next flush takes it along; but this one waits for the dead.
            return self._restart(now) if any(m in self.suspected for m in self._flush.everybody) else []
        if self._change_due is None:
            self._change_due = now + delay_s
        return []

    # -- flushes ---------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        return min((due for due in (self._flush_due, self._change_due) if due is not None), default=None)

    def expire(self, now: float) -> list[Effect]:
        """Start what is due, give up what took too long."""
        effects: list[Effect] = []
        if self._flush_due is not None and now >= self._flush_due:
            effects = self._timed_out(now)
        if self._change_due is not None and now >= self._change_due:
            self._change_due = None
            effects += self._start(now)
        return effects

    def yield_to(self, leader: Address) -> None:
        """This process has promised to another leader's higher proposal: its own flush cannot win any more."""
        if self._flush is not None and self._flush.stage is not Stage.COMMITTED and self._flush.proposal.creator != leader:
            self._flush = self._flush_due = None

    def retry(self, now: float) -> None:
        """A member has been blocked for too long: if it is mine to lead, lead."""
        if self._flush is None and self._change_due is None and self.leads():
            self._change_due = now

    def busy(self) -> bool:
        """Whether a flush of this leader is going on or due."""
        return self._change_due is not None or (self._flush is not None and self._flush.stage is not Stage.COMMITTED)

    def hold(self, until: float) -> None:
        """Another coordinator is about to lead a merge: start nothing before this time, then look whether it came to be."""
        self._change_due = until

    def go_on(self, now: float) -> None:
        """The merge that was held still for comes to nothing: look at once what is to do here."""
        if self._change_due is not None:
            self._change_due = min(self._change_due, now)

    def may_merge(self, other: View, now: float) -> bool:
        """Whether a merge with this part is not one for which all have just stood still in vain."""
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
            leaving = tuple([m for m in leaving if m != self._local.address])  # the last one turns off the light
        if survivors == view.members and not leaving and not self._entrance.waiting and self._member.blocked_since is None:
            return []  # what it was for has settled itself
        flush = Flush((Part(view, survivors),), self._propose(view), leaving, self._entrance.waiting)
        return self._begin(flush, survivors, now)

    def start_merge(self, others: tuple[View, ...], now: float) -> list[Effect]:
        """Replace this view and those of other coordinators, who have agreed and pass the request on to their members."""
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
        self._change_due = None
        self.flushes_started += 1
        return [self._say(m, wire.FlushRequest(flush.proposal)) for m in asked]

    def _timed_out(self, now: float) -> list[Effect]:
        """Leave out whoever did not answer; the usual way out, failure detection, is much faster."""
        flush = self._flush
        assert flush is not None, "a deadline without a flush"
        assert flush.stage is not Stage.COMMITTED, "a committed flush has no deadline"
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
        """One more member stands still; when all do, say how far everybody goes."""
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
        flush.enter(Stage.PREPARING)
        return [self._say(member, prepare) for member, prepare in flush.prepares()]

    def _current(self, proposal: ViewId, source: Address, stage: Stage) -> Flush | None:
        """The flush that a message belongs to, if it still is at the stage that the message is about."""
        flush = self._flush
        if flush is None or flush.proposal != proposal or flush.stage is not stage or source not in flush.everybody:
            return None
        return flush

    def rejected(self, source: Address, reject: wire.FlushReject, now: float) -> list[Effect]:
        """A member holds to another leader. Try again later with a higher proposal, without it if it refuses me."""
        flush = self._flush
        if flush is None or reject.proposal != flush.proposal or flush.stage is Stage.COMMITTED:
            return [Dropped("stale_flush_reject")]
        if reject.refused and source not in self._refusing and not flush.merges:
            self._refusing.append(source)
        self._highest = max(self._highest, reject.promised.counter)
        return self._restart(now + self._times.batch_s * 10 * self._local.rng.random())

    def _be_patient(self, flush: Flush, now: float) -> None:
        """A merge has come forward. What the parts tell each other can be large, and is on its way to many."""
        if flush.merges:
            self._flush_due = now + self._times.merge_timeout_s

    def _restart(self, at: float) -> list[Effect]:
        """Give the flush up, for another one at this time. The other parts of a merge need not wait to find out."""
        flush = self._flush
        self._flush = self._flush_due = None
        self._change_due = at
        others = () if flush is None else flush.parts[1:]
        return [self._say(part.view.coordinator, wire.MergeRefusal(())) for part in others]

    def prepared(self, source: Address, header: wire.Prepared, now: float) -> list[Effect]:
        """One more is ready; when all are, share what the parts of a merge know, or install."""
        flush = self._current(header.proposal, source, Stage.PREPARING)
        if flush is None:
            return [Dropped("stale_prepared")]
        if source not in flush.done:
            flush.done.append(source)
            self._be_patient(flush, now)
        effects: list[Effect] = []
        if source == flush.parts[0].representative and source not in flush.states:
            # Joiners are sent to the very point of the stream at which these states were taken.
            prepare = wire.Prepare(None, flush.view(), {}, {}, False, header.states)
            effects = [self._say(m, prepare) for m in flush.joiners]
        flush.states[source] = header.states
        if flush.only_joiners_missing() and flush.missing() and self._flush_due is not None:
            self._flush_due = min(self._flush_due, now + self._times.joiner_timeout_s)
        if flush.missing():
            return effects
        if not flush.merges:
            return [*effects, *self._commit(flush)]
        flush.enter(Stage.SHARING)
        return [self._say(m, share) for m, share in flush.shares()]

    def shared(self, source: Address, header: wire.Shared, now: float) -> list[Effect]:
        """One more knows what the other parts bring; when all do, install."""
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
        # Oneself last: this process may go out of existence by its own commit.
        return [self._say(m, commit) for m in (*[m for m in flush.everybody if m != me], me)]

    def confirmed(self, source: Address, header: wire.Installed) -> bool:
        """A member has installed; True when all have, so that a leaving leader may go."""
        flush = self._flush
        if flush is None or header.proposal != flush.proposal or flush.stage is not Stage.COMMITTED:
            return False
        flush.installed.append(source)
        return all(m in flush.installed for m in flush.view().members)

    def view_installed(self, view: View, now: float) -> None:
        """Forget what this view settles; carry over what it does not."""
        self._entrance.discard(view.members)
        self._leavers = [m for m in self._leavers if m in view.members]
        self.suspected = [m for m in self.suspected if m in view.members]
        self._refusing = []
        self._unaware = []
        if self._flush is None or self._flush.proposal != view.id:
            self._flush = None
        self._flush_due = None
        self._change_due = None
        if self.leads() and (self._entrance.waiting or self._leavers or self.suspected):
            self._change_due = now + self._times.batch_s

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._local.address, to, (header,)))
