"""Retention: for which sites the stream is held, even if members are configured differently.

The buffer is the same at every member, so this list is replicated, and only the entry `HeldFor`
changes it. It is the union of the living members' configurations. A member that differs notifies
the coordinator (`Configured`). The coordinator adds a missing site at once. It removes a site that
no member of its view has had for `budget_age_s`: a wrong configuration looks like the first new
one.
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.events import Misconfigured
from relay.replica.entries import Configured, HeldFor
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Down, Effect, Up
from sitestack.wire.schema import ADDRESSES_MAX


class Retention:
    """A member's part in the list.

    Bound: one differing configuration per member, at most `ADDRESSES_MAX`.
    """

    def __init__(self, me: Address, peers: Iterable[str], state: ReplicatedState) -> None:
        self._me = me
        self._forget_s = state.buffer.config.budget_age_s
        self._peers = tuple(sorted(peers))
        self._state = state
        self._others: dict[Address, tuple[str, ...]] = {}
        #: The list at the last comparison.
        self._compared = self._peers
        #: Sites on the list that no member of the view has configured, and since when (s).
        self._unwanted: dict[str, float] = {}
        self._cast: HeldFor | None = None
        #: When (s) `due` must be called to remove a site; None without one.
        self.next_due: float | None = None

    def installed(self, view: View) -> list[Effect]:
        self._others = {member: sites for member, sites in self._others.items() if member in view.members}
        return self.compare()

    def compare(self) -> list[Effect]:
        """Report a difference to the coordinator, and once per list to the operator."""
        sites, view = self._state.sites, self._state.view
        if sites == self._peers or view is None:
            self._compared = sites
            return []
        effects: list[Effect] = []
        if view.coordinator != self._me:
            effects.append(Down(Frame(self._me, view.coordinator, (Configured(self._peers),))))
        if sites != self._compared:
            effects.append(Up(Misconfigured(self._state.site, _sentence(self._peers, sites))))
        self._compared = sites
        return effects

    def change(self, peers: Iterable[str]) -> list[Effect]:
        """Adopt these configured sites and report them to the coordinator."""
        self._peers = tuple(sorted(peers))
        view = self._state.view
        if view is None or view.coordinator == self._me:
            return []
        return [Down(Frame(self._me, view.coordinator, (Configured(self._peers),)))]

    def heard(self, member: Address, entry: Configured) -> None:
        if member in self._others or len(self._others) < ADDRESSES_MAX:
            self._others[member] = entry.sites

    def start_over(self) -> None:
        """Begin to relay, or restart after a merge, which may lose a cast entry."""
        self._cast = None
        self._unwanted.clear()
        self.next_due = None

    def due(self, now: float) -> HeldFor | None:
        """Return the entry to cast now, or None."""
        sites = self._state.sites
        if self._peers == sites and not (self._others or self._unwanted or self._cast):
            return None
        entry = self._entry(sites, now)
        self.next_due = None if self._cast is not None or not self._unwanted else min(self._unwanted.values()) + self._forget_s
        return entry

    def _entry(self, sites: tuple[str, ...], now: float) -> HeldFor | None:
        wanted = self._wanted()
        self._unwanted = {site: self._unwanted.get(site, now) for site in sites if site not in wanted}
        kept = [site for site, since in self._unwanted.items() if now < since + self._forget_s]
        entry = HeldFor(tuple(sorted([*wanted, *kept])))
        if entry.sites == sites and self._cast in (None, entry):
            self._cast = None
            return None
        if entry == self._cast:
            return None
        self._cast = entry
        return entry

    def _wanted(self) -> dict[str, None]:
        assert self._state.view is not None
        wanted = dict.fromkeys(self._peers)
        for member in self._state.view.members:
            if member != self._me:
                wanted.update(dict.fromkeys(self._others.get(member, self._state.sites)))
        return wanted


def _sentence(mine: tuple[str, ...], held: tuple[str, ...]) -> str:
    return (
        f"This member is configured to be linked to {_names(mine)}, its site to {_names(held)}: "
        "all members of a site must have the same relay.bridge.peers and via."
    )


def _names(sites: tuple[str, ...]) -> str:
    return " and ".join([repr(site) for site in sites]) or "no other site"
