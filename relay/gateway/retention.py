"""Retention: for which other sites this site's stream is held, although members may be configured differently.

The buffer is the same at every member, so this list of sites is replicated as well (`ReplicatedState.sites`). A founder begins
with its own peers, a joiner with the list in the state that it is handed, and only `HeldFor`, an entry of the stream, changes
the list. So a member that was started without one of the peers holds what the others hold, relays what it can, and drops
nothing that the site it does not know still lacks.

The list is the union of the living members' configurations. A member whose configuration differs from the list tells the
coordinator (`Configured`); a member that says nothing agrees with the list. The coordinator adds a missing site at once. It
takes out a site that for `budget_age_s` no member of its view has had: a single member with a wrong configuration cannot be
told from the first one with a new configuration, and entries are dropped by age meanwhile. So after a site was removed from the
configuration, entries stay for it, within the budget, until `budget_age_s` after the last member was restarted.
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
    """A member's part in keeping the list. Bound: a configuration per member that differs, at most `ADDRESSES_MAX`."""

    def __init__(self, me: Address, peers: Iterable[str], state: ReplicatedState) -> None:
        self._me = me
        self._forget_s = state.buffer.config.budget_age_s
        self._peers = tuple(sorted(peers))
        self._state = state
        #: The configurations of other members that differed from the list when they said so.
        self._others: dict[Address, tuple[str, ...]] = {}
        #: The list with which this member's configuration was compared last: the operator hears of a difference once per list.
        self._compared = self._peers
        #: Sites on the list that no member of the view has in its configuration, and since when (s).
        self._unwanted: dict[str, float] = {}
        #: The entry that was cast and has not come back through the stream.
        self._cast: HeldFor | None = None

    # -- every member --------------------------------------------------------------------------------------------------

    def installed(self, view: View) -> list[Effect]:
        """A view of this site is installed: tell its coordinator, should this member's configuration differ from the list."""
        self._others = {member: sites for member, sites in self._others.items() if member in view.members}
        return self.compare()

    def compare(self) -> list[Effect]:
        """Should this member's configuration differ from the list, tell the coordinator; and once per list the operator."""
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
        """This member's configuration names these sites from now on: tell the coordinator, whatever it was told before."""
        self._peers = tuple(sorted(peers))
        view = self._state.view
        if view is None or view.coordinator == self._me:
            return []
        return [Down(Frame(self._me, view.coordinator, (Configured(self._peers),)))]

    def heard(self, member: Address, entry: Configured) -> None:
        """Another member has told this coordinator its configuration."""
        if member in self._others or len(self._others) < ADDRESSES_MAX:
            self._others[member] = entry.sites

    # -- the coordinator -----------------------------------------------------------------------------------------------

    def start_over(self) -> None:
        """This member begins to relay, or its site has merged: an entry that was cast may be lost with the old view."""
        self._cast = None
        self._unwanted.clear()

    def due(self, now: float) -> HeldFor | None:
        """The entry to cast now; None when the list is right, or the entry that corrects it was cast."""
        sites = self._state.sites
        if self._peers == sites and not (self._others or self._unwanted or self._cast):
            return None
        wanted = self._wanted()
        self._unwanted = {site: self._unwanted.get(site, now) for site in sites if site not in wanted}
        kept = [site for site, since in self._unwanted.items() if now < since + self._forget_s]
        entry = HeldFor(tuple(sorted([*wanted, *kept])))
        if entry.sites == sites:
            self._cast = None
            return None
        if entry == self._cast:
            return None
        self._cast = entry
        return entry

    def _wanted(self) -> dict[str, None]:
        """The sites that at least one member of the view has in its configuration."""
        assert self._state.view is not None
        wanted = dict.fromkeys(self._peers)
        for member in self._state.view.members:
            if member != self._me:
                wanted.update(dict.fromkeys(self._others.get(member, self._state.sites)))
        return wanted

    def deadline(self) -> float | None:
        if self._cast is not None:
            return None
        return min([since + self._forget_s for since in self._unwanted.values()], default=None)


def _sentence(mine: tuple[str, ...], held: tuple[str, ...]) -> str:
    return (
        f"This member is configured to be linked to {_names(mine)}, its site to {_names(held)}: "
        "all members of a site must have the same relay.bridge.peers and via."
    )


def _names(sites: tuple[str, ...]) -> str:
    return " and ".join([repr(site) for site in sites]) or "no other site"
