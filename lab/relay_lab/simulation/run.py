"""Runs one plan: form the sites, send and inject faults, heal, let everything settle, check every
promise.

Safety under faults, then liveness with none. The checkers read the journals of the simulated
processes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from relay.events import SwitchSite
from relay.gateway.config import GatewayConfig
from relay.layer import RelayConfig
from relay.site_state.config import SiteStateConfig, SiteStateSettings
from relay_lab.sim import network_faults
from relay_lab.sim.lies import LIAR
from relay_lab.sim.process import Process
from relay_lab.sim.tasks import Tasks
from relay_lab.sim.tcp_streams import Slowness
from relay_lab.sim.world import World
from relay_lab.simulation.liar import Liar
from relay_lab.simulation.liveness import WHOLE_S_MAX
from relay_lab.simulation.nemesis import Nemesis
from relay_lab.simulation.plan import LOAD_S, Plan
from relay_lab.simulation.process import BRIDGE_PORT, RelayProcess, relay_maker, with_short_ids, with_small_bounds
from relay_lab.simulation.verdict import LOCKS_S_MAX, SeedVerdict, unsettled
from sitestack.config import SiteConfig
from sitestack.layers.batching import BatchingConfig
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.address import Physical, ProxyUUID

#: Virtual seconds for the sites to form, with the plan's losses already on.
FORM_S = 40.0
#: Virtual seconds for everything to settle once all faults are healed: failure detection, merging, replay.
SETTLE_S = 60.0
#: Virtual seconds in which maps that have missed writes become equal: a few repairs.
MAPS_S_MAX = 60.0
#: Virtual seconds for acknowledgements and trims to drain after everything looks settled.
DRAIN_S = 3.0
#: Virtual seconds after which every queue is at rest (B3).
REST_S = 130.0
#: The host of a lying site.
LIAR_HOST = Physical("10.250.0.1", 7800)
#: Bytes of a state that travel at a time.
STATE_BYTES = 2_000
#: Virtual seconds between two checks whether a phase has ended.
ASK_S = 0.25


@dataclass(frozen=True, slots=True)
class SeedResult:
    seed: int
    violations: tuple[str, ...]
    #: How often each fault and each reason of a drop occurred.
    covered: dict[str, int]
    trace_hash: str


class SeedRun:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(f"run {plan.seed}")
        self.violations: list[str] = []
        form = "fd00::{}:{}" if plan.ipv6 else "10.{}.0.{}"
        hosts = {
            name: [Physical(form.format(site, n + 1), 7800) for n in range(count)]
            for site, (name, count) in enumerate(plan.sites, 1)
        }
        self.hosts = hosts
        configs = {site: _configs(plan, site, hosts) for site in hosts}
        self.world = World(plan.seed, relay_maker(configs, plan))
        self._liar: Liar | None = None
        self.nemesis = Nemesis(plan, self.world, hosts, configs, self.rng)
        self.world.streams.slow += _lines(plan, hosts)
        self.covered = self.nemesis.covered
        self._verdict = SeedVerdict(plan, self.world, self.nemesis)
        #: Processes that are still to be started for the first time.
        self._awaited = 0

    def result(self) -> SeedResult:
        try:
            self._carry_out()
        finally:
            if self.world.tasks is not None:
                self.world.tasks.close()
        self.covered["link through a router"] += sum(router.spliced for router in self.nemesis.routers.values())
        for process in self.world.processes:
            for reason, count in process.stack.drops.items():
                self.covered[f"drop {reason}"] += count
        covered = {what: times for what, times in self.covered.items() if times}
        return SeedResult(self.plan.seed, tuple(self.violations), covered, self.world.trace_hash())

    def _carry_out(self) -> None:
        world = self.world
        if self.plan.uses_map or self.plan.has_channels:
            world.tasks = Tasks(world.schedule, self.plan.seed)
        self._rates()
        late = None if self.plan.late is None else self.plan.late[0]
        for site, hosts in self.hosts.items():
            for number, host in enumerate(hosts):
                if site != late:
                    self._awaited += 1
                    world.schedule.after(self.rng.random(), partial(self._spawn, site, f"{site[0]}{number}", host))
        world.run(1.0)
        if not self._wait(self.converged, FORM_S):
            self.violations.append(f"FORM did not form in {FORM_S} s: {self._stand()}")
            return
        self._verdict.formed()
        if self.plan.has_liar:
            self._liar = self._make_liar()
        self.nemesis.begin()
        world.run(LOAD_S)
        if self.plan.lasting_s:
            self.covered["faults that outlast the load"] += 1
            world.run(self.plan.lasting_s)
        self._settle()
        self.violations += self._verdict.violations(settled=not self.violations)

    def _make_liar(self) -> Liar:
        """Link the lying site to the sites that are its peers."""
        near = [site for site in self.hosts if not self.plan.connections or site == self.plan.liar_peer]
        bridges = [Physical(host.host, BRIDGE_PORT) for site in near for host in self.hosts[site]]
        return Liar(self.world, LIAR, LIAR_HOST, bridges, list(self.hosts))

    def _spawn(self, site: str, name: str, host: Physical) -> None:
        self._awaited -= 1
        self.world.spawn(site, name, host)

    def _rates(self) -> None:
        plan = self.plan
        rules = {
            network_faults.loss(plan.loss): plan.loss,
            network_faults.corruption(plan.corruption): plan.corruption,
            network_faults.duplication(plan.duplication, plan.duplication_late_s): plan.duplication,
            network_faults.reordering(plan.reordering, plan.reordering_late_s): plan.reordering,
        }
        self.world.network.faults += [rule for rule, rate in rules.items() if rate]

    def _complete_sites(self) -> None:
        """Start members at the free hosts: a site without a majority needs all of them."""
        for site, hosts in self.hosts.items():
            taken = {process.physical.host for process in self.world.alive(site)}
            for number, host in enumerate(hosts):
                if host.host not in taken:
                    self.world.spawn(site, f"{site[0]}{number}", host)

    def _order_online(self) -> None:
        """Take all sites online at each member, as an operator who repeats the order."""
        for process in self.world.alive():
            assert isinstance(process, RelayProcess)
            for site in process.relay.state.switches.offline:
                self.covered["site offline by rule"] += 1
                process.input(SwitchSite(site, False))

    def _settle(self) -> None:
        if self._liar is not None:
            self._liar.stop()
        self.world.network.faults.clear()
        self.world.network.cuts.clear()
        self.world.streams.cuts.clear()
        for process in self.world.alive():
            process.resume()
        self.nemesis.grey.heal()
        self._verdict.healed()
        # Late copies show a dead process as alive, and hinder the view without it.
        healed = self.world.now + (self.plan.duplication_late_s if self.plan.duplication else 0.0)
        self._wait(self._whole, healed + WHOLE_S_MAX - self.world.now)
        self._verdict.liveness.probe(self.world.now)
        if not self._wait(self.quiet, healed + SETTLE_S - self.world.now):
            self.violations.append(f"SETTLE did not settle in {SETTLE_S} s: {self._stand()}")
        self._wait(lambda: not self._verdict.waiting_locks(), LOCKS_S_MAX)
        self.violations += self._verdict.waiting_locks()
        self._wait(lambda: not (self._verdict.writes_wait() or self._verdict.differing_maps()), MAPS_S_MAX)
        self.world.run(DRAIN_S)
        if not self.violations:
            self._wait(lambda: not any(map(unsettled, self.world.alive())), REST_S + self.plan.duplication_late_s)

    def _whole(self) -> bool:
        """Return whether nothing waits any more.

        A site that needs a majority, or for which others wait, is completed again.
        """
        if self.plan.when_split == "majority" or self.plan.when_down == "wait":
            self._complete_sites()
        if self.plan.offline_after_s is not None:
            self._order_online()
        return self.quiet() and not any(process.held_back for process in self.world.alive())

    def _wait(self, reached: Callable[[], bool], seconds: float) -> bool:
        end = self.world.now + seconds
        while not reached():
            if self.world.now >= end:
                return False
            self.world.run(ASK_S)
        return True

    def converged(self) -> bool:
        """Return whether all living processes have one global view, with all living processes in it."""
        world = self.world
        if self._awaited or self.nemesis.restarts:
            return False
        living = world.alive()
        everybody = {ProxyUUID(p.local.address, p.local.site) for p in living}
        return all(
            isinstance(p, RelayProcess)
            and p.global_view is not None
            and {each for each in p.global_view.members if each.site != LIAR} == everybody
            for p in living
        )

    def quiet(self) -> bool:
        """Return whether the processes have converged, and nothing that they sent or hold waits for anything."""
        living = [p for p in self.world.alive() if isinstance(p, RelayProcess)]
        return (
            self.converged()
            and all(_idle(p) for p in living)
            and all(p.admitted_by(q) for p in living for q in living if p.local.site != q.local.site)
        )

    def _stand(self) -> str:
        return "; ".join(
            f"{p.local.site}/{p.local.name} {p.local.address} view {None if p.view is None else (p.view.id, p.view.members)}"
            f" global {None if not isinstance(p, RelayProcess) or p.global_view is None else len(p.global_view.members)}"
            f" idle {_idle(p)}"
            for p in self.world.alive()
        )


def _idle(process: Process) -> bool:
    """Return whether nothing that this process sent or holds for others waits for anything."""
    if process.batching.levels()["credit_bytes"].now:
        return False
    return not isinstance(process, RelayProcess) or not process.expects_answers()


def _lines(plan: Plan, hosts: dict[str, list[Physical]]) -> list[tuple[frozenset[str], frozenset[str], Slowness]]:
    of = {site: frozenset(host.host for host in places) for site, places in hosts.items()}
    everybody = frozenset[str]().union(*of.values())
    if plan.by_router:
        everybody |= {plan.router_between(*pair).host for pair in plan.pairs()}
    late = [(everybody, everybody, Slowness(plan.wan_delay_s))] if plan.wan_delay_s else []
    for one, other, rate in plan.lines:  # a router is near the second one
        far = of[other] | {plan.router_between(one, other).host}
        late += [(of[one], far, Slowness(0.0, rate)), (far, of[one], Slowness(0.0, rate))]
    return late


def _configs(plan: Plan, site: str, hosts: dict[str, list[Physical]]) -> tuple[SiteConfig, RelayConfig]:
    if plan.has_liar:
        hosts = {**hosts, LIAR: [LIAR_HOST]}
        connections = (*plan.connections, (plan.liar_peer, LIAR)) if plan.connections else ()
        plan = replace(plan, sites=(*plan.sites, (LIAR, 1)), connections=connections)
    routes = plan.routes_of(site)
    peers = {
        other: (plan.router_between(site, other),)
        if plan.by_router and other != LIAR
        else tuple([Physical(host.host, BRIDGE_PORT) for host in theirs])
        for other, theirs in hosts.items()
        if other != site and other not in routes.via
    }
    base = SiteConfig(site=site)
    config = replace(
        base,
        order=plan.order,
        agreement=plan.agreement,
        channel=replace(base.channel, backlog_policy=plan.backlog_policy),
        transport=replace(base.transport, multicast=plan.multicast),
        discovery=base.discovery if plan.multicast else replace(base.discovery, initial_hosts=tuple(hosts[site])),
    )
    if plan.when_split == "majority" and len(hosts[site]) > 1:
        majority = replace(base.membership, when_split="majority", members=len(hosts[site]))
        config = replace(config, membership=majority)
    protocols = config.protocols
    batching = BatchingConfig(latency_target_s=plan.latency_target_s, keys_share_batches=plan.keys == "shared")
    batching = replace(batching, **_given(plan, "batch_count_max", "batch_bytes_max"))
    flow_control = replace(protocols.flow_control, **_given(plan, "window_bytes", "backlog_bytes_max"))
    transfer = StateTransferConfig(chunk_bytes_max=STATE_BYTES)
    protocols = replace(protocols, batching=batching, flow_control=flow_control, state_transfer=transfer)
    config = with_short_ids(replace(config, protocols=protocols), plan.short_ids != "nobody")
    others = tuple([other for other in hosts if other not in (site, LIAR)])
    if plan.has_small_bounds:
        config = with_small_bounds(config)
    after_s = {} if plan.offline_after_s is None else dict.fromkeys(others, plan.offline_after_s)
    gateway = GatewayConfig(
        peers=peers, link=plan.link, when_down=dict.fromkeys(others, plan.when_down), offline_after_s=after_s
    )
    unknown = () if plan.late is None or not plan.adds_late else plan.late[:1]
    sources = tuple([other for other in others if other not in unknown]) if plan.state == "across" else ()
    state = SiteStateConfig(SiteStateSettings(sources), transfer, piece_bytes_max=STATE_BYTES)
    return config, RelayConfig(gateway=gateway, buffer=plan.budget, routes=routes, site_state=state)


def _given(plan: Plan, *fields: str) -> dict[str, Any]:
    """Return the fields that the plan does not leave to the product."""
    return {field: value for field in fields if (value := getattr(plan, field)) is not None}
