"""How a process finds its way into a site: discover, ask the coordinator, or found the site.

    idle --connect--> discovering --a coordinator answered--> asking --prepare--> ready --commit--> (member)
                          ^   |                                 |                   |
                          |   +--nobody, or only joiners, and mine is the lowest address--> (founds the site)
                          +----- no answer in time -------------+-------------------+

When many processes start at once none has a coordinator; the one with the lowest address founds the site and the others find it
in their next round (A13). Two founders that did not hear each other merge later.

A joiner asks twice: the coordinator's offer in between shows that both hear each other. One that is heard and cannot be reached
would stop the whole site with each attempt. In a site of several parts a coordinator that offers nothing is asked after the
others.

Whoever stands ready may count as a member already, by a commit that is on its way. So its time begins anew, and is longer than
the coordinator takes to notice that nothing is heard of a member. One that is heard and asks twice is excluded, and let in when
it asks once more (`leader.py`).
"""

from __future__ import annotations

from enum import Enum

from sitestack.layers.membership.headers import JoinRedirect, JoinRequest
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Effect, Local


class Phase(Enum):
    """Where a joiner stands."""

    #: Not started, or a member already.
    IDLE = "idle"
    #: Discovery is asking around.
    DISCOVERING = "discovering"
    #: A coordinator has been asked.
    ASKING = "asking"
    #: A coordinator has prepared a view with this process in it.
    READY = "ready"


class Joining:
    """The joiner's machine; Membership feeds it and installs what comes of it."""

    def __init__(self, local: Local, join_timeout_s: float) -> None:
        self.phase = Phase.IDLE
        self.attempts = 0
        self._local = local
        self._timeout_s = join_timeout_s
        self._due: float | None = None
        #: The coordinator that was asked and has not offered anything yet.
        self._asked: Address | None = None
        #: Coordinators that have been asked and offered nothing: others go before them. As many as one search finds, at most.
        self._silent: list[Address] = []

    def deadline(self) -> float | None:
        """When a coordinator that says nothing more is given up and discovery starts again."""
        return self._due

    def start(self) -> list[Effect]:
        """Look around (again)."""
        self.phase = Phase.DISCOVERING
        self.attempts += 1
        self._due = None
        return [Down(FindMembers())]

    def done(self) -> None:
        """A member now: nothing is wanted any more."""
        self.phase = Phase.IDLE
        self._due = None

    def found(self, found: Found, now: float) -> list[Effect] | None:
        """What to do about who answered; None means: found the site yourself."""
        if self.phase is not Phase.DISCOVERING:
            return []
        views: dict[Address, ViewId] = {}
        for peer in found.peers:
            if peer.coordinator is not None and peer.view is not None:
                views[peer.coordinator] = max(peer.view, views.get(peer.coordinator, peer.view))
        if views:
            self._silent = [coordinator for coordinator in views if coordinator in self._silent]
            if len(self._silent) == len(views):
                self._silent = []  # all of them have been asked in vain: once more from the newest on
            return self._ask(max(views, key=lambda each: (each not in self._silent, views[each], each)), now)
        lowest = min([peer.address for peer in found.peers], default=None)
        if lowest is None or self._local.address < lowest:
            return None
        return self.start()

    def redirected(self, redirect: JoinRedirect, now: float) -> list[Effect]:
        """The one I asked is not the coordinator."""
        if self.phase is not Phase.ASKING or redirect.coordinator == self._local.address:
            return []
        return self._ask(redirect.coordinator, now)

    def offered(self, source: Address) -> list[Effect]:
        """The coordinator hears me, and I hear it: say so. Twice would look like a member that does not know it is one."""
        if self.phase is not Phase.ASKING or source != self._asked:
            return []
        self._asked = None
        return self._request(source, hears=True)

    def ready(self, now: float) -> None:
        """A coordinator has prepared a view with this process in it: nobody else is asked, the commit is waited for."""
        self.phase = Phase.READY
        self._due = now + self._timeout_s

    def expire(self, now: float) -> list[Effect]:
        """No answer in time: the coordinator may be dead, or may have given this attempt up."""
        if self._due is None or now < self._due:
            return []
        if self.phase is Phase.ASKING and self._asked is not None:
            self._silent.append(self._asked)
        return self.start()

    def _ask(self, coordinator: Address, now: float) -> list[Effect]:
        self.phase = Phase.ASKING
        self._due = now + self._timeout_s
        self._asked = coordinator
        return self._request(coordinator, hears=False)

    def _request(self, coordinator: Address, hears: bool) -> list[Effect]:
        return [Down(Frame(self._local.address, coordinator, (JoinRequest(self._local.name, hears),)))]
