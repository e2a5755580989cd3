"""Reminders: a member that has installed a view repeats its commit.

A leader may leave or die before all members have received its commit. A member without the commit
stalls and reports the departed leader, which shows the view it is in.
"""

from __future__ import annotations

from sitestack.layers.membership.headers import Commit
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.view import View
from sitestack.stack.layer import Effect, Local


class Reminders:
    def __init__(self, local: Local, member: Promises) -> None:
        self._local = local
        self._member = member
        #: Members of the view in force that reported others of it. In the next view they may lag.
        self._reporters: list[Address] = []

    def reported(self, source: Address, members: tuple[Address, ...]) -> list[Effect]:
        """Send the commit to a sender that reports a member of an earlier view."""
        view = self._member.view
        if view is None or source not in view.members:
            return []
        if any(m not in view.members for m in members):
            return [self._local.unicast(source, Commit(view.id))]
        if source not in self._reporters:
            self._reporters.append(source)
        return []

    def view_installed(self, view: View) -> list[Effect]:
        """Remind members that reported before this one received the commit."""
        reporters, self._reporters = self._reporters, []
        me = self._local.address
        if view.id.creator == me:
            return []
        return [self._local.unicast(each, Commit(view.id)) for each in reporters if each in view.members and each != me]
