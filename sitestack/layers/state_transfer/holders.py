"""Who has the application's state, who waits for it, and who gives it. A helper of state transfer, not a layer.

It is fed by the stream alone, so at every view all members agree on one provider.
"""

from __future__ import annotations

from sitestack.layers.state_transfer.headers import Standing
from sitestack.model.address import Address


class StateHolders:
    """The standings of the members of the view; one of whom nothing is known is served as if it waited."""

    def __init__(self) -> None:
        #: Bounded by the members of the view.
        self._standings: dict[Address, Standing] = {}
        self._members: tuple[Address, ...] = ()
        self.provider: Address | None = None

    def __len__(self) -> int:
        return len(self._standings)

    def enter(self, members: tuple[Address, ...]) -> None:
        """A view with these members, in order of rank, begins.

        Its provider is the first that has the state; or else the first that waits for it inherits what there is.
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
        """An entry of the stream says so. False when it is of a stranger."""
        if member not in self._members:
            return False
        self._standings[member] = standing
        return True

    def get(self, member: Address) -> Standing | None:
        """The standing of a member, when it is known."""
        return self._standings.get(member)

    def waiting(self) -> list[Address]:
        """Those that have no state, as far as is known."""
        return [each for each in self._members if self._standings.get(each) in (None, Standing.WAITS)]

    @property
    def count(self) -> int:
        """How many have the state."""
        return sum(each is Standing.HOLDS for each in self._standings.values())

    def snapshot(self) -> dict[Address, Standing]:
        """For a joiner: what is known at this point of the stream."""
        return dict(self._standings)

    def restore(self, standings: dict[Address, Standing]) -> None:
        """Begin with what another member knows; the view follows."""
        self._standings = dict(standings)

    def merge(self, standings: dict[Address, Standing]) -> None:
        """Another part of a split site knows its own members, and this one knows its own."""
        for member, standing in standings.items():
            self._standings.setdefault(member, standing)
