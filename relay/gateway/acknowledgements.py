"""Acknowledgements of other sites, collected over a turn: a link puts one entry a turn into the stream, not one per ACK."""

from __future__ import annotations

from relay.gateway.link_table import Key
from relay.replica.entries import Acked, SiteVector
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later, raise_to


class Acknowledgements:
    """How far each lineage has this site's messages, as its ACKs said this turn. Bound: a vector of this site per link."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state
        self._collected: dict[Key, SiteVector] = {}

    def collect(self, key: Key, vector: SiteVector | None) -> None:
        """Take the vector that an ACK has for this site; None when it has none."""
        if vector is not None:
            known = self._collected.get(key, SiteVector())
            raise_to(known.origins, vector.origins)
            self._collected[key] = SiteVector(known.origins, later(known.view, vector.view))

    def clear(self) -> None:
        """Forget what was not cast. Nothing is lost: the first ACK of each new link says again all that is stable there."""
        self._collected.clear()

    def take(self) -> list[Acked]:
        """The entries to cast now: at most one per link, and only with what the replicated state does not have yet."""
        entries: list[Acked] = []
        for (site, name), vector in self._collected.items():
            remote = self._state.remotes.get(site)
            known = None if remote is None else remote.lineages.get(name)
            acked = {} if known is None else known.acked
            origins = {origin: n for origin, n in vector.origins.items() if acked.get(origin, 0) < n}
            seen = None if known is None else known.acked_view
            view = vector.view if vector.view is not None and (seen is None or seen < vector.view) else None
            if origins or view is not None:
                entries.append(Acked(site, name, SiteVector(origins, view)))
        self._collected.clear()
        return entries
