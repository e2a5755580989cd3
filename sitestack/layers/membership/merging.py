"""Finding the other parts of a split site, and agreeing that one of their coordinators leads the merge.

Coordinators look around from time to time, and soon after a heartbeat from elsewhere. Of the coordinators that see each other
the one with the lowest address leads: it asks the others, and then the members of those that agree, whether they hear it
(`survey.py`). Nobody is stopped for a part that has not answered whole: its coordinator is refused, and leads in its turn if it
reaches all members of the one that refused. From there on a merge is a flush over several views (`flush.py`): the coordinators
that agreed pass the leader's flush request on to their own members and hold still.

Only who speaks for itself counts. Whoever left the lead to a coordinator that others tell of, and that it does not reach, would
wait for it as long as they do.

A member that was excluded while it lived sees its old companions in a view without it. It gives them up, so that it becomes a
coordinator of its own, and is merged like everybody else (A11, M1, F6, F7).
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.survey import Survey
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, SeenView, Unreached
from sitestack.model.frame import Frame, Header
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up


@dataclass(frozen=True, slots=True)
class MergeTimes:
    """Times and bounds of merging."""

    #: How often a coordinator looks for other coordinators without any hint that there are some; jittered by a quarter.
    look_interval_s: float = 10.0
    #: How soon it looks after a hint.
    hint_delay_s: float = 0.5
    #: How long the leader of a merge waits for the other coordinators to agree.
    reply_timeout_s: float = 1.0
    #: How long the members of the other parts have to answer the leader, before anybody is stopped for the merge.
    survey_timeout_s: float = 1.0
    #: A coordinator with a member that does not answer is asked again after so long; then after twice as long, and so on.
    retry_s: float = 1.0
    #: It is never put off for longer.
    retry_s_max: float = 60.0
    #: Coordinators with a silent member that are remembered, and silent members; beyond, the one of longest ago is forgotten.
    apart_max: int = 1_024
    #: How long a coordinator that agreed passes a flush request on.
    consent_s: float = 5.0
    #: How long it holds still once it has passed one on: by then the merge is made, or its leader has died.
    follow_s: float = 7.0
    #: How long companions may be seen in another view before this member believes that they have gone without it.
    elsewhere_s: float = 2.0
    #: How long others may tell of a coordinator that does not answer itself, before people are told of it.
    heard_of_s: float = 10.0
    #: Of one such coordinator people are told at most this often.
    told_interval_s: float = 60.0
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
        self._survey: Survey | None = None
        self._surveys = 0
        #: Coordinators of parts that did not answer whole.
        self._apart = Backoff(times.retry_s, times.retry_s_max, times.apart_max)
        #: Members of other parts that did not answer, and the coordinators that were refused for it.
        self._silent: dict[Address, Address] = {}
        #: Coordinators with lower addresses that leave the lead to this one, because they do not reach all of its members.
        self._entrusted: list[Address] = []
        #: Coordinators that others tell of, and that do not answer themselves, since when.
        self._heard_of: dict[Address, float] = {}
        self._told = RateLimit(times.told_interval_s, times.apart_max)
        #: To whom this coordinator has agreed last, and until when.
        self._consent: tuple[Address, float] | None = None
        #: It has passed a request of that one on.
        self._follows = False

    @property
    def silent_parts(self) -> int:
        """How many coordinators are remembered because a member of theirs did not answer."""
        return len(self._apart)

    def deadline(self) -> float | None:
        survey_due = None if self._survey is None else self._survey.due
        return min((due for due in (self._look_due, self._replies_due, survey_due) if due is not None), default=None)

    def view_installed(self, view: View, now: float) -> None:
        """Start afresh. Who is in the view is apart no more."""
        self._elsewhere = {}
        self._forget_attempt()
        self._end_consent()
        self._entrusted = []
        self._silent = {member: other for member, other in self._silent.items() if other not in view.members}
        for member in view.members:
            self._apart.forget(member)
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
            effects += self._ask_members(now)
        if self._survey is not None and now >= self._survey.due:
            effects += self._begin(now)
        if self._look_due is not None and now >= self._look_due:
            self._look_due = now + self._times.look_interval_s * self._local.rng.uniform(0.75, 1.25)
            if self._leader.leads() and not self._leader.busy():
                effects.append(Down(FindMembers()))
        return effects

    def found(self, found: Found, now: float) -> list[Effect]:
        """What looking around has brought: other coordinators, perhaps."""
        view = self._member.view
        if view is None or not self._quiet() or self._replies_due is not None or self._survey is not None:
            return []
        speaking = {peer.address for peer in found.peers if peer.coordinator == peer.address}
        coordinators = {peer.coordinator for peer in found.peers if peer.coordinator is not None}
        return [*self._tell(coordinators.difference(speaking, view.members), now), *self._approach(speaking, view, now)]

    def _tell(self, silent: set[Address], now: float) -> list[Effect]:
        """Of coordinators that others have heard for a while, and this one has not."""
        self._heard_of = {other: self._heard_of.get(other, now) for other in sorted(silent)}
        long = [other for other, since in self._heard_of.items() if now - since >= self._times.heard_of_s]
        news = tuple([other for other in long if self._told.allow(other, now)])
        return [Up(Unreached(news, tuple(map(repr, news)), "merge"))] if news else []

    def _approach(self, speaking: set[Address], view: View, now: float) -> list[Effect]:
        """Leave the lead to the lowest coordinator, or ask the others for it."""
        others = sorted([other for other in speaking.difference(view.members) if not self._apart.waits(other, now)])
        lower = [other for other in others if other < self._local.address and other not in self._entrusted]
        if lower:
            return [self._say(lower[0], wire.MergeHint(view.id))]
        if not others:
            return []
        self._asked = others[: self._times.parts_max]
        self._replies_due = now + self._times.reply_timeout_s
        return [self._say(other, wire.MergeRequest(view.id)) for other in self._asked]

    def hinted(self, now: float) -> list[Effect]:
        """A coordinator that leaves the lead to this one."""
        self._look_due = now if self._look_due is None else min(self._look_due, now)
        return []

    def requested(self, source: Address, now: float) -> list[Effect]:
        """Another coordinator wants to lead a merge: agree if nothing else is going on here, and it is its turn.

        One with a higher address has its turn when this one has refused it, and does not try again just now.
        """
        view = self._member.view
        attempts = self._replies_due is not None or self._survey is not None
        turn = source < self._local.address or (source in self._silent.values() and not attempts)
        if view is None or not self._quiet() or not turn or source in view.members:
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
        return self._ask_members(now) if len(self._agreed) == len(self._asked) else []

    def answered(self, source: Address, header: wire.MergeAnswer, now: float) -> list[Effect]:
        """A member of another part hears this leader, and is heard. If it was silent before, a new attempt is worth while."""
        other = self._silent.pop(source, None)
        if other is not None:
            self._apart.forget(other)
        survey = self._survey
        if survey is None or survey.number != header.survey or survey.missing.pop(source, None) is None:
            return [] if other is not None else [Dropped("merge_answer")]
        return [] if survey.missing else self._begin(now)

    def refused(self, source: Address, header: wire.MergeRefusal, now: float) -> list[Effect]:
        """The merge that this coordinator agreed to comes to nothing: go on, and lead if the other one cannot."""
        if self._consent is None or self._consent[0] != source:
            return [Dropped("merge_refusal")]
        if self._follows:
            self._leader.go_on(now)
        self._end_consent()
        if header.silent and source < self._local.address and len(self._entrusted) < self._times.parts_max:
            self._entrusted.append(source)
            self._look_due = now
        return []

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

    def _ask_members(self, now: float) -> list[Effect]:
        """Those who have agreed are known: ask their members. Something else goes on at the others; they are asked again."""
        view, agreed = self._member.view, self._agreed
        self._forget_attempt()
        if view is None or not self._quiet():
            return []
        taken = set(view.members)
        parts: list[View] = []
        for coordinator in sorted(agreed):  # overlapping views: a member goes with the first part that has it (F7)
            other = agreed[coordinator]
            if taken.isdisjoint(other.members) and self._leader.may_merge(other, now):
                taken.update(other.members)
                parts.append(other)
        if not parts:
            return []
        self._surveys += 1
        self._survey = Survey(self._surveys, tuple(parts), now + self._times.survey_timeout_s)
        question = wire.MergeQuestion(self._surveys)
        return [self._say(member, question) for member in self._survey.missing] or self._begin(now)

    def _begin(self, now: float) -> list[Effect]:
        """Merge with the parts that are reached, and refuse the others."""
        survey = self._survey
        assert survey is not None, "a survey ends once"
        self._forget_attempt()
        effects: list[Effect] = []
        for other, silent in survey.silent().items():
            self._apart.failed(other, now)
            self._silent.update(dict.fromkeys(silent, other))
            names = tuple([survey.missing[member].name_of(member) for member in silent])
            effects += [self._say(other, wire.MergeRefusal(silent)), Up(Unreached(silent, names, "merge"))]
        while len(self._silent) > self._times.apart_max:
            del self._silent[next(iter(self._silent))]
        parts = survey.reached()
        if not parts or not self._quiet():
            return effects
        self.merges_started += 1
        return [*effects, *self._leader.start_merge(parts, now)]

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
        self._survey = None

    def _end_consent(self) -> None:
        self._consent = None
        self._follows = False

    def _say(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._local.address, to, (header,)))
