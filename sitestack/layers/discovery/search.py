"""One search for members: how long it lasts, and the processes that have answered so far.

A helper of discovery, not a layer.
"""

from __future__ import annotations

from sitestack.model.address import Address
from sitestack.model.address_cache import Contact
from sitestack.model.events import Found, OtherParameters, Peer
from sitestack.model.view import ViewId


class Search:
    """Ends at `until`, or soon after a coordinator has answered for itself, which gives others a moment to answer too."""

    def __init__(self, now: float, join_wait_s: float, settle_s: float, peers_max: int) -> None:
        self.until = now + join_wait_s
        self.ask_at = now
        self.peers_max = peers_max
        self._settle_s = settle_s
        self._peers: dict[Address, tuple[int, Peer]] = {}
        self._refused: OtherParameters | None = None

    def deadline(self) -> float:
        return min(self.until, self.ask_at)

    def heard(self, contact: Contact, coordinator: Address | None, view: ViewId | None, now: float) -> bool:
        """Note what a process says of itself; the newest version counts. False when there is no room for one more process."""
        known = self._peers.get(contact.address)
        if known is None and len(self._peers) >= self.peers_max:
            return False
        if known is None or known[0] < contact.version:
            peer = Peer(contact.address, contact.name, coordinator, view)
            self._peers[contact.address] = (contact.version, peer)
        if coordinator == contact.address:
            self.until = min(self.until, now + self._settle_s)
        return True

    def refuse(self, other: OtherParameters) -> None:
        """Note that there is a site already whose parameters differ from this process's."""
        self._refused = other

    def forget(self, member: Address) -> None:
        """Remove a member that has left during the search."""
        self._peers.pop(member, None)

    def outcome(self) -> Found | OtherParameters:
        """The processes that answered; or, when only a site with other parameters was found, the refusal."""
        peers = self.peers()
        if self._refused is not None and all(peer.coordinator is None for peer in peers):
            return self._refused
        return Found(peers)

    def peers(self) -> tuple[Peer, ...]:
        """All processes that answered, in order of address."""
        return tuple([self._peers[member][1] for member in sorted(self._peers)])
