"""Switches: sites that an operator here has taken offline. Replicated; changed by `SiteSwitch` alone.

After the merge of a split site the switch used more often counts, and of equal ones the offline
one.
"""

from __future__ import annotations

from collections.abc import Collection

from relay.replica.entries import RelayState, SiteSwitch, SwitchedState, SwitchState
from relay.replica.gone import Run
from relay.replica.vectors import raise_to
from sitestack.model.address import Address
from sitestack.model.gap import GapReason


class Switches:
    """Bound: one for each site held for, with the numbers of `ORIGINS_MAX` origins."""

    def __init__(self) -> None:
        #: always this object, which other parts refer to
        self.offline: dict[str, None] = {}
        self._switches: dict[str, SwitchState] = {}

    def apply(self, entry: SiteSwitch, produced: dict[Address, int]) -> bool:
        """Note that a site is offline or online; return False if it is so already."""
        if (entry.site in self.offline) is entry.is_offline:
            return False
        known = self._switches.get(entry.site, SwitchState(entry.site, 0, False, {}))
        until = known.until if entry.is_offline else dict(produced)
        self._switches[entry.site] = SwitchState(entry.site, known.number + 1, entry.is_offline, until)
        self._note_offline()
        return True

    def keep(self, sites: Collection[str]) -> None:
        self._switches = {site: each for site, each in self._switches.items() if site in sites}
        self._note_offline()

    def explain(self, site: str, origin: Address, gone: Run, reason: GapReason) -> list[tuple[Run, GapReason]]:
        """Split a gap for a site: numbers not held while it was offline have that reason."""
        switch = self._switches.get(site)
        until = 0 if switch is None else switch.until.get(origin, 0)
        if reason is not GapReason.NOT_HELD or until < gone.first:
            return [(gone, reason)]
        if gone.last <= until:
            return [(gone, GapReason.OFFLINE)]
        return [(Run(gone.first, until), GapReason.OFFLINE), (Run(until + 1, gone.last), reason)]

    def give(self) -> tuple[SwitchState, ...]:
        return tuple(self._switches.values())

    def adopt(self, switches: tuple[SwitchState, ...]) -> None:
        self._switches = {each.site: each for each in switches}
        self._note_offline()

    def _note_offline(self) -> None:
        self.offline.clear()
        self.offline.update({site: None for site, each in self._switches.items() if each.is_offline})


def switches_of(state: RelayState) -> tuple[SwitchState, ...]:
    return state.switches if isinstance(state, SwitchedState) else ()


def merge_switches(one: tuple[SwitchState, ...], other: tuple[SwitchState, ...]) -> tuple[SwitchState, ...]:
    """Return the switches after the merge of two parts of a site; their order does not matter."""
    merged: dict[str, SwitchState] = {}
    for each in (*one, *other):
        known = merged.get(each.site, each)
        last = max(known, each, key=lambda switch: (switch.number, switch.is_offline))
        until = dict(known.until)
        raise_to(until, each.until)
        merged[each.site] = SwitchState(each.site, last.number, last.is_offline, until)
    return tuple([merged[site] for site in sorted(merged)])
