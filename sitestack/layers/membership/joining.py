"""Joining: how a process becomes a member: it discovers, asks the coordinator, or founds the site.

    idle --connect--> discovering --a coordinator answered--> asking --prepare--> ready --commit--> (member)
                          ^   |                                 |                   |
                          |   +--nobody, or only joiners, and mine is the lowest address--> (founds the site)
                          +----- no answer in time -------------+-------------------+

When many processes start at once none has a coordinator; the one with the lowest address founds the site and the others find it
in their next round (A13). Two founders that did not hear each other merge later.

A joiner asks twice, before and after the coordinator's offer, which shows that both hear each other: a joiner that is heard and
cannot be reached would stop the whole site with each attempt. In between it fetches what can be had while all go on, if the
layers above have anything to fetch: everybody waits for what it is handed with its first view. In a site of several parts,
coordinators that have offered nothing are asked after the others.

A joiner that is ready may be a member already, by a commit that is still on its way. So its timeout begins anew, and is longer
than the coordinator takes to notice a silent member. A member that asks to join twice is excluded, and let in when it asks once
more (`leader.py`).
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


class Phase(Enum):
    """The states of a joiner."""

    #: Not started, or a member already.
    IDLE = "idle"
    #: Discovery searches for members.
    DISCOVERING = "discovering"
    #: A coordinator has been asked.
    ASKING = "asking"
    #: A coordinator has prepared a view with this process in it.
    READY = "ready"


class Joining:
    """The state machine of a joiner. Membership hands it events and headers, and installs the view that comes of them."""

    def __init__(self, local: Local, join_timeout_s: float, fetches: bool) -> None:
        self.phase = Phase.IDLE
        self._local = local
        self._timeout_s = join_timeout_s
        self._due: float | None = None
        #: Whether a layer above fetches something between the offer and the second request (`Offered`).
        self._fetches = fetches
        #: The coordinator whose offer was taken, while something is fetched from it.
        self._source: Address | None = None
        #: The coordinator that was asked and has not made an offer yet.
        self._asked: Address | None = None
        #: Coordinators that were asked and made no offer; others are asked before them. At most as many as one search finds.
        self._silent: list[Address] = []

    def deadline(self) -> float | None:
        """When a silent coordinator is given up and discovery starts again; None while no coordinator is awaited."""
        return self._due

    def find_site(self) -> list[Effect]:
        """Search for members, for the first time or again."""
        self.phase = Phase.DISCOVERING
        self._due = self._source = None
        return [Down(FindMembers())]

    def done(self) -> None:
        """Stop: this process is a member now."""
        self.phase = Phase.IDLE
        self._due = self._source = None

    def found(self, found: Found, now: float) -> list[Effect] | None:
        """Go on with those that answered the search; None tells the caller to found the site."""
        if self.phase is not Phase.DISCOVERING:
            return []
        views: dict[Address, ViewId] = {}
        for peer in found.peers:
            if peer.coordinator is not None and peer.view is not None:
                views[peer.coordinator] = max(peer.view, views.get(peer.coordinator, peer.view))
        if views:
            self._silent = [coordinator for coordinator in views if coordinator in self._silent]
            if len(self._silent) == len(views):
                self._silent = []  # all have been asked in vain: begin again with the newest view
            return self._ask(max(views, key=lambda each: (each not in self._silent, views[each], each)), now)
        lowest = min([peer.address for peer in found.peers], default=None)
        if lowest is None or self._local.address < lowest:
            return None
        return self.find_site()

    def redirected(self, redirect: JoinRedirect, now: float) -> list[Effect]:
        """Ask the coordinator that the member named which was asked."""
        if self.phase is not Phase.ASKING or redirect.coordinator == self._local.address:
            return []
        return self._ask(redirect.coordinator, now)

    def offered(self, source: Address) -> list[Effect]:
        """Answer the coordinator's offer, once: a second request would look like that of a member unaware of its view."""
        if self.phase is not Phase.ASKING or source != self._asked:
            return []
        self._asked = None
        if not self._fetches:
            return self._request(source, hears=True)
        self._source = source
        return [Up(Offered(source))]

    def fetching(self, now: float) -> None:
        """Something is fetched and more is to come: be patient with this coordinator."""
        if self._source is not None:
            self._due = now + self._timeout_s

    def fetched(self, event: Fetched, now: float) -> list[Effect]:
        """Hardly anything is left to fetch: answer the coordinator's offer."""
        source, self._source = self._source, None
        if source is None:
            return []
        self._due = now + self._timeout_s
        return self._request(source, hears=True, known=event.known)

    def ready(self, now: float) -> None:
        """Wait for the commit, and ask nobody else: a coordinator has prepared a view with this process in it."""
        self.phase = Phase.READY
        self._due = now + self._timeout_s

    def expire(self, now: float) -> list[Effect]:
        """Start again after a timeout: the coordinator may be dead, or have given this attempt up."""
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
