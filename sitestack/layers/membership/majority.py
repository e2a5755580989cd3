"""The majority option: whether a view is primary, so that its members may deliver and send.

With `when_split: majority` a primary view fulfils two conditions. It has more than half of the
`members` that the site has when it is complete: two such views cannot exist at once. And it
continues the last primary view, by the rule of `next_lineage`: dynamic linear voting (Jajodia and
Mutchler, 1990), where exactly half with the first member of the last view counts as the majority.
So no primary view lacks the deliveries of the one before it.

    FRESH   no member was in a primary view: the first view with a majority becomes primary
    HEIR    continues the last primary view; primary while it has a majority
    LOST    the rest of a split; primary again in a merge with an heir, or with all members of the site

A joiner and the parts of a merge learn the standing of the others from `MajorityState`.
"""

from __future__ import annotations

from sitestack.layers.membership.headers import MajorityState, Standing
from sitestack.model.frame import Header
from sitestack.model.view import View


class Majority:
    """The standing of the view in force at one member. Every member of a view computes the same."""

    def __init__(self, members: int | None) -> None:
        """`members`: the number of members of the complete site; None: every view is primary."""
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
            return Standing.FRESH  # this process founds the site
        return Standing.LOST if before is Standing.HEIR and view.lineage != lineage else before

    def give_state(self) -> MajorityState | None:
        """Return the standing of the view in force, for joiners and other parts."""
        if self._members is None or self._view is None:
            return None
        return MajorityState(self._standing, self._view.lineage)
