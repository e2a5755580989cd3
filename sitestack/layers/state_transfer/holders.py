"""The standings of the members: who has the application's state, who waits for it, and who gives it. A helper, not a layer.

They change by the stream alone, so at every view all members agree on one provider.
"""

from __future__ import annotations

from sitestack.layers.state_transfer.headers import Standing
from sitestack.model.address import Address


class StateHolders:
    """The standings of the members of the view. A member whose standing is unknown is served as if it waited."""

    def __init__(self) -> None:
        #: Bounded by the members of the view.
        self._standings: dict[Address, Standing] = {}
        self._members: tuple[Address, ...] = ()
        self.provider: Address | None = None

    def __len__(self) -> int:
        return len(self._standings)

    def enter(self, members: tuple[Address, ...]) -> None:
        """Begin a view with these members, in order of rank.

        Its provider is the first that has the state. When there is none, the first that waits counts as having it.
        """
        self._members = members
        self._standings = {each: self._standings[each] for each in members if each in self._standings}
        self.provider = self._first(Standing.HOLDS)
        if self.provider is None:
            self.provider = self._first(Standing.WAITS)
            if self.provider is not None:
                self._standings[self.provider] = Standing.HOLDS

    def _first(self, standing: Standing) -> Address | None:
        return next((each for each in self._members if self._standings.get(each) is standing), None)

    def note(self, member: Address, standing: Standing) -> bool:
        """Take a standing from the stream. False when the member is a stranger."""
        if member not in self._members:
            return False
        self._standings[member] = standing
        return True

    def get(self, member: Address) -> Standing | None:
        """The standing of a member; None when it is unknown."""
        return self._standings.get(member)

    def waiting(self) -> list[Address]:
        """The members that have no state, or whose standing is unknown."""
        return [each for each in self._members if self._standings.get(each) in (None, Standing.WAITS)]

    @property
    def count(self) -> int:
        """How many members have the state."""
        return sum(each is Standing.HOLDS for each in self._standings.values())

    def snapshot(self) -> dict[Address, Standing]:
        """For a joiner: the standings at this point of the stream."""
        return dict(self._standings)

    def restore(self, standings: dict[Address, Standing]) -> None:
        """Begin with another member's standings; the view follows."""
        self._standings = dict(standings)

    def merge(self, standings: dict[Address, Standing]) -> None:
        """Add the standings of another part of a split site: each part knows its own members best."""
        for member, standing in standings.items():
            self._standings.setdefault(member, standing)
