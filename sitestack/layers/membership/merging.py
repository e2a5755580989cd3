"""Finding the other parts of a split site, and agreeing that one of their coordinators leads the merge.

Coordinators look around from time to time, and soon after a heartbeat from elsewhere. Of the coordinators that see each other
the one with the lowest address leads: it asks the others, and whoever agrees passes the leader's flush request on to its own
members and holds still. From there on a merge is a flush over several views (`flush.py`).

A member that was excluded while it lived sees its old companions in a view without it. It gives them up, so that it becomes a
coordinator of its own, and is merged like everybody else (A11, M1, F6, F7).
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, SeenView
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Local


@dataclass(frozen=True, slots=True)
class MergeTimes:
    """Times and bounds of merging."""

    #: How often a coordinator looks for other coordinators without any hint that there are some; jittered by a quarter.
    look_interval_s: float = 10.0
    #: How soon it looks after a hint.
    hint_delay_s: float = 0.5
    #: How long the leader of a merge waits for the other coordinators to agree.
    reply_timeout_s: float = 1.0
    #: How long a coordinator that agreed passes a flush request on.
    consent_s: float = 5.0
    #: How long it holds still once it has passed one on: by then the merge is made, or its leader has died.
    follow_s: float = 7.0
    #: How long companions may be seen in another view before this member believes that they have gone without it.
    elsewhere_s: float = 2.0
    #: Views that one merge joins at most; the rest are joined by the next.
    parts_max: int = 32


class Merging:
    """The merging half of Membership."""

    def __init__(self, local: Local, member: Promises, leader: Leader, times: MergeTimes) -> None:
        self.merges_started = 0
        self._local = local
        self._member = member
        self._leader = leader
        self._times = times
        self._look_due: float | None = None
        #: Companions that were seen in a later view than mine, and since when.
        self._elsewhere: dict[Address, float] = {}
        self._asked: list[Address] = []
        self._agreed: dict[Address, View] = {}
        self._replies_due: float | None = None
        #: To whom this coordinator has agreed last, and until when.
        self._consent: tuple[Address, float] | None = None
        #: It has passed a request of that one on.
        self._follows = False

    def deadline(self) -> float | None:
        return min((due for due in (self._look_due, self._replies_due) if due is not None), default=None)

    def view_installed(self, now: float) -> None:
        """Start afresh."""
        self._elsewhere = {}
        self._forget_attempt()
        self._consent = None
        self._follows = False
        self._look_due = now + self._times.look_interval_s * self._local.rng.uniform(0.75, 1.25)

    def seen(self, event: SeenView, now: float) -> list[Effect]:
        """A heartbeat with another view than mine."""
        view, prepare = self._member.view, self._member.prepare
        if view is None or (prepare is not None and prepare.view.id == event.view):
            return []
        if event.member not in view.members:
            if self._leader.leads():
                due = now + self._times.hint_delay_s
                self._look_due = due if self._look_due is None else min(self._look_due, due)
            return []
        if event.view < view.id:
            self._elsewhere.pop(event.member, None)
            return []
        since = self._elsewhere.setdefault(event.member, now)
        if now - since < self._times.elsewhere_s:
            return []
        return self._leader.suspect((event.member,), now)

    def expire(self, now: float) -> list[Effect]:
        """Look around when it is time; go ahead with those who have agreed."""
        effects: list[Effect] = []
        if self._replies_due is not None and now >= self._replies_due:
            effects += self._begin(now)
        if self._look_due is not None and now >= self._look_due:
            self._look_due = now + self._times.look_interval_s * self._local.rng.uniform(0.75, 1.25)
            if self._leader.leads() and not self._leader.busy():
                effects.append(Down(FindMembers()))
        return effects

    def found(self, found: Found, now: float) -> list[Effect]:
        """What looking around has brought: other coordinators, perhaps."""
        view = self._member.view
        if view is None or not self._quiet() or self._replies_due is not None:
            return []
        coordinators = {peer.coordinator for peer in found.peers if peer.coordinator is not None}
        others = sorted(coordinators.difference(view.members))
        if not others:
            return []
        if others[0] < self._local.address:
            return [self._say(others[0], wire.MergeHint(view.id))]
        self._asked = others[: self._times.parts_max]
        self._replies_due = now + self._times.reply_timeout_s
        return [self._say(other, wire.MergeRequest(view.id)) for other in self._asked]

    def hinted(self, now: float) -> list[Effect]:
        """A coordinator that leaves the lead to this one."""
        self._look_due = now if self._look_due is None else min(self._look_due, now)
        return []

    def requested(self, source: Address, now: float) -> list[Effect]:
        """Another coordinator wants to lead a merge: agree if nothing else is going on here."""
        view = self._member.view
        if view is None or not self._quiet() or not source < self._local.address or source in view.members:
            return [Dropped("merge_request")]
        self._forget_attempt()
        self._consent = (source, now + self._times.consent_s)
        self._follows = False
        return [self._say(source, wire.MergeReply(view))]

    def replied(self, source: Address, header: wire.MergeReply, now: float) -> list[Effect]:
        """Another coordinator agrees."""
        if source not in self._asked or header.view.coordinator != source:
            return [Dropped("merge_reply")]
        self._agreed[source] = header.view
        return self._begin(now) if len(self._agreed) == len(self._asked) else []

    def forwards(self, source: Address, now: float) -> bool:
        """Whether this coordinator passes a flush request of that one on to its members, and holds still from then on.

        Not from when it agreed: the other one may not hear it, and would ask again and again.
        """
        if self._consent is None or self._consent[0] != source or now > self._consent[1]:
            return False
        if not self._follows:
            if self._leader.busy():
                return False
            self._follows = True
            self._consent = (source, now + self._times.follow_s)
            self._leader.hold(now + self._times.follow_s)
        return True

    def _begin(self, now: float) -> list[Effect]:
        view, agreed = self._member.view, self._agreed
        self._forget_attempt()
        if view is None or not agreed or not self._quiet():
            return []
        taken = set(view.members)
        others: list[View] = []
        for coordinator in sorted(agreed):  # overlapping views: a member goes with the first part that has it (F7)
            other = agreed[coordinator]
            if taken.isdisjoint(other.members):
                taken.update(other.members)
                others.append(other)
        if not others:
            return []
        self.merges_started += 1
        return self._leader.start_merge(tuple(others), now)

    def _quiet(self) -> bool:
        """Whether this process coordinates a view in which everything is well."""
        view = self._member.view
        if view is None or view.coordinator != self._local.address or self._member.blocked_since is not None:
            return False
        return not self._leader.busy() and not self._leader.suspected

    def _forget_attempt(self) -> None:
        self._asked = []
        self._agreed = {}
        self._replies_due = None

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._local.address, to, (header,)))
