"""Retention: which other sites this one's stream is held for, where members do not all have the same configuration.

The buffer is the same at every member, so this is replicated as well (`ReplicatedState.sites`): a founder begins with its own
peers, a joiner with those of the state that it is handed, and only `HeldFor`, an entry of the stream, changes them. So a member
that was started without a peer holds what the others hold, relays what it can, and drops nothing that the site which it does
not know still lacks.

What is held for is the union over the living members: whoever has another list than the site says so to the coordinator
(`Configured`), and who says nothing has all of it. The coordinator adds what is missing at once. It takes a site out when for
as long as the budget's age no member of its view has had that one: a lone member with the wrong list cannot be told from the
first one of a new configuration, and what is held goes by age meanwhile. So when a site is removed from the configuration, its
entries stay in the buffer, within the budget, until `budget_age_s` after the last member was restarted with the new one.
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
    """What this member has to say of the list. Bound: a list per member of the view, and of those who are ahead of it."""

    def __init__(self, me: Address, peers: Iterable[str], state: ReplicatedState) -> None:
        self._me = me
        self._forget_s = state.buffer.config.budget_age_s
        self._peers = tuple(sorted(peers))
        self._state = state
        #: The lists of the other members that differed from what was held for when they said so.
        self._others: dict[Address, tuple[str, ...]] = {}
        #: What was held for when the operator last heard of it.
        self._compared = self._peers
        #: Since when no member of the view has a site that is held for.
        self._unwanted: dict[str, float] = {}
        #: The entry that was put into the stream and has not come back through it.
        self._cast: HeldFor | None = None

    # -- every member --------------------------------------------------------------------------------------------------

    def installed(self, view: View) -> list[Effect]:
        """A view of this site is installed: tell its coordinator, should this member's list differ."""
        self._others = {member: sites for member, sites in self._others.items() if member in view.members}
        return self.compare()

    def compare(self) -> list[Effect]:
        """Say to the coordinator that this member has another list than the site; and to the operator, once for each list."""
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

    def heard(self, member: Address, entry: Configured) -> None:
        """Another member has told the coordinator its list."""
        if member in self._others or len(self._others) < ADDRESSES_MAX:
            self._others[member] = entry.sites

    # -- the coordinator -----------------------------------------------------------------------------------------------

    def start_over(self) -> None:
        """This member begins to relay, or a split site has merged: an entry on its way may have been lost with the old view."""
        self._cast = None
        self._unwanted.clear()

    def due(self, now: float) -> HeldFor | None:
        """The list that the stream has to be told now; None when it is right, or on its way."""
        sites, wanted = self._state.sites, self._wanted()
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
        """The sites that some member of the view has among its peers."""
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
