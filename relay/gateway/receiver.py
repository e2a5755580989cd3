"""LinkReceiver: takes the frames that arrive on the links into this site's stream.

The replicated state knows what has been admitted. The receiver also knows what the coordinator has cast and not yet seen
delivered, so that a replay on a second link is recognised at once (R6).
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
    """The numbers reached by what was cast, per site and origin. Bounds: `ORIGINS_MAX` per site; a view for each link; the
    injector's bytes.
    """

    def __init__(self, site: str, state: ReplicatedState, injector: Injector, going_down: Container[Key]) -> None:
        self._site = site
        self._state = state
        self._injector = injector
        self._going_down = going_down
        self._reached: dict[str, dict[Address, int]] = {}
        #: Per link, the last view of history that was held back: it goes before the first message that is lacked here.
        self._history: dict[Key, RemoteView] = {}

    def forget(self, link: Key) -> None:
        """This link begins, or has ended."""
        self._history.pop(link, None)

    def reset(self, site: str) -> None:
        """A cast batch of this site was not admitted: begin again from the replicated state."""
        self._reached.pop(site, None)

    def clear(self) -> None:
        """Forget all that was cast: this member stops relaying, or the parts of its site have merged."""
        self._reached.clear()
        self._history.clear()

    def admit(self, peer: str, frame: Header, lineage: ViewId) -> Admission:
        """RELAY's FORWARD and VIEW: cast a frame of the peer's site, if it is the next one of its origin.

        `lineage`: of the relay that speaks.
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
        """Cast a batch if it is the next one."""
        batch = frame.batch
        if self._site in frame.visited:
            return Admission.DUPLICATE  # the batch has been to this site already, whatever its numbers say (X6)
        answer = admission(self._number(peer, batch.origin), batch.first, batch.last)
        if answer is Admission.NEXT:
            self._raise(peer, batch.origin, batch.last)
            if (view := self._history.pop((peer, lineage), None)) is not None:
                self._injector.cast(view)
            self._injector.cast(Relayed((*frame.visited, self._site)), batch)
        return answer

    def _gap(self, peer: str, frame: RemoteGap) -> Admission:
        """Cast a gap if it begins at or below the next number."""
        number = self._number(peer, frame.origin)
        # A gap may overlap what has been admitted: only the numbers above that count.
        answer = admission(number, max(frame.first, number + 1), frame.last)
        if answer is Admission.NEXT:
            self._raise(peer, frame.origin, frame.last)
            self._injector.cast(frame)
        return answer

    def _baseline(self, peer: str, frame: RemoteBaseline) -> Admission:
        """Cast a baseline; it takes effect only for origins that are not known here yet."""
        for origin, n in frame.origins.items():
            if n > 0 and not self._number(peer, origin):
                self._raise(peer, origin, n)
        self._injector.cast(frame)
        return Admission.NEXT

    def _view(self, peer: str, frame: RemoteView, lineage: ViewId) -> Admission:
        """Cast a view of the peer's site if it is the newest of its lineage, or the site is about to leave the global view.

        Of another lineage than the one that speaks it is news only if it was never shown here (G3). What was is history, told
        because a third site lacks it, and cast only if this one lacks a message that comes after it (G5).
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
        """The last number of an origin that was cast or admitted. `bound` forgets numbers here only after their admission."""
        remote = self._state.remotes.get(site)
        admitted = 0 if remote is None else remote.admitted.get(origin, 0)
        return max(self._reached.get(site, {}).get(origin, 0), admitted)

    def _raise(self, site: str, origin: Address, n: int) -> None:
        reached = self._reached.setdefault(site, {})
        reached.pop(origin, None)
        reached[origin] = n
        bound(reached)
