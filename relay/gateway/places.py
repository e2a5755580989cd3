"""Places: where the relay of each other site may be, which may change while members run."""

from __future__ import annotations

from collections.abc import Mapping

from relay.gateway.connections import Place, Via
from sitestack.model.address import Physical


class Places:
    """The places by site. Bound: those in the configuration."""

    def __init__(self, peers: Mapping[str, tuple[Physical, ...]], via: Mapping[str, str]) -> None:
        """`peers`: the addresses of neighbours; `via`: sites that are reached by way of one of these."""
        self._routed = {site: (Via(hop),) for site, hop in via.items()}
        #: Always this object, so that others may hold it.
        self.of: dict[str, tuple[Place, ...]] = {**peers, **self._routed}

    @property
    def sites(self) -> tuple[str, ...]:
        """All other sites in this member's configuration, in order of their names."""
        return tuple(sorted(self.of))

    def change(self, peers: Mapping[str, tuple[Physical, ...]]) -> list[str]:
        """These are the neighbours from now on; returns those that were and are not any more."""
        gone = [site for site in self.of if site not in peers and site not in self._routed]
        self.of.clear()
        self.of.update({**peers, **self._routed})
        return gone
