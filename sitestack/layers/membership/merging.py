"""Merging: finds the other parts of a split site and agrees on the leader of a merge.

A coordinator searches for others periodically, and soon after a heartbeat of another view. Of the
coordinators that reach each other, the one with the lowest address leads. It asks the others, then
their members, whether they receive its messages (`survey.py`). A part with a silent member is left
out: its coordinator is refused, and leads a merge itself if it reaches all members of the refusing
part. All members then fetch the other parts' messages (`Errand`). The merge itself is a flush over
several views (`flush.py`), whose request the agreed coordinators forward.

Only a coordinator that answers directly counts: one known from others only may be unreachable.

A falsely excluded member sees its former companions in a view without it, suspects them, and is
merged like every other part (A11, M1, F6, F7).
"""

from __future__ import annotations

from sitestack.layers.membership import headers as wire
from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.config import MergeTimes
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.survey import Errand, Fetch, Survey
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, SeenView, Unreached
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up


class Merging:
    def __init__(self, local: Local, member: Promises, leader: Leader, times: MergeTimes, fetches: bool = False) -> None:
        """`fetches`: a layer above fetches state from the other parts before they merge."""
        self.merges_started = 0
        self._local = local
        self._member = member
        self._leader = leader
        self._times = times
        self._look_due: float | None = None
        #: Members of this view seen in a later view -> time of the first sighting.
        self._elsewhere: dict[Address, float] = {}
        self._asked: list[Address] = []
        self._agreed: dict[Address, View] = {}
        self._replies_due: float | None = None
        self._survey: Survey | None = None
        self._surveys = 0
        self._fetches = fetches
        self._fetch: Fetch | None = None
        self.errand = Errand(local, times.fetch_timeout_s / 4)
        self._apart = Backoff(times.retry_s, times.retry_s_max, times.apart_max)
        #: Silent members of other parts -> their refused coordinator.
        self._silent: dict[Address, Address] = {}
        #: Coordinators with lower addresses that do not reach all members here.
        self._entrusted: list[Address] = []
        #: Coordinators that only others report -> time of the first report.
        self._heard_of: dict[Address, float] = {}
        self._told = RateLimit(times.told_interval_s, times.apart_max)
        #: The coordinator whose merge this one has agreed to, and the end of that agreement.
        self._consent: tuple[Address, float] | None = None
        self._follows = False

    @property
    def silent_parts(self) -> int:
        return len(self._apart)

    def deadline(self) -> float | None:
        dues = [each.due for each in (self._survey, self._fetch) if each is not None]
        return min([*dues, *[due for due in (self._look_due, self._replies_due) if due is not None]], default=None)

    def view_installed(self, view: View, now: float) -> None:
        self._elsewhere = {}
        self._forget_attempt()
        self._end_consent()
        self._entrusted = []
        self.errand.stop_fetching()
        self._silent = {member: other for member, other in self._silent.items() if other not in view.members}
        for member in view.members:
            self._apart.forget(member)
        self._look_due = now + self._times.look_interval_s * self._local.rng.uniform(0.75, 1.25)

    def seen(self, event: SeenView, now: float) -> list[Effect]:
        """Handle a heartbeat of another view: a stranger's is a hint to search, a member's shows that it has left this view."""
        view, prepare = self._member.view, self._member.prepare
        if view is None or (prepare is not None and prepare.view.id == event.view):
            return []
        if event.member not in view.members:
            if self._leader.leads():
                due = now + self._times.hint_delay_s
                self._look_due = due if self._look_due is None else min(self._look_due, due)
            return []
        if event.view <= view.id:
            self._elsewhere.pop(event.member, None)
            return []
        since = self._elsewhere.setdefault(event.member, now)
        if now - since < self._times.elsewhere_s:
            return []
        return self._leader.suspect((event.member,), now)

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._replies_due is not None and now >= self._replies_due:
            effects += self._ask_members(now)
        if self._survey is not None and now >= self._survey.due:
            effects += self._prepare(now)
        if self._fetch is not None and now >= self._fetch.due:
            effects += self._begin(now)
        if self._look_due is not None and now >= self._look_due:
            self._look_due = now + self._times.look_interval_s * self._local.rng.uniform(0.75, 1.25)
            if self._leader.leads() and not self._leader.busy():
                effects.append(Down(FindMembers()))
        return effects

    def found(self, found: Found, now: float) -> list[Effect]:
        view = self._member.view
        if view is None or not self._quiet() or self._attempts():
            return []
        speaking = {peer.address for peer in found.peers if peer.coordinator == peer.address}
        coordinators = {peer.coordinator for peer in found.peers if peer.coordinator is not None}
        return [*self._tell(coordinators.difference(speaking, view.members), now), *self._approach(speaking, view, now)]

    def _tell(self, silent: set[Address], now: float) -> list[Effect]:
        """Report coordinators that only other processes have reached for a while."""
        self._heard_of = {other: self._heard_of.get(other, now) for other in sorted(silent)}
        long = [other for other, since in self._heard_of.items() if now - since >= self._times.heard_of_s]
        news = tuple([other for other in long if self._told.allow(other, now)])
        return [Up(Unreached(news, tuple(map(repr, news)), "merge"))] if news else []

    def _approach(self, speaking: set[Address], view: View, now: float) -> list[Effect]:
        """Ask the other coordinators to merge, or hint to the lowest one."""
        others = sorted([other for other in speaking.difference(view.members) if not self._apart.waits(other, now)])
        lower = [other for other in others if other < self._local.address and other not in self._entrusted]
        if lower:
            return [self._local.unicast(lower[0], wire.MergeHint(view.id))]
        if not others:
            return []
        self._asked = others[: self._times.parts_max]
        self._replies_due = now + self._times.reply_timeout_s
        return [self._local.unicast(other, wire.MergeRequest(view.id)) for other in self._asked]

    def hinted(self, now: float) -> list[Effect]:
        self._look_due = now if self._look_due is None else min(self._look_due, now)
        return []

    def requested(self, source: Address, now: float) -> list[Effect]:
        """Agree to a merge led by `source` if this process is idle and `source` has to lead: a lower
        address, or one that this coordinator has let lead.
        """
        view = self._member.view
        turn = source < self._local.address or (source in self._silent.values() and not self._attempts())
        if view is None or not self._quiet() or not turn or source in view.members:
            return [Dropped("merge_request")]
        self._forget_attempt()
        self._consent = (source, now + self._times.consent_s)
        self._follows = False
        return [self._local.unicast(source, wire.MergeReply(view))]

    def replied(self, source: Address, header: wire.MergeReply, now: float) -> list[Effect]:
        if source not in self._asked or header.view.coordinator != source:
            return [Dropped("merge_reply")]
        self._agreed[source] = header.view
        return self._ask_members(now) if len(self._agreed) == len(self._asked) else []

    def answered(self, source: Address, header: wire.MergeAnswer, now: float) -> list[Effect]:
        """Handle a survey answer. If the member was silent before, a merge with its part may be tried again."""
        other = self._silent.pop(source, None)
        if other is not None:
            self._apart.forget(other)
        survey = self._survey
        if survey is None or survey.number != header.survey or survey.missing.pop(source, None) is None:
            return [] if other is not None else [Dropped("merge_answer")]
        return [] if survey.missing else self._prepare(now)

    def refused(self, source: Address, header: wire.MergeRefusal, now: float) -> list[Effect]:
        """Cancel the agreed merge; lead one instead if `source` does not reach all members here."""
        if self._consent is None or self._consent[0] != source:
            return [Dropped("merge_refusal")]
        if self._follows:
            self._leader.end_hold(now)
        self._end_consent()
        if header.silent and source < self._local.address and len(self._entrusted) < self._times.parts_max:
            self._entrusted.append(source)
            self._look_due = now
        return []

    def forwards(self, source: Address, now: float) -> bool:
        """Return whether to forward a flush request of `source` to the members here.

        From then on this coordinator starts no flush.
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
        """Ask the members of the agreed coordinators whether they receive this one's messages."""
        view, agreed = self._member.view, self._agreed
        self._forget_attempt()
        if view is None or not self._quiet():
            return []
        taken = set(view.members)
        parts: list[View] = []
        for coordinator in sorted(agreed):  # a member belongs to the first part that has it (F7)
            other = agreed[coordinator]
            if taken.isdisjoint(other.members) and self._leader.changes.may_merge(other, now):
                taken.update(other.members)
                parts.append(other)
        if not parts:
            return []
        self._surveys += 1
        self._survey = Survey(self._surveys, tuple(parts), now + self._times.survey_timeout_s)
        question = wire.MergeQuestion(self._surveys)
        return [self._local.unicast(member, question) for member in self._survey.missing] or self._prepare(now)

    def _prepare(self, now: float) -> list[Effect]:
        """Refuse the parts with silent members, and let all others fetch."""
        survey = self._survey
        assert survey is not None, "a survey ends once"
        self._forget_attempt()
        effects: list[Effect] = []
        for other, silent in survey.silent().items():
            self._apart.failed(other, now)
            self._silent.update(dict.fromkeys(silent, other))
            names = tuple([survey.missing[member].name_of(member) for member in silent])
            effects += [self._local.unicast(other, wire.MergeRefusal(silent)), Up(Unreached(silent, names, "merge"))]
        while len(self._silent) > self._times.apart_max:
            del self._silent[next(iter(self._silent))]
        view, parts = self._member.view, survey.reached()
        if view is None or not parts or not self._quiet():
            return effects
        times = self._times
        self._fetch = Fetch(survey.number, (view, *parts), now + times.fetch_timeout_s, now + times.fetch_limit_s)
        if not self._fetches:
            self._fetch.missing.clear()
            return [*effects, *self._begin(now)]
        request = wire.MergeFetch(survey.number, self._fetch.sources())
        return [*effects, *[self._local.unicast(member, request) for member in self._fetch.missing]]

    def _begin(self, now: float) -> list[Effect]:
        """Merge with the parts that have fetched everything, and postpone the others, which continue fetching."""
        fetch = self._fetch
        assert fetch is not None, "a merge begins once"
        self._forget_attempt()
        effects: list[Effect] = []
        ready = fetch.ready()
        if fetch.missing:
            effects.append(Up(Unreached(tuple(fetch.missing), fetch.names(), "merge")))
        for part in fetch.parts[1:]:
            if part not in ready:
                self._apart.failed(part.coordinator, now)
                effects.append(self._local.unicast(part.coordinator, wire.MergeRefusal(())))
        if not ready or not self._quiet():
            return effects
        self.merges_started += 1
        return [*effects, *self._leader.start_merge(ready, now)]

    def fetch(self, leader: Address, header: wire.MergeFetch, now: float) -> list[Effect]:
        """Fetch the other parts' messages; extend the agreement with the leader for that time."""
        view = self._member.view
        if view is None or self._member.blocked_since is not None:
            return [Dropped("merge_fetch")]
        if self._consent is not None and self._consent[0] == leader:
            self._consent = (leader, now + self._times.consent_s + self._times.fetch_limit_s)
        return self.errand.start_fetching(leader, header, view, self._times.parts_max)

    def heard_fetched(self, source: Address, header: wire.MergeFetched, now: float) -> list[Effect]:
        fetch = self._fetch
        if fetch is None or fetch.number != header.survey or source not in fetch.missing:
            return [Dropped("merge_fetched")]
        fetch.wait(now + self._times.fetch_timeout_s)
        if header.done:
            del fetch.missing[source]
        return [] if fetch.missing else self._begin(now)

    def _attempts(self) -> bool:
        return self._replies_due is not None or self._survey is not None or self._fetch is not None

    def _quiet(self) -> bool:
        """Return whether this process coordinates its view, without a flush, a suspicion or a due change."""
        view = self._member.view
        if view is None or view.coordinator != self._local.address or self._member.blocked_since is not None:
            return False
        return not self._leader.busy() and not self._leader.changes.suspected

    def _forget_attempt(self) -> None:
        self._asked = []
        self._agreed = {}
        self._replies_due = None
        self._survey = None
        self._fetch = None

    def _end_consent(self) -> None:
        self._consent = None
        self._follows = False
