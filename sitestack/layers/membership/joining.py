"""Joining: a process discovers the site, asks the coordinator for admission, or founds the site.

idle --connect--> discovering --a coordinator answered--> asking --prepare--> ready --commit-->
(member)
^   |                                 |                   |
|   +--no member, and mine is the lowest address--> (founds the site)
+----- no answer in time -------------+-------------------+

When many processes start at once, the one with the lowest address founds the site (A13).

A joiner asks twice, before and after the coordinator's offer: an unreachable joiner would otherwise
block the whole site. Between the two requests the layers above may fetch state while all members
continue.

A ready joiner may be a member already, by a commit that is still under way. So its timeout begins
anew. A member that asks to join twice is excluded, and admitted when it asks once more
(`leader.py`).
"""

from __future__ import annotations

from enum import Enum

from sitestack.layers.membership.headers import JoinRedirect, JoinRequest
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found
from sitestack.model.frame import Header
from sitestack.model.state_events import Fetched, Offered
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Effect, Local, Up

#: Maximum redirects in an attempt: they may be a circle.
REDIRECTS_MAX = 8


class Phase(Enum):
    #: Not started, or a member already.
    IDLE = "idle"
    DISCOVERING = "discovering"
    ASKING = "asking"
    #: A coordinator has prepared a view with this process in it.
    READY = "ready"


class Joining:
    def __init__(self, local: Local, join_timeout_s: float, fetches: bool) -> None:
        self.phase = Phase.IDLE
        self._local = local
        self._timeout_s = join_timeout_s
        self._due: float | None = None
        #: Whether a layer above fetches state before the second request (`Offered`).
        self._fetches = fetches
        #: The coordinator from which state is fetched.
        self._source: Address | None = None
        self._asked: Address | None = None
        #: Coordinators that made no offer; others are asked first.
        self._silent: list[Address] = []
        #: Since the search.
        self._redirects = 0

    def deadline(self) -> float | None:
        return self._due

    def find_site(self) -> list[Effect]:
        self.phase = Phase.DISCOVERING
        self._due = self._source = None
        self._redirects = 0
        return [Down(FindMembers())]

    def done(self) -> None:
        self.phase = Phase.IDLE
        self._due = self._source = None

    def found(self, found: Found, now: float) -> list[Effect] | None:
        """Continue with the processes that answered the search; None: found the site."""
        if self.phase is not Phase.DISCOVERING:
            return []
        views: dict[Address, ViewId] = {}
        for peer in found.peers:
            if peer.coordinator is not None and peer.view is not None:
                views[peer.coordinator] = max(peer.view, views.get(peer.coordinator, peer.view))
        if views:
            self._silent = [coordinator for coordinator in views if coordinator in self._silent]
            if len(self._silent) == len(views):
                self._silent = []  # all asked without success: begin again
            return self._ask(max(views, key=lambda each: (each not in self._silent, views[each], each)), now)
        lowest = min([peer.address for peer in found.peers], default=None)
        if lowest is None or self._local.address < lowest:
            return None
        return self.find_site()

    def redirected(self, redirect: JoinRedirect, now: float) -> list[Effect]:
        if self.phase is not Phase.ASKING or redirect.coordinator == self._local.address or self._redirects == REDIRECTS_MAX:
            return []
        self._redirects += 1
        return self._ask(redirect.coordinator, now)

    def offered(self, source: Address) -> list[Effect]:
        """Answer the coordinator's offer once: a second request is that of a member unaware of its view."""
        if self.phase is not Phase.ASKING or source != self._asked:
            return []
        self._asked = None
        if not self._fetches:
            return self._request(source, hears=True)
        self._source = source
        return [Up(Offered(source))]

    def fetching(self, now: float) -> None:
        """Extend the timeout of this coordinator: state arrives."""
        if self._source is not None:
            self._due = now + self._timeout_s

    def fetched(self, event: Fetched, now: float) -> list[Effect]:
        source, self._source = self._source, None
        if source is None:
            return []
        self._due = now + self._timeout_s
        return self._request(source, hears=True, known=event.known)

    def ready(self, now: float) -> None:
        self.phase = Phase.READY
        self._due = now + self._timeout_s

    def expire(self, now: float) -> list[Effect]:
        """Restart after a timeout: the coordinator may be dead."""
        if self._due is None or now < self._due:
            return []
        if self.phase is Phase.ASKING and self._asked is not None:
            self._silent.append(self._asked)
        return self.find_site()

    def _ask(self, coordinator: Address, now: float) -> list[Effect]:
        self.phase = Phase.ASKING
        self._due = now + self._timeout_s
        self._asked, self._source = coordinator, None
        return self._request(coordinator, hears=False)

    def _request(self, coordinator: Address, hears: bool, known: tuple[Header, ...] = ()) -> list[Effect]:
        return [self._local.unicast(coordinator, JoinRequest(self._local.name, hears, known))]
