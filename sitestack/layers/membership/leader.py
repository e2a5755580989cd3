"""The leader of a site: runs flushes until one of them installs a view with all wanted changes.

idle --a change is due--> flushing --all are ready--> confirming
confirming --the view is installed, a change is due--> flushing
flushing --a member died, refused or did not answer--> idle, with a change due

The first member of the view that is not suspected leads. A false suspicion can give two leaders for
a while; the promises let at most one win. The other retries after a random time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.changes import WantedChanges
from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.flush import Flush, Part, Stage
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Unreached
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Dropped, Effect, Local, Up

#: Stage of each answer, and the reason for dropping a late one.
_ANSWERS: dict[type[Header], tuple[Stage, str]] = {
    wire.Prepared: (Stage.PREPARING, "stale_prepared"),
    wire.Given: (Stage.GIVING, "stale_given"),
    wire.Shared: (Stage.SHARING, "stale_shared"),
}


@dataclass(slots=True)
class Idle:
    change_due: float | None = None

    def deadline(self) -> float | None:
        return self.change_due


@dataclass(slots=True)
class Flushing:
    """A flush under way, abandoned when it is `due`. Progress of a merge extends that, up to `end`."""

    flush: Flush
    due: float
    end: float

    def deadline(self) -> float | None:
        return self.due

    def extend(self, until: float) -> None:
        """Extend the deadline of a merge that made progress."""
        if self.flush.merges:
            self.due = min(until, self.end)


@dataclass(slots=True)
class Confirming:
    """A committed flush. When `due`, members without its view are asked again."""

    flush: Flush
    due: float | None = None
    change_due: float | None = None

    def deadline(self) -> float | None:
        return min((due for due in (self.due, self.change_due) if due is not None), default=None)


class Leader:
    def __init__(self, local: Local, member: Promises, times: LeaderTimes) -> None:
        self.flushes_started = 0
        self.changes = WantedChanges(local, member, times)
        self._phase: Idle | Flushing | Confirming = Idle()
        #: Whether a flush since this view has found that another leader may continue its lineage.
        self._is_disputed = False
        #: The highest view counter known.
        self._highest = 0
        self._local = local
        self._member = member
        self._times = times

    def leads(self) -> bool:
        return self.candidate() == self._local.address

    def candidate(self) -> Address | None:
        """Return the member that has to lead, or None.

        After committing a view without itself, this process leaves that view to another member.
        """
        view, phase = self._member.view, self._phase
        if view is None:
            return None
        gone = self.changes.suspected
        if isinstance(phase, Confirming) and self._local.address in phase.flush.leaving:
            gone = [*gone, self._local.address]
        return next((m for m in view.members if m not in gone), None)

    def join(self, joiner: Address, request: wire.JoinRequest, now: float) -> list[Effect]:
        """Handle a request to join.

        A member that asks to join has not received its commit. At its second request the commit is
        lost and all others would wait for it, so it is excluded and joins again.
        """
        view = self._member.view
        if view is None:
            return [Dropped("join_without_view")]
        if not self.leads():
            return [self._local.unicast(joiner, wire.JoinRedirect(self.candidate() or view.coordinator))]
        if joiner in view.members:
            again = self.changes.asked_before(joiner)
            return self.suspect((joiner,), now) if again else [Dropped("join_of_member")]
        effects = self.changes.entrance.request(joiner, request, now)
        return effects or self._want_change(now, self._times.batch_s)

    def leave(self, leaver: Address, now: float) -> list[Effect]:
        view = self._member.view
        if view is None or leaver not in view.members:
            return [Dropped("leave_of_stranger")]
        self.changes.add_leaver(leaver)
        return self._want_change(now, self._times.batch_s)

    def suspect(self, members: tuple[Address, ...], now: float) -> list[Effect]:
        """Exclude members that failure detection reports dead, or report them to the leader."""
        view = self._member.view
        if view is None or not self.changes.add_suspects(members, view):
            return []
        suspected = self.changes.suspected
        if not self.leads() and not isinstance(self._phase, Flushing):
            leader = self.candidate()
            if leader is None:
                return []  # this process has left, and no other member is left
            # All suspects: a leader that received the earlier ones may have died.
            return [self._local.unicast(leader, wire.SuspectReport(tuple(suspected)))]
        return self._want_change(now, 0.0 if view.coordinator in suspected else self._times.batch_s)

    def _want_change(self, now: float, delay_s: float) -> list[Effect]:
        phase = self._phase
        if isinstance(phase, Flushing):
            # The flush under way would wait for a suspect. The next one makes any other change.
            dead = any(m in self.changes.suspected for m in phase.flush.everybody)
            return self._restart(phase.flush, now) if dead else []
        if phase.change_due is None:
            phase.change_due = now + delay_s
        return []

    def deadline(self) -> float | None:
        return self._phase.deadline()

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        phase = self._phase
        if isinstance(phase, Flushing):
            if now >= phase.due:
                effects = self._give_up(phase.flush, now)
        elif isinstance(phase, Confirming) and phase.due is not None and now >= phase.due:
            effects = self._ask_again(phase, phase.flush.unconfirmed(), now)
        phase = self._phase
        if not isinstance(phase, Flushing) and phase.change_due is not None and now >= phase.change_due:
            phase.change_due = None
            effects += self._start(now)
        return effects

    def yield_to(self, leader: Address) -> list[Effect]:
        """Abandon this process's flush, which the higher proposal of `leader` overrides."""
        phase = self._phase
        if not isinstance(phase, Flushing) or phase.flush.proposal.creator == leader:
            return []
        return self._restart(phase.flush, None)

    def retry(self, now: float) -> None:
        """Start a flush if this process leads and none is under way."""
        if isinstance(self._phase, Idle) and self._phase.change_due is None:
            self._phase.change_due = now

    def busy(self) -> bool:
        return isinstance(self._phase, Flushing) or self._phase.change_due is not None

    def hold(self, until: float) -> None:
        """Start no flush before `until`: another coordinator is about to lead a merge."""
        assert not isinstance(self._phase, Flushing), "busy"
        self._phase.change_due = until

    def end_hold(self, now: float) -> None:
        if not isinstance(self._phase, Flushing) and self._phase.change_due is not None:
            self._phase.change_due = min(self._phase.change_due, now)

    def _start(self, now: float) -> list[Effect]:
        view = self._member.view
        # An abandoned flush blocks its members, even if a falsely suspected coordinator leads again.
        abandoned = isinstance(self._phase, Idle) and self._member.is_blocked_by(self._local.address)
        if view is None or not (self.leads() or abandoned):
            return []
        survivors = self.changes.survivors(view)
        leaving = self.changes.leaving(survivors)
        if not self.changes.needs_flush(view, survivors, leaving):
            return []
        entrance = self.changes.entrance
        return self._begin((Part(view, survivors),), leaving, entrance.waiting, entrance.known(), now)

    def start_merge(self, others: tuple[View, ...], now: float) -> list[Effect]:
        """Start the flush that replaces this view and `others`, whose coordinators have agreed."""
        view = self._member.view
        assert view is not None
        parts = tuple([Part(each, each.members) for each in (view, *others)])
        self._highest = max(self._highest, *[each.id.counter for each in others])
        return self._begin(parts, (), {}, (), now)

    def _begin(
        self,
        parts: tuple[Part, ...],
        leaving: tuple[Address, ...],
        joiners: dict[Address, str],
        known: tuple[Header, ...],
        now: float,
    ) -> list[Effect]:
        self._highest = max(self._highest, parts[0].view.id.counter, self._member.promised.counter) + 1
        flush = Flush(parts, ViewId(self._highest, self._local.address), leaving, joiners, known)
        timeout_s = self._times.merge_timeout_s if flush.merges else self._times.flush_timeout_s
        self._phase = Flushing(flush, now + timeout_s, now + self._times.merge_budget_s)
        self.flushes_started += 1
        asked = (*parts[0].survivors, *[part.view.coordinator for part in parts[1:]])
        return [self._local.unicast(m, wire.FlushRequest(flush.proposal)) for m in asked]

    def _give_up(self, flush: Flush, now: float) -> list[Effect]:
        missing, changes = flush.missing(), self.changes
        effects: list[Effect] = [Dropped("flush_timeout", len(missing))]
        if flush.merges:
            late = [part for part in flush.parts if any(m in missing for m in part.survivors)]
            for part in flush.parts[1:]:
                if part in late or flush.parts[0] in late:
                    changes.failed.failed((flush.parts[0].view.members, part.view.members), now)
            effects.append(Up(Unreached(missing, flush.names(missing), "merge")))
        else:
            if flush.only_joiners_missing():
                for joiner in missing:
                    changes.failed.failed(joiner, now)
                effects.append(Up(Unreached(missing, flush.names(missing), "join")))
            changes.refusing += [m for m in missing if m in flush.survivors and m != self._local.address]
        changes.entrance.discard(missing)
        return [*effects, *self._restart(flush, now)]

    def _restart(self, flush: Flush, at: float | None) -> list[Effect]:
        """Schedule another flush; notify the other coordinators of a merge."""
        self._phase = Idle(at)
        return [self._local.unicast(part.view.coordinator, wire.MergeRefusal(())) for part in flush.parts[1:]]

    def handle_reply(self, source: Address, reply: wire.FlushReply, now: float) -> list[Effect]:
        """Handle an answer to the flush request; after the last one, send each member its part's cut."""
        phase = self._phase
        if not isinstance(phase, Flushing) or not phase.flush.expects(reply.proposal, source, Stage.COLLECTING):
            return [Dropped("stale_flush_reply")]
        flush = phase.flush
        flush.replies[source] = reply
        phase.extend(now + self._times.merge_timeout_s)
        if flush.missing():
            return []
        strangers = flush.strangers()
        if strangers:
            self.changes.refusing += [m for m in strangers if m not in self.changes.refusing]
            return self._restart(flush, now)
        prepare = self._member.prepare
        flush.is_disputed = self._is_disputed = self._is_disputed or flush.disputes(None if prepare is None else prepare.view)
        return [self._local.unicast(m, header) for m, header in flush.enter(Stage.PREPARING)]

    def handle_answer(self, source: Address, answer: wire.Prepared | wire.Given | wire.Shared, now: float) -> list[Effect]:
        """Handle a member's answer at a later stage."""
        phase = self._phase
        stage, stale = _ANSWERS[type(answer)]
        if not isinstance(phase, Flushing) or not phase.flush.expects(answer.proposal, source, stage):
            return [Dropped(stale)]
        flush = phase.flush
        if source not in flush.done:
            phase.extend(now + self._times.merge_timeout_s)
        messages = flush.note_answer(source, answer)
        if not flush.missing():
            messages = [*messages, *flush.enter_next()]
            if flush.stage is Stage.COMMITTED:
                self._phase = Confirming(flush)
        elif flush.only_joiners_missing():
            phase.due = min(phase.due, now + self._times.joiner_timeout_s)
        return [self._local.unicast(m, header) for m, header in messages]

    def handle_reject(self, source: Address, reject: wire.FlushReject, now: float) -> list[Effect]:
        """Retry later with a higher proposal, and without a member that refuses this leader."""
        phase = self._phase
        if isinstance(phase, Idle) or reject.proposal != phase.flush.proposal:
            return [Dropped("stale_flush_reject")]
        self._highest = max(self._highest, reject.promised.counter)
        if isinstance(phase, Confirming):
            return self._ask_again(phase, (source,), now)
        if reject.refused and source not in self.changes.refusing and not phase.flush.merges:
            self.changes.refusing.append(source)
        return self._restart(phase.flush, now + self._times.batch_s * 10 * self._local.rng.random())

    def _ask_again(self, phase: Confirming, members: tuple[Address, ...], now: float) -> list[Effect]:
        """Flush once more for members that have not installed the view in force.

        They promised a proposal of another leader, which may have abandoned it.
        """
        view = self._member.view
        phase.due = None
        self.changes.lagging = [m for m in members if view is not None and m in view.members]
        if not self.changes.lagging:
            return []
        return self._want_change(now, self._times.batch_s * 10 * self._local.rng.random())

    def confirm(self, source: Address, header: wire.Installed) -> bool:
        """Note that a member has installed the view; return True once all have."""
        phase = self._phase
        if not isinstance(phase, Confirming) or header.proposal != phase.flush.proposal:
            return False
        if source in phase.flush.unconfirmed():
            phase.flush.installed.append(source)
        self.changes.lagging = [m for m in self.changes.lagging if m != source]
        return not phase.flush.unconfirmed()

    def view_installed(self, view: View, now: float) -> None:
        phase = self._phase
        self._is_disputed = False
        if isinstance(phase, Confirming) and phase.flush.proposal == view.id:
            self._phase = Confirming(phase.flush, now + self._times.flush_timeout_s)
        else:
            self._phase = Idle()
        # After catching up with this view its members are blocked for another one.
        if (self.changes.view_installed(view) and self.leads()) or self._member.is_blocked_by(self._local.address):
            self._phase.change_due = now + self._times.batch_s
