"""Grace: how long a site without a link stays in the global view (G6, R18), and how long entries are
held for a lost part. RELAY's "Bridge view changed": the next relay of the site is expected.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from relay.gateway.link_table import Key
from relay.replica.entries import SiteDown
from relay.replica.state import ReplicatedState
from sitestack.model.view import ViewId


class Grace:
    """When (s) each lineage lost its link, as this relay knows.

    Bound: the replicated lineages, plus one.
    """

    def __init__(self, state: ReplicatedState, grace_s: float, forget_s: float) -> None:
        self._state = state
        self._grace_s = grace_s
        #: Forgetting a lineage also hides it, and one forgotten early would return.
        self._forget_s = max(forget_s, grace_s)
        self._started = 0.0
        self._since: dict[Key, float] = {}
        #: Cast entries that are not back, unless their lineage has linked since.
        self._cast: dict[SiteDown, None] = {}
        #: The lineages of all entries that are not back: they will leave the global view.
        self.going_down: dict[Key, None] = {}

    def start(self, now: float) -> None:
        """Begin to relay: every lineage has the whole grace time from now."""
        self._started = now
        self._since.clear()
        self._cast.clear()
        self.going_down.clear()

    def linked(self, key: Key) -> None:
        """End a lineage's grace time: its link is up, and entries cast about its absence are void."""
        self._since.pop(key, None)
        for entry in [each for each in self._cast if (each.site, each.lineage) == key]:
            del self._cast[entry]

    def settled(self, entry: SiteDown) -> None:
        self._cast.pop(entry, None)
        self.going_down.pop((entry.site, entry.lineage), None)
        if entry.forget:
            self._since.pop((entry.site, entry.lineage), None)

    def leave_out(self, sites: Container[str]) -> None:
        """Note that an entry on its way takes all but these sites out of the global view."""
        self.going_down.update(
            {(site, name): None for site, each in self._state.remotes.items() for name in each.lineages if site not in sites}
        )

    def left_out(self) -> None:
        """Follow up such an entry."""
        for key in [each for each in self.going_down if each[0] not in self._state.sites]:
            del self.going_down[key]

    def due(self, links: Collection[Key], now: float) -> list[SiteDown]:
        entries = [SiteDown(*each) for each, due in self._waiting(links) if due <= now]
        for entry in entries:
            self._cast[entry] = None
            self.going_down[entry.site, entry.lineage] = None
        return entries

    def deadline(self, links: Collection[Key]) -> float | None:
        waiting = self._waiting(links)
        return min([due for _, due in waiting]) if waiting else None

    def away(self, key: Key, now: float) -> None:
        """Begin a grace time: a lineage has lost its link, or its view came over another part's link."""
        for site, lineage in list(self._since):
            if site not in self._state.remotes or lineage not in self._state.remotes[site].lineages:
                del self._since[site, lineage]
        self._since[key] = now

    def _waiting(self, links: Collection[Key]) -> list[tuple[tuple[str, ViewId, bool], float]]:
        """Return the fields of the pending entries, each with its time (s).

        A lineage without a link is hidden after the grace time. If its site is linked in another
        lineage, it is forgotten after the budget's age.
        """
        waiting: list[tuple[tuple[str, ViewId, bool], float]] = []
        for site, remote in self._state.remotes.items():
            for name, lineage in remote.lineages.items():
                key = (site, name)
                if key in links:
                    continue
                since = self._since.get(key, self._started)
                if lineage.view is not None:
                    waiting.append(((site, name, False), since + self._grace_s))
                if any(linked == site for linked, _ in links):
                    waiting.append(((site, name, True), since + self._forget_s))
        return [each for each in waiting if SiteDown(*each[0]) not in self._cast] if self._cast else waiting
