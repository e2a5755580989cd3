"""A member's errand before a merge: it fetches what the other parts have, and tells the leader. A helper of merging."""

from __future__ import annotations

from sitestack.layers.membership.headers import MergeFetch, MergeFetched
from sitestack.model.address import Address
from sitestack.model.handover_events import Offered
from sitestack.model.view import View
from sitestack.stack.layer import Effect, Local, Up


class Errand:
    """What this member fetches, from one coordinator after the other, and for whom. A later errand takes its place."""

    def __init__(self, local: Local, told_interval_s: float) -> None:
        """While something arrives the leader is told so, at most once in `told_interval_s` seconds."""
        self._local = local
        self._told_interval_s = told_interval_s
        #: The leader, and the number of its survey; None while nothing is fetched.
        self._leader: tuple[Address, int] | None = None
        self._sources: list[Address] = []
        self._tell_at = 0.0

    def begin(self, leader: Address, request: MergeFetch, view: View, sources_max: int) -> list[Effect]:
        """Fetch from the coordinators of the other parts, of which there are at most so many."""
        self._leader = (leader, request.survey)
        self._sources = [each for each in request.sources[:sources_max] if each not in view.members]
        return self.fetched()

    def fetching(self, now: float) -> list[Effect]:
        """Something has arrived, and more is to come."""
        if now < self._tell_at:
            return []
        self._tell_at = now + self._told_interval_s
        return self._tell(done=False)

    def fetched(self) -> list[Effect]:
        """Go on with the next source, and tell the leader so, or that there is none left."""
        if self._leader is None:
            return []
        if self._sources:
            return [Up(Offered(self._sources.pop())), *self._tell(done=False)]
        effects = self._tell(done=True)
        self.end()
        return effects

    def end(self) -> None:
        """Fetch no more: a view is installed."""
        self._leader, self._sources = None, []

    def _tell(self, done: bool) -> list[Effect]:
        if self._leader is None:
            return []
        leader, number = self._leader
        return [self._local.unicast(leader, MergeFetched(number, done))]
