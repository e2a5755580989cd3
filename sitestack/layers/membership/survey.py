"""Before a merge: which members of the other parts hear its leader, and who fetches what. A helper of membership.

A merge stops all members of all its parts until each of them has answered the leader. A member that hears the leader without
being heard, or the other way round, would stop them all in vain. So each is asked first, while all go on; its answer shows that
both directions work. The coordinators have shown it by agreeing.

Then all members fetch what the other parts have been given since the split, while all go on: in the merge all would wait.
"""

from __future__ import annotations

from sitestack.layers.membership.headers import MergeFetch, MergeFetched
from sitestack.model.address import Address
from sitestack.model.state_events import Offered
from sitestack.model.view import View
from sitestack.stack.layer import Effect, Local, Up


class Survey:
    """One round of questions to the members of other parts. `number` tells its answers from those of earlier rounds."""

    def __init__(self, number: int, parts: tuple[View, ...], due: float) -> None:
        """A member that has not answered when the survey is `due` counts as not reached."""
        self.number = number
        self.parts = parts
        self.due = due
        self.missing = {member: part for part in parts for member in part.members if member != part.coordinator}

    def reached(self) -> tuple[View, ...]:
        """The parts all of whose members have answered: a merge takes a part as a whole or not at all."""
        silent = self.missing.values()
        return tuple([part for part in self.parts if part not in silent])

    def silent(self) -> dict[Address, tuple[Address, ...]]:
        """The members that have not answered, by the coordinator of their part."""
        silent: dict[Address, tuple[Address, ...]] = {}
        for member, part in self.missing.items():
            silent[part.coordinator] = (*silent.get(part.coordinator, ()), member)
        return silent


class Fetch:
    """The members of all parts that still fetch something. The part of one that is silent until `due` is put off."""

    def __init__(self, number: int, parts: tuple[View, ...], due: float, limit: float) -> None:
        """`parts` are all that merge; `number` is that of the survey. At `limit` it is over."""
        self.number = number
        self.parts = parts
        self.due = due
        self._limit = limit
        self.missing = {member: None for part in parts for member in part.members}

    def wait(self, until: float) -> None:
        """Somebody has brought something forward: wait until then, or until the limit."""
        self.due = min(until, self._limit)

    def ready(self) -> tuple[View, ...]:
        """The other parts, if all of the leader's own part have fetched everything, less those of which somebody has not."""
        own, *others = [all(member not in self.missing for member in part.members) for part in self.parts]
        return tuple([part for part, ready in zip(self.parts[1:], others, strict=True) if own and ready])

    def names(self) -> tuple[str, ...]:
        """The logical names of those that still fetch something."""
        return tuple([part.name_of(member) for part in self.parts for member in part.members if member in self.missing])

    def sources(self) -> tuple[Address, ...]:
        """The coordinators, from which the other parts fetch."""
        return tuple([part.coordinator for part in self.parts])


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

    def start_fetching(self, leader: Address, request: MergeFetch, view: View, sources_max: int) -> list[Effect]:
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
        self.stop_fetching()
        return effects

    def stop_fetching(self) -> None:
        """Fetch no more: a view is installed."""
        self._leader, self._sources = None, []

    def _tell(self, done: bool) -> list[Effect]:
        if self._leader is None:
            return []
        leader, number = self._leader
        return [self._local.unicast(leader, MergeFetched(number, done))]
