"""Reloads of changed configuration files by running members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

from relay.events import Budget, Peers
from relay.layer import RelayConfig
from relay.replica.held_entries import ENTRIES_MAX
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.faults import PeerRemoved
from relay_lab.simulation.plan import Plan
from sitestack.config import SiteConfig
from sitestack.model.events import Event

#: A multiple of the budget -> when it is reloaded (s).
BUDGETS = {2: 8.0, 1: 18.0}
#: Seconds between the reloads of two members.
APART_S = 0.1

Configs = dict[str, tuple[SiteConfig, RelayConfig]]


class Reloads:
    """Changes files, and lets the living members reload them."""

    def __init__(self, plan: Plan, world: World, configs: Configs, covered: Counter[str]) -> None:
        self._plan = plan
        self._world = world
        self._configs = configs
        self._covered = covered
        self._complete = {site: relay.gateway.peers for site, (_, relay) in configs.items()}
        #: Site -> its removed peers, each as often as faults remove it.
        self._removed: dict[str, Counter[str]] = {site: Counter() for site in configs}
        #: Site, absent peer -> from when to when (s).
        self.lacking: dict[tuple[str, str], list[tuple[float, float]]] = {}
        if plan.late is not None and plan.adds_late:
            for site in configs:
                self._remove(site, plan.late[0])

    def begin(self) -> None:
        schedule = self._world.schedule
        for factor, at in BUDGETS.items() if self._plan.reloads_budget else ():
            schedule.after(at, partial(self._change_budget, factor))
        if self._plan.late is not None and self._plan.adds_late:
            late, at = self._plan.late
            for number, site in enumerate(each for each in self._configs if each != late):
                schedule.after(at + number, partial(self._add, site, late, APART_S))
                self._note_lack(site, late, -inf, self._world.now + at + number, APART_S)

    def remove_peer(self, fault: PeerRemoved) -> None:
        self._covered["peer removed"] += 1
        self._remove(fault.site, fault.peer)
        self._reload(fault.site, fault.apart_s, partial(self._peers, fault.site))
        self._world.schedule.after(fault.length, partial(self._add, fault.site, fault.peer, fault.apart_s))
        now = self._world.now
        self._note_lack(fault.site, fault.peer, now, now + fault.length, fault.apart_s)

    def _note_lack(self, site: str, peer: str, since: float, until: float, apart_s: float) -> None:
        """`until`: when the first member has the peer again."""
        members = dict(self._plan.sites)[site]
        self.lacking.setdefault((site, peer), []).append((since, until + apart_s * members))

    def _change_budget(self, factor: int) -> None:
        self._covered["budget reloaded"] += 1
        budget = self._plan.budget
        changed = Budget(min(factor * budget.budget_entries, ENTRIES_MAX), factor * budget.budget_bytes)
        self._reload(None, APART_S, lambda: changed)

    def _remove(self, site: str, peer: str) -> None:
        self._removed[site][peer] += 1
        self._change_file(site)

    def _add(self, site: str, peer: str, apart_s: float) -> None:
        self._covered["peer added"] += 1
        self._removed[site][peer] -= 1
        self._change_file(site)
        self._reload(site, apart_s, partial(self._peers, site))

    def _change_file(self, site: str) -> None:
        config, relay = self._configs[site]
        self._configs[site] = config, replace(relay, gateway=replace(relay.gateway, peers=self._peers(site).places))

    def _peers(self, site: str) -> Peers:
        return Peers({peer: places for peer, places in self._complete[site].items() if not self._removed[site][peer]})

    def _reload(self, site: str | None, apart_s: float, changed: Callable[[], Event]) -> None:
        """`site` None: all sites."""
        for number, process in enumerate(self._world.alive(site)):
            self._world.schedule.after(apart_s * number, partial(_reread, process, changed))


def _reread(process: Process, changed: Callable[[], Event]) -> None:
    process.input(changed())
