"""ViewOrder: when the views of this site go over one of several links that share its origins (G5).

With one relay the order of the stream settles it. With several, the last words of a member that is gone may still be on their
way over another link, and would come to a site that knows that member no more. So a view that takes members away waits until
everything before it is stable in the other site; what follows does not wait for it, but for the words of newcomers. A view that
only adds members goes at once. Each link carries all views, so that it brings a newcomer's before the newcomer's words; what
the other site has acknowledged already is left out, and what comes twice it drops.

A link begins with the view that the other site knows, again: should that site have taken this one out of its global view, it is
in it again at once. Else other shares, which wait for that (`fence.py`), and views, which wait for other shares, wait for ever.
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
        #: False when the other end knows a view that no member here has been in: then the site was split, and G5 is void.
        self._holds = True
        #: All batches before this position are stable at the other end.
        self._at = 0

    def begin(self, known: ViewId | None) -> View | None:
        """The other end knows this view. Returns it, to be sent first; None when it is not held any more, or there is none."""
        self._passed.clear()
        self._members = None
        buffer = self._state.buffer
        held = [buffer.at(position).view for position in range(buffer.first, buffer.end)] if known is not None else []
        found = next((view for view in (buffer.base_view, *held) if view is not None and view.id == known), None)
        is_dropped = known is None or (buffer.base_view is not None and known < buffer.base_view.id)
        self._holds = found is not None or is_dropped
        if found is not None:
            self.gone(found)
        return found

    def gone(self, view: View) -> None:
        """This view was sent."""
        self._members = frozenset(view.members)

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
            self.gone(view)
            if not is_there:
                return view
        return None

    def _may_go(self, position: int, view: View, lineage: Lineage | None) -> bool:
        if not self._holds or self._members is None or self._members.issubset(view.members):
            return True
        return lineage is not None and self._lacks_from(lineage) >= position

    def _lacks_from(self, lineage: Lineage) -> int:
        """The position of the oldest batch that is not stable at the other end; each call goes on where one stopped."""
        buffer = self._state.buffer
        at = max(self._at, buffer.first)
        while at < buffer.end and (buffer.at(at).batch is None or lineage.has(buffer.at(at))):
            at += 1
        self._at = at
        return at
