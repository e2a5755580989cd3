"""One search for members: its duration, and the processes that have answered so far."""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.address_cache import Contact
from sitestack.model.events import Found, OtherParameters, Peer
from sitestack.model.view import ViewId


class Search:
    """Ends at `until`, or soon after a coordinator has answered."""

    def __init__(self, now: float, join_wait_s: float, settle_s: float, peers_max: int) -> None:
        self.until = now + join_wait_s
        self.ask_at = now
        self.peers_max = peers_max
        self._settle_s = settle_s
        self._peers: dict[Address, tuple[int, Peer]] = {}
        self.refused: OtherParameters | None = None

    def deadline(self) -> float:
        return min(self.until, self.ask_at)

    def heard(self, contact: Contact, coordinator: Address | None, view: ViewId | None, now: float) -> bool:
        """Note a process's statement; return False without room."""
        known = self._peers.get(contact.address)
        if known is None and len(self._peers) >= self.peers_max:
            return False
        if known is None or known[0] < contact.version:
            self._peers[contact.address] = (contact.version, Peer(contact.address, coordinator, view))
        if coordinator == contact.address:
            self.until = min(self.until, now + self._settle_s)
        return True

    def forget(self, member: Address) -> None:
        self._peers.pop(member, None)

    def outcome(self) -> Found | OtherParameters:
        """Return the processes that answered, or the refusal if only other parameters were found."""
        peers = tuple([self._peers[member][1] for member in sorted(self._peers)])
        if self.refused is not None and all(peer.coordinator is None for peer in peers):
            return self.refused
        return Found(peers)
