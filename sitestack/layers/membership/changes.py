"""The changes that the next view has to make, as far as its leader knows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sitestack.layers.membership.backoff import Backoff
from sitestack.layers.membership.config import LeaderTimes
from sitestack.layers.membership.headers import JoinOffer, JoinRequest
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Unreached
from sitestack.model.frame import Header
from sitestack.model.level import Level
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View
from sitestack.stack.layer import Dropped, Effect, Local, Up


class Entrance:
    """Lets a joiner wait for a view only after it has shown that it receives the leader's messages."""

    def __init__(self, local: Local, failed: Backoff, joiners_max: int, told_interval_s: float) -> None:
        """Postpone the joins in `failed`. A joiner that does not answer is reported at most once in
        `told_interval_s` seconds.
        """
        self.waiting: dict[Address, str] = {}
        #: Waiting joiner -> the states that it knows.
        self._known: dict[Address, tuple[Header, ...]] = {}
        self._local = local
        self._failed = failed
        self._joiners_max = joiners_max
        #: Joiners that have not answered a `JoinOffer`; beyond `joiners_max` the oldest is
        #: forgotten.
        self._offered: dict[Address, None] = {}
        self._told = RateLimit(told_interval_s, joiners_max)

    def request(self, joiner: Address, request: JoinRequest, now: float) -> list[Effect]:
        """Handle a request to join: let the joiner wait, send it an offer, or drop the request."""
        if self._failed.waits(joiner, now):
            return [Dropped("join_too_soon")]
        if joiner not in self.waiting and len(self.waiting) >= self._joiners_max:
            return [Dropped("joiners")]
        again = joiner in self._offered
        self._offered.pop(joiner, None)
        if request.hears:
            self.waiting[joiner] = request.name
            self._known[joiner] = request.known
            return []
        self._offered[joiner] = None
        if len(self._offered) > self._joiners_max:
            del self._offered[next(iter(self._offered))]
        told = again and self._told.allow(joiner, now)
        offer = self._local.unicast(joiner, JoinOffer())
        return [offer, Up(Unreached((joiner,), (request.name,), "join"))] if told else [offer]

    def known(self) -> tuple[Header, ...]:
        """Return the states of all waiting joiners; empty if one of them knows nothing."""
        each = [self._known[joiner] for joiner in self.waiting]
        return tuple([header for headers in each for header in headers]) if all(each) else ()

    def discard(self, members: Collection[Address]) -> None:
        self.waiting = {joiner: name for joiner, name in self.waiting.items() if joiner not in members}
        self._known = {joiner: known for joiner, known in self._known.items() if joiner in self.waiting}


class WantedChanges:
    """Joiners, leavers, and members that a flush leaves out. Reads the promises of `member`."""

    def __init__(self, local: Local, member: Promises, times: LeaderTimes) -> None:
        self.suspected: list[Address] = []
        #: Members that refuse this process as leader, or do not answer it: left out of the next
        #: flush.
        self.refusing: list[Address] = []
        #: Members that did not install the view of the last flush, and are asked again.
        self.lagging: list[Address] = []
        #: Joiners, and pairs of parts, whose last flush blocked all members without success.
        self.failed = Backoff(times.retry_s, times.retry_s_max, times.joiners_max)
        self.entrance = Entrance(local, self.failed, times.joiners_max, times.told_interval_s)
        self._leavers: list[Address] = []
        #: Members that asked to join after this view was installed: they have not received its
        #: commit.
        self._unaware: list[Address] = []
        self._local = local
        self._member = member
        self._joiners_max = times.joiners_max

    def asked_before(self, member: Address) -> bool:
        """Note that a member of this view asks to join; return whether it has asked before."""
        if member in self._unaware:
            return True
        self._unaware.append(member)
        return False

    def add_leaver(self, leaver: Address) -> None:
        if leaver not in self._leavers:
            self._leavers.append(leaver)

    def add_suspects(self, members: tuple[Address, ...], view: View) -> bool:
        """Note dead members and joiners; return whether another member is among them."""
        fresh = [m for m in members if m in view.members and m != self._local.address]
        self.suspected += [m for m in fresh if m not in self.suspected]
        self.entrance.discard(members)
        return bool(fresh)

    def unsuspect(self, members: tuple[Address, ...]) -> None:
        self.suspected = [m for m in self.suspected if m not in members]

    def may_merge(self, other: View, now: float) -> bool:
        """Return whether a merge with `other` may be tried now."""
        view = self._member.view
        return view is not None and not self.failed.waits((view.members, other.members), now)

    def survivors(self, view: View) -> tuple[Address, ...]:
        return tuple([m for m in view.members if m not in self.suspected and m not in self.refusing])

    def leaving(self, survivors: Sequence[Address]) -> tuple[Address, ...]:
        """Return the survivors to leave out of the next view; if all leave, the leader leaves last."""
        leaving = tuple([m for m in survivors if m in self._leavers])
        if not self.entrance.waiting and len(leaving) == len(survivors):
            return tuple([m for m in leaving if m != self._local.address])
        return leaving

    def needs_flush(self, view: View, survivors: tuple[Address, ...], leaving: tuple[Address, ...]) -> bool:
        """Return whether the members change, a member has to be asked again, or this process is blocked."""
        changed = survivors != view.members or leaving or self.entrance.waiting or self.lagging
        return bool(changed) or self._member.blocked_since is not None

    def view_installed(self, view: View) -> bool:
        """Forget the requests that this view fulfils; return whether any are left."""
        coordinates = view.coordinator == self._local.address  # otherwise the joiners ask its coordinator
        self.entrance.discard(view.members if coordinates else list(self.entrance.waiting))
        self._leavers = [m for m in self._leavers if m in view.members]
        self.suspected = [m for m in self.suspected if m in view.members]
        self.refusing = []
        self.lagging = []
        self._unaware = []
        return bool(self.entrance.waiting or self._leavers or self.suspected)

    def levels(self) -> dict[str, Level]:
        failed = Level.of(len(self.failed), self._joiners_max, "joins and merges that are not tried again soon")
        return {
            "suspected": Level.of(len(self.suspected), None),
            "joiners": Level.of(len(self.entrance.waiting), self._joiners_max),
            "failed_changes": failed,
        }
