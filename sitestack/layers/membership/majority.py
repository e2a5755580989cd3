"""The majority option: whether a view is primary, so that its members may deliver and send.

With `when_split: majority` a primary view has more than half of the `members` of the complete site:
two such views cannot exist at once. And it continues the last primary view, by the rule of
`next_lineage`: dynamic linear voting (Jajodia and Mutchler, 1990).

FRESH   no member was in a primary view: the first view with a majority becomes primary
HEIR    continues the last primary view; primary while it has a majority
LOST    the rest of a split; primary again in a merge with an heir, or with all members of the site
"""

from __future__ import annotations

from sitestack.layers.membership.headers import MajorityState, Standing
from sitestack.model.frame import Header
from sitestack.model.view import View


class Majority:
    """The standing of the view in force. Every member of a view computes the same."""

    def __init__(self, members: int | None) -> None:
        """`members`: of the complete site; None: every view is primary."""
        self._members = members
        self._view: View | None = None
        self._standing = Standing.FRESH

    def is_primary(self, view: View, states: tuple[Header, ...]) -> bool:
        """Enter a view; return whether it is primary. `states`: those of its `Prepare`."""
        members = self._members
        if members is None:
            return True
        standing = self._next(view, [state for state in states if isinstance(state, MajorityState)])
        has_majority = 2 * len(view.members) > members
        if (standing is Standing.FRESH and has_majority) or len(view.members) >= members:
            standing = Standing.HEIR
        self._standing, self._view = standing, view
        return has_majority and standing is Standing.HEIR

    def _next(self, view: View, others: list[MajorityState]) -> Standing:
        if view.subviews:
            standings = [self._standing, *[other.standing for other in others]]
            heirs, lost = Standing.HEIR in standings, Standing.LOST in standings
            return Standing.HEIR if heirs else Standing.LOST if lost else Standing.FRESH
        if self._view is not None:
            before, lineage = self._standing, self._view.lineage
        elif others:
            before, lineage = others[0].standing, others[0].lineage
        else:
            return Standing.FRESH  # founds the site
        return Standing.LOST if before is Standing.HEIR and view.lineage != lineage else before

    def give_state(self) -> MajorityState | None:
        if self._members is None or self._view is None:
            return None
        return MajorityState(self._standing, self._view.lineage)
