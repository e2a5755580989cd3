"""LinkReceiver: what arrives on the links, on its way into this site's stream.

The replicated state says what has been admitted; this adds what the coordinator has cast and not yet seen delivered, so that a
replay on a second link is recognised at once (R6).
"""

from __future__ import annotations

from collections.abc import Container

from relay.gateway.injector import Injector
from relay.gateway.link_table import Key
from relay.gateway.wire import Data
from relay.replica.entries import Relayed, RemoteBaseline, RemoteGap, RemoteView
from relay.replica.remote_site import Admission, admission
from relay.replica.state import ReplicatedState
from relay.replica.vectors import bound
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Scope

#: Sites that one batch may have been to (R12).
HOPS_MAX = 16


class LinkReceiver:
    """The numbers reached by what is on its way, per site. Bounds: `ORIGINS_MAX` per site; the injector's bytes."""

    def __init__(self, site: str, state: ReplicatedState, injector: Injector, going_down: Container[Key]) -> None:
        self._site = site
        self._state = state
        self._injector = injector
        self._going_down = going_down
        self._reached: dict[str, dict[Address, int]] = {}

    def reset(self, site: str) -> None:
        """Something that was cast has not been admitted: start again from what has."""
        self._reached.pop(site, None)

    def clear(self) -> None:
        """This member relays no more."""
        self._reached.clear()

    def admit(self, peer: str, frame: Header) -> Admission:
        """RELAY's FORWARD and VIEW: cast what a link has brought of the peer's site if it is next.

        Raises ProtocolError when the peer may not originate it (C9).
        """
        if isinstance(frame, Data):
            return self._data(peer, frame)
        if isinstance(frame, RemoteView):
            return self._view(peer, frame)
        if isinstance(frame, RemoteGap):
            return self._gap(peer, frame)
        assert isinstance(frame, RemoteBaseline)
        return self._baseline(peer, frame)

    def _data(self, peer: str, frame: Data) -> Admission:
        """Cast a batch if it is the next one."""
        batch = frame.batch
        if batch.site != peer or batch.scope is not Scope.ALL or len(frame.visited) > HOPS_MAX:
            raise ProtocolError("foreign_site")
        if self._site in frame.visited:
            return Admission.DUPLICATE  # X6: it has been here, whatever its numbers say
        answer = admission(self._number(peer, batch.origin), batch.first, batch.last)
        if answer is Admission.NEXT:
            self._raise(peer, batch.origin, batch.last)
            self._injector.cast(Relayed((*frame.visited, self._site)), batch)
        return answer

    def _gap(self, peer: str, frame: RemoteGap) -> Admission:
        """Cast a gap if it begins at or below the next number."""
        if frame.site != peer or not 0 < frame.first <= frame.last:
            raise ProtocolError("foreign_site")
        number = self._number(peer, frame.origin)
        # A gap may overlap what is here already: only the part above it counts.
        answer = admission(number, max(frame.first, number + 1), frame.last)
        if answer is Admission.NEXT:
            self._raise(peer, frame.origin, frame.last)
            self._injector.cast(frame)
        return answer

    def _baseline(self, peer: str, frame: RemoteBaseline) -> Admission:
        """Cast a baseline; it counts for origins that nothing is known of."""
        if frame.site != peer:
            raise ProtocolError("foreign_site")
        for origin, n in frame.origins.items():
            if n > 0 and not self._number(peer, origin):
                self._raise(peer, origin, n)
        self._injector.cast(frame)
        return Admission.NEXT

    def _view(self, peer: str, frame: RemoteView) -> Admission:
        """Cast a view of the peer's site if it is the newest of its lineage, or the site is about to leave the global view."""
        if frame.site != peer:
            raise ProtocolError("foreign_site")
        remote = self._state.remotes.get(peer)
        stays = (peer, frame.view.lineage) not in self._going_down
        if remote is not None and stays and not remote.is_news(frame.view):
            return Admission.DUPLICATE
        self._injector.cast(frame)
        return Admission.NEXT

    def _number(self, site: str, origin: Address) -> int:
        """How far an origin is. What was forgotten here is not on its way any more: it has been admitted."""
        remote = self._state.remotes.get(site)
        admitted = 0 if remote is None else remote.admitted.get(origin, 0)
        return max(self._reached.get(site, {}).get(origin, 0), admitted)

    def _raise(self, site: str, origin: Address, n: int) -> None:
        reached = self._reached.setdefault(site, {})
        reached.pop(origin, None)
        reached[origin] = n
        bound(reached)
