"""LinkReceiver: casts received frames into this site's stream.

It knows the admitted numbers and the coordinator's undelivered casts, so it recognises a replay on
a second link at once (R6).
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
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


class LinkReceiver:
    """The cast numbers per site and origin.

    Bounds: `ORIGINS_MAX` per site; a view for each link; the injector's bytes.
    """

    def __init__(self, site: str, state: ReplicatedState, injector: Injector, going_down: Container[Key]) -> None:
        self._site = site
        self._state = state
        self._injector = injector
        self._going_down = going_down
        self._reached: dict[str, dict[Address, int]] = {}
        #: Per link, the last view of history held back until the first message lacked here.
        self._history: dict[Key, RemoteView] = {}

    def forget(self, link: Key) -> None:
        self._history.pop(link, None)

    def reset(self, site: str) -> None:
        self._reached.pop(site, None)

    def clear(self) -> None:
        self._reached.clear()
        self._history.clear()

    def admit(self, peer: str, frame: Header, lineage: ViewId) -> Admission:
        """RELAY's FORWARD and VIEW: cast a frame of the peer's site if it is the next of its
        origin.

        `lineage`: that of the sending relay.
        """
        if isinstance(frame, Data):
            return self._data(peer, frame, lineage)
        if isinstance(frame, RemoteView):
            return self._view(peer, frame, lineage)
        if isinstance(frame, RemoteGap):
            return self._gap(peer, frame)
        assert isinstance(frame, RemoteBaseline)
        return self._baseline(peer, frame)

    def _data(self, peer: str, frame: Data, lineage: ViewId) -> Admission:
        batch = frame.batch
        if self._site in frame.visited:
            return Admission.DUPLICATE  # it has visited this site (X6)
        answer = admission(self._number(peer, batch.origin), batch.first, batch.last)
        if answer is Admission.NEXT:
            self._raise(peer, batch.origin, batch.last)
            if (view := self._history.pop((peer, lineage), None)) is not None:
                self._injector.cast(view)
            self._injector.cast(Relayed((*frame.visited, self._site)), batch)
        return answer

    def _gap(self, peer: str, frame: RemoteGap) -> Admission:
        number = self._number(peer, frame.origin)
        # A gap may overlap admitted numbers: only those above count.
        answer = admission(number, max(frame.first, number + 1), frame.last)
        if answer is Admission.NEXT:
            self._raise(peer, frame.origin, frame.last)
            self._injector.cast(frame)
        return answer

    def _baseline(self, peer: str, frame: RemoteBaseline) -> Admission:
        for origin, n in frame.origins.items():
            if n > 0 and not self._number(peer, origin):
                self._raise(peer, origin, n)
        self._injector.cast(frame)
        return Admission.NEXT

    def _view(self, peer: str, frame: RemoteView, lineage: ViewId) -> Admission:
        """Cast a view that is the newest of its lineage, or whose lineage is about to be hidden.

        A view of another lineage than the sender's is news only if it was never shown here (G3).
        Otherwise it is history, cast only before a message that this site lacks (G5).
        """
        remote, view = self._state.remotes.get(peer), frame.view
        stays = (peer, view.lineage) not in self._going_down
        if remote is not None and stays and not remote.is_news(view):
            return Admission.DUPLICATE
        self._history.pop((peer, lineage), None)
        if remote is not None and lineage != view.lineage and remote.has_shown(view):
            self._history[peer, lineage] = frame
            return Admission.DUPLICATE
        self._injector.cast(frame)
        return Admission.NEXT

    def _number(self, site: str, origin: Address) -> int:
        """Return an origin's last number cast or admitted.

        `bound` forgets only admitted numbers here.
        """
        remote = self._state.remotes.get(site)
        admitted = 0 if remote is None else remote.admitted.get(origin, 0)
        return max(self._reached.get(site, {}).get(origin, 0), admitted)

    def _raise(self, site: str, origin: Address, n: int) -> None:
        reached = self._reached.setdefault(site, {})
        reached.pop(origin, None)
        reached[origin] = n
        bound(reached)
