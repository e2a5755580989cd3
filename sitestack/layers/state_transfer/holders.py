"""The standings of the members. They change by the stream alone, so all members agree on the providers."""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.layers.state_transfer.headers import Standing
from sitestack.model.address import Address

HAVE_STATE = frozenset({Standing.HOLDS, Standing.INHERITED})


class StateHolders:
    """The standings of the members of the view. A member without one is served as if it waited."""

    def __init__(self) -> None:
        self._standings: dict[Address, Standing] = {}
        self._members: tuple[Address, ...] = ()
        #: In a view without a provider: members that have not reported their standing in it.
        self._unsaid: set[Address] = set()
        self.provider: Address | None = None
        #: In a merge view: the provider of each member that waited for the state of its own part.
        self._in_part: dict[Address, Address] = {}

    def __len__(self) -> int:
        return len(self._standings)

    def enter(self, members: tuple[Address, ...], parts: Sequence[Sequence[Address]] = (), *, is_primary: bool = True) -> None:
        """Begin a view with these members, in order of rank; `parts`: those of a merge view.

        In a view that is not primary nobody HOLDS the state: the primary part delivers more.

        Its provider is the first that has the state, or else the first that inherited one. A member
        that joined a part before the merge still gets the state of that part, if it is as good: the
        state of another part lacks messages that are never delivered again. A view with a waiting
        member and without a provider is undecided: all members report their standing, then the
        first waiting one inherits (`note`).
        """
        self._standings, self._members = self.snapshot(), members
        self._standings = {each: self._standings[each] for each in members if each in self._standings}
        if not is_primary:
            held = [each for each in members if self._standings.get(each) is Standing.HOLDS]
            self._standings.update(dict.fromkeys(held, Standing.INHERITED))
        self.provider = self._first(Standing.HOLDS) or self._first(Standing.INHERITED)
        self._unsaid = set(members) if self.provider is None and self._first(Standing.WAITS) is not None else set()
        self._in_part = {}
        best = Standing.HOLDS if self._first(Standing.HOLDS) else Standing.INHERITED
        for part in parts:
            holder = next((each for each in members if each in part and self._standings.get(each) is best), None)
            if holder is not None:
                self._in_part.update({each: holder for each in part if each in members and self.is_waiting(each)})

    def provider_of(self, member: Address) -> Address | None:
        """Return the member whose state this one receives in this view; None while there is none."""
        return self._in_part.get(member, self.provider)

    def is_provider(self, member: Address) -> bool:
        return member == self.provider or member in self._in_part.values()

    def is_waiting(self, member: Address) -> bool:
        return self._standings.get(member) in (None, Standing.WAITS)

    @property
    def undecided(self) -> bool:
        return bool(self._unsaid)

    def lacks(self, member: Address) -> bool:
        return member in self._unsaid

    def _first(self, standing: Standing) -> Address | None:
        return next((each for each in self._members if self._standings.get(each) is standing), None)

    def note(self, member: Address, standing: Standing) -> bool:
        """Note a standing from the stream, which may decide the view.

        Return False for a stranger.
        """
        if member not in self._members:
            return False
        self._standings[member] = standing
        if standing is Standing.WAITS and self.provider is None and not self._unsaid:
            self._unsaid = {*self._members}
        if self._unsaid:
            self._unsaid.discard(member)
            if standing in HAVE_STATE:
                self.provider, self._unsaid = member, set()
            elif not self._unsaid:
                self.provider = self._first(Standing.WAITS)
                if self.provider is not None:
                    self._standings[self.provider] = Standing.INHERITED
        return True

    def get(self, member: Address) -> Standing | None:
        return self._standings.get(member)

    def waiting(self) -> list[Address]:
        return [each for each in self._members if self.is_waiting(each)]

    @property
    def count(self) -> int:
        return sum(each in HAVE_STATE for each in self._standings.values())

    def snapshot(self) -> dict[Address, Standing]:
        """Return the standings. A member whose report was dropped WAITS: the next view asks it."""
        return {**dict.fromkeys(self._members if self._standings else (), Standing.WAITS), **self._standings}

    def restore(self, standings: dict[Address, Standing]) -> None:
        self._standings = dict(standings)

    def merge(self, standings: dict[Address, Standing]) -> None:
        """Add the standings of another part of a split site."""
        for member, standing in standings.items():
            self._standings.setdefault(member, standing)
