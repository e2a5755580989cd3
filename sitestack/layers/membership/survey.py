"""Who answers the leader of a merge, asked before anybody is stopped for it. A helper of membership.

A merge stops all members of all its parts until each of them has answered the leader. One that hears the leader and is not
heard, or that is heard and does not hear, would stop them in vain. So each is asked first, while all go on; its answer shows
both. Coordinators have shown it by agreeing.
"""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.view import View


class Survey:
    """One round of questions to the members of other parts. `number` tells its answers from those of earlier rounds."""

    def __init__(self, number: int, parts: tuple[View, ...], due: float) -> None:
        """Whoever has not answered when it is `due` is not reached."""
        self.number = number
        self.parts = parts
        self.due = due
        self.missing = {member: part for part in parts for member in part.members if member != part.coordinator}

    def reached(self) -> tuple[View, ...]:
        """The parts that have answered whole: no part is torn for a merge."""
        silent = self.missing.values()
        return tuple([part for part in self.parts if part not in silent])

    def silent(self) -> dict[Address, tuple[Address, ...]]:
        """By coordinator, those of its part that have not answered; without the parts that have answered whole."""
        silent: dict[Address, tuple[Address, ...]] = {}
        for member, part in self.missing.items():
            silent[part.coordinator] = (*silent.get(part.coordinator, ()), member)
        return silent
