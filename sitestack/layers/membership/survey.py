"""Before a merge: which members of the other parts reach its leader, and which of them fetch state.

A merge blocks all members of all its parts until each has answered the leader. So each is asked
first while all continue; its answer shows that both directions work. Then all members fetch the
other parts' messages.
"""

from __future__ import annotations

from sitestack.layers.membership.headers import MergeFetch, MergeFetched
from sitestack.model.address import Address
from sitestack.model.state_events import Offered
from sitestack.model.view import View
from sitestack.stack.layer import Effect, Local, Up


class Survey:
    """One round of questions to the members of other parts. `number` separates it from earlier rounds."""

    def __init__(self, number: int, parts: tuple[View, ...], due: float) -> None:
        """Start a survey; a member that has not answered when it is `due` counts as unreachable."""
        self.number = number
        self.parts = parts
        self.due = due
        self.missing = {member: part for part in parts for member in part.members if member != part.coordinator}

    def reached(self) -> tuple[View, ...]:
        """Return the parts whose members have all answered."""
        silent = self.missing.values()
        return tuple([part for part in self.parts if part not in silent])

    def silent(self) -> dict[Address, tuple[Address, ...]]:
        """Return the members that have not answered, by the coordinator of their part."""
        silent: dict[Address, tuple[Address, ...]] = {}
        for member, part in self.missing.items():
            silent[part.coordinator] = (*silent.get(part.coordinator, ()), member)
        return silent


class Fetch:
    """The members of all parts that still fetch state."""

    def __init__(self, number: int, parts: tuple[View, ...], due: float, limit: float) -> None:
        """Fetch in all merging `parts`, for the survey `number`, until `limit` at the latest."""
        self.number = number
        self.parts = parts
        self.due = due
        self._limit = limit
        self.missing = {member: None for part in parts for member in part.members}

    def wait(self, until: float) -> None:
        """Extend the deadline, up to the limit."""
        self.due = min(until, self._limit)

    def ready(self) -> tuple[View, ...]:
        """Return the other parts that have fetched everything; none before the own part."""
        own, *others = [all(member not in self.missing for member in part.members) for part in self.parts]
        return tuple([part for part, ready in zip(self.parts[1:], others, strict=True) if own and ready])

    def names(self) -> tuple[str, ...]:
        return tuple([part.name_of(member) for part in self.parts for member in part.members if member in self.missing])

    def sources(self) -> tuple[Address, ...]:
        """Return the coordinators, from which the other parts fetch."""
        return tuple([part.coordinator for part in self.parts])


class Errand:
    """This member's fetching, from one coordinator after the other, for one leader."""

    def __init__(self, local: Local, told_interval_s: float) -> None:
        """Report progress to the leader at most once in `told_interval_s` seconds."""
        self._local = local
        self._told_interval_s = told_interval_s
        #: The leader and the number of its survey, or None.
        self._leader: tuple[Address, int] | None = None
        self._sources: list[Address] = []
        self._tell_at = 0.0

    def start_fetching(self, leader: Address, request: MergeFetch, view: View, sources_max: int) -> list[Effect]:
        """Fetch from the coordinators of the other parts, at most `sources_max` of them."""
        self._leader = (leader, request.survey)
        self._sources = [each for each in request.sources[:sources_max] if each not in view.members]
        return self.fetched()

    def fetching(self, now: float) -> list[Effect]:
        """Report progress to the leader."""
        if now < self._tell_at:
            return []
        self._tell_at = now + self._told_interval_s
        return self._tell(done=False)

    def fetched(self) -> list[Effect]:
        """Fetch from the next source; report this to the leader, or that none is left."""
        if self._leader is None:
            return []
        if self._sources:
            return [Up(Offered(self._sources.pop())), *self._tell(done=False)]
        effects = self._tell(done=True)
        self.stop_fetching()
        return effects

    def stop_fetching(self) -> None:
        self._leader, self._sources = None, []

    def _tell(self, done: bool) -> list[Effect]:
        if self._leader is None:
            return []
        leader, number = self._leader
        return [self._local.unicast(leader, MergeFetched(number, done))]
