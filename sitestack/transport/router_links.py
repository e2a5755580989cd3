"""A member's connections to all its gossip routers. They are independent: what one router does not do, another does.

The same members are usually registered at each. A router that is away costs nothing but the attempts to reach it.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import trio

from sitestack.model.address import Address, Physical
from sitestack.model.level import Level
from sitestack.transport.interfaces import is_address
from sitestack.transport.router_link import OTHERS_MAX, PAUSE_S_MAX, Registrant, RouterLink, State
from sitestack.wire.routing import Entry

#: Routers at most: each costs a connection, and a name may stand for any number of addresses.
ROUTERS_MAX = 16


@dataclass(frozen=True, slots=True)
class RouterStatistics:
    """What the connections to routers have seen."""

    #: Routers that are configured, and those that this member is registered at.
    routers: int
    up: int
    #: Connections since the start.
    connected: int
    #: Other members that are registered.
    others: int
    #: Bytes that waited on a connection that broke.
    lost_bytes: int


class RouterLinks:
    """All routers of one member. Nothing is opened before the first `poll`."""

    def __init__(
        self,
        places: Sequence[Physical],
        registrant: Registrant,
        queue_bytes_max: int,
        take: Callable[[RouterLink, bytes], None] = lambda _link, _frame: None,
    ) -> None:
        """`take` is called with each datagram frame that comes of a router."""
        self._registrant = registrant
        self._queue_bytes_max = queue_bytes_max
        self._take = take
        self._selector = selectors.DefaultSelector()
        #: Whether others have come or gone while nobody asked.
        self._has_news = False
        self._gone_connected = self._gone_lost_bytes = 0
        self.links: list[RouterLink] = []
        self.use(places)

    def use(self, places: Sequence[Physical]) -> None:
        """Use the routers at these places from now on: a name may stand for others than before. No name is looked up here."""
        wanted = [each for each in dict.fromkeys(places) if is_address(each.host)][:ROUTERS_MAX]
        known = {link.place: link for link in self.links}
        for place, link in known.items():
            if place not in wanted:
                link.close()
                self._gone_connected += link.connected
                self._gone_lost_bytes += link.lost_bytes
        self._has_news = True
        self.links = [known.get(place) or self._make(place) for place in wanted]

    def move(self, physical: tuple[Physical, ...]) -> None:
        """Register at all routers anew, as reached at these places."""
        who, places = self._registrant, [link.place for link in self.links]
        self._registrant = replace(who, entry=replace(who.entry, physical=physical))
        self.use(())
        self.use(places)

    def _make(self, place: Physical) -> RouterLink:
        return RouterLink(place, self._registrant, self._selector, self._queue_bytes_max, self._take)

    async def wait(self) -> None:
        """Wait until something has arrived, can be written or is due. Always a checkpoint."""
        due = min([link.due for link in self.links], default=trio.current_time() + PAUSE_S_MAX)
        with trio.CancelScope(deadline=due) as scope:
            await trio.lowlevel.wait_readable(self._selector)
        if scope.cancelled_caught:
            await trio.lowlevel.checkpoint()

    async def find(self, timeout_s: float) -> None:
        """Wait until a router has told who is there, but no longer than that."""
        with trio.move_on_after(timeout_s):
            while not self.has_answer():
                await self.wait()
                self._has_news = self.poll() or self._has_news

    def poll(self) -> bool:
        """Read and write what can be, and do what is due. Whether others have come or gone since the last time."""
        now = trio.current_time()
        for key, ready in self._selector.select(0):
            key.data.handle(ready, now)
        changed, self._has_news = self._has_news, False
        for link in self.links:
            link.tend(now)
            link.flush(now)
            changed, link.changed = changed or link.changed, False
        return changed

    def flush(self) -> None:
        """Write what the kernel takes."""
        now = trio.current_time()
        for link in self.links:
            link.flush(now)

    def up(self) -> list[RouterLink]:
        """The routers that this member is connected to, in the configured order."""
        return [link for link in self.links if link.state is State.UP]

    def has_answer(self) -> bool:
        """Whether a router has told who is there."""
        return any(link.listed for link in self.links)

    def others(self) -> dict[Address, Entry]:
        """All others that are registered anywhere."""
        return {address: entry for link in self.links for address, entry in link.others.items()}

    def problem(self) -> str:
        """A sentence's end on the routers that cannot be reached; empty when all can."""
        lost = [f"{link.place} ({link.problem})" for link in self.links if link.state is not State.UP]
        return f"no connection to {', '.join(lost)}" if lost else ""

    def close(self) -> None:
        """Close all connections. Closing twice is allowed."""
        for link in self.links:
            link.close()
        self.links = []
        self._selector.close()

    def statistics(self) -> RouterStatistics:
        """The counters as they are now."""
        links = self.links
        return RouterStatistics(
            routers=len(links),
            up=len(self.up()),
            connected=self._gone_connected + sum(link.connected for link in links),
            others=len(self.others()),
            lost_bytes=self._gone_lost_bytes + sum(link.lost_bytes for link in links),
        )

    def levels(self) -> dict[str, Level]:
        """What waits for a router, and who is known of one: of the router where it is most."""
        waiting = max([len(link.waiting) for link in self.links], default=0)
        others = max([len(link.others) for link in self.links], default=0)
        return {
            "router_queued_bytes": Level.of(waiting, self._queue_bytes_max),
            "registered": Level.of(others, OTHERS_MAX, "members that are registered at a router"),
        }
