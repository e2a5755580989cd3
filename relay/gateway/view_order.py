"""ViewOrder: when the views of this site go over one of several links that share its origins (G5).

With one relay the order of the stream settles it. With several, the last words of a member that is gone may still be on their
way over another link, and would come to a site that knows that member no more. So a view that takes members away waits until
everything before it is stable in the other site; what follows does not wait for it, but for the words of newcomers. A view that
only adds members goes at once. Each link carries all views, so that it brings a newcomer's before the newcomer's words; what
the other site has acknowledged already is left out, and what comes twice it drops.
"""

from __future__ import annotations

from collections import deque

from relay.replica.remote_site import Lineage
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.view import View, ViewId


class ViewOrder:
    """The views that the cursor of one link has passed and that have not gone. Bound: those in the buffer."""

    def __init__(self, state: ReplicatedState, site: str, lineage: ViewId) -> None:
        """`site` and `lineage` are those at the other end."""
        self._state = state
        self._site = site
        self._name = lineage
        #: Buffer position and view.
        self._passed: deque[tuple[int, View]] = deque()
        #: The members of the view that the other end has once all that was sent here arrives; None when it has none.
        self._members: frozenset[Address] | None = None

    def begin(self, known: ViewId | None) -> None:
        """The other end has this view: go on from there."""
        self._passed.clear()
        self._members = None if known is None else frozenset(self._members_of(known))

    def _members_of(self, known: ViewId) -> tuple[Address, ...]:
        """The members of a view that is held, or was dropped last; none of one that only another part of this site knew."""
        buffer = self._state.buffer
        held = [buffer.at(position).view for position in range(buffer.first, buffer.end)]
        views = [buffer.base_view, *held]
        return next((view.members for view in views if view is not None and view.id == known), ())

    def passed(self, position: int, view: View) -> None:
        """The cursor has passed a view at this position."""
        self._passed.append((position, view))

    def is_stranger(self, origin: Address) -> bool:
        """Whether a view that has not gone yet may be the first that knows this origin: its words wait for it."""
        return bool(self._passed) and (self._members is None or origin not in self._members)

    def ready(self) -> View | None:
        """The next view that may go now, which thereby has gone; None when there is none."""
        while self._passed:
            position, view = self._passed[0]
            remote = self._state.remotes.get(self._site)
            lineage = None if remote is None else remote.lineages.get(self._name)
            is_there = lineage is not None and lineage.acked_view is not None and lineage.acked_view >= view.id
            if not is_there and not self._may_go(position, view, lineage):
                return None
            self._passed.popleft()
            self._members = frozenset(view.members)
            if not is_there:
                return view
        return None

    def _may_go(self, position: int, view: View, lineage: Lineage | None) -> bool:
        if self._members is None or self._members.issubset(view.members):
            return True
        return lineage is not None and lineage.lacks_from(self._state.buffer) >= position
