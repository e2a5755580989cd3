"""The survey before a merge: which members of the other parts hear its leader. A helper of membership.

A merge stops all members of all its parts until each of them has answered the leader. A member that hears the leader without
being heard, or the other way round, would stop them all in vain. So each is asked first, while all go on; its answer shows that
both directions work. The coordinators have shown it by agreeing.
"""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.view import View


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
