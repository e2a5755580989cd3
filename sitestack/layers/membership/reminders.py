"""Commits that are told again, by a member that has installed the view. A helper of membership.

A leader may leave, or die, before everybody has heard its commit, and it need not be a member of the view. Then nobody of the
view misses it, and whoever has not heard the commit stands still: it only reports to the next in line that the leader is gone.
That report shows where it stands.
"""

from __future__ import annotations

from sitestack.layers.membership.headers import Commit
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Down, Effect


class Reminders:
    """Who reported members that are in its view and not in the one in force here."""

    def __init__(self, me: Address, member: Promises) -> None:
        self._me = me
        self._member = member
        #: Members of the view in force that reported others of it. In the next view they may be the ones that lag.
        self._reporters: list[Address] = []

    def reported(self, source: Address, members: tuple[Address, ...]) -> list[Effect]:
        """Remind a sender that reports a member of an earlier view. A commit that it has heard meanwhile does nothing there."""
        view = self._member.view
        if view is None or source not in view.members:
            return []
        if any(m not in view.members for m in members):
            return [self._remind(source, view)]
        if source not in self._reporters:
            self._reporters.append(source)
        return []

    def view_installed(self, view: View) -> list[Effect]:
        """Remind those that had reported before this member heard the commit itself, unless it tells them as the leader."""
        reporters, self._reporters = self._reporters, []
        if view.id.creator == self._me:
            return []
        return [self._remind(each, view) for each in reporters if each in view.members and each != self._me]

    def _remind(self, to: Address, view: View) -> Effect:
        return Down(Frame(self._me, to, (Commit(view.id),)))
