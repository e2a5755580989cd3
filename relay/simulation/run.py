"""Runs one plan: form the sites, send and disturb, heal, let everything settle, check every promise.

Two phases as in the great simulators: safety under faults, then liveness with none. The checkers read the journals of the
simulated processes, the same records that a real node writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from relay.buffer import BufferConfig
from relay.gateway import GatewayConfig
from relay.layer import RelayConfig
from relay.simulation.plan import TROUBLE_S, Burst, CutStream, Fault, Kill, Leave, Pause, Plan, Split, WanCut
from relay.simulation.process import BRIDGE_PORT, RelayProcess, relay_maker
from sitestack.address import Physical, ProxyUUID
from sitestack.config import SiteConfig
from sitestack.message import Scope
from sitestack.sim import rules
from sitestack.sim.checkers import History, check_all, check_uniform_agreement
from sitestack.sim.process import Process
from sitestack.sim.world import World

#: How long the sites may take to form, with the plan's rates of loss already on.
FORM_S = 40.0
#: How long everything may take to settle once all faults are healed: failure detection, merging, replay (T_q).
SETTLE_S = 60.0
#: After everything looks settled, acknowledgements and trims get this long to drain.
DRAIN_S = 3.0
#: How often it is asked whether a phase has ended.
ASK_S = 0.25


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What came of one seed."""

    seed: int
    violations: tuple[str, ...]
    #: How often each fault and each reason of a drop occurred.
    covered: dict[str, int]
    trace_hash: str
    #: Virtual seconds.
    virtual_s: float


class Run:
    """One plan being carried out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(f"run {plan.seed}")
        self.covered: dict[str, int] = {}
        self.violations: list[str] = []
        #: Processes that are still to be started again.
        self.restarts = 0
        hosts = {
            name: [Physical(f"10.{site}.0.{n + 1}", 7800) for n in range(count)]
            for site, (name, count) in enumerate(plan.sites, 1)
        }
        self.hosts = hosts
        self.world = World(plan.seed, relay_maker({site: _configs(plan, site, hosts) for site in hosts}))

    def result(self) -> SeedResult:
        """Carry the plan out."""
        world = self.world
        self._rates()
        for site, hosts in self.hosts.items():
            for number, host in enumerate(hosts):
                world.schedule.after(self.rng.random(), partial(self._spawn, site, f"{site[0]}{number}", host))
        world.run(1.0)
        if not self._wait(self.converged, FORM_S):
            self.violations.append(f"did not form in {FORM_S} s: {self._stand()}")
        else:
            self._trouble()
            self._settle()
            self._check()
        for process in world.processes:
            for reason, count in process.stack.drops.items():
                self._cover(f"drop {reason}", count)
        return SeedResult(self.plan.seed, tuple(self.violations), self.covered, world.trace_hash(), world.now)

    def _spawn(self, site: str, name: str, host: Physical) -> None:
        self.world.spawn(site, name, host)

    # -- phases ----------------------------------------------------------------------------------------------------

    def _rates(self) -> None:
        plan = self.plan
        network = self.world.fabric.rules
        if plan.loss:
            network.append(self._counting("loss", rules.loss(plan.loss)))
        if plan.corruption:
            network.append(self._counting("corruption", rules.corruption(plan.corruption)))
        if plan.duplication:
            network.append(self._counting("duplication", rules.duplication(plan.duplication, plan.duplication_late_s)))
        if plan.reordering:
            network.append(self._counting("reordering", rules.reordering(plan.reordering, plan.reordering_late_s)))

    def _counting(self, name: str, rule: rules.Rule) -> rules.Rule:
        def counted(packet: rules.Packet, rng: random.Random) -> list[rules.Packet]:
            after = rule(packet, rng)
            if after != [packet]:
                self.covered[name] = self.covered.get(name, 0) + 1
            return after

        return counted

    def _trouble(self) -> None:
        world, plan, start = self.world, self.plan, self.world.now
        for _ in range(plan.messages):
            world.schedule.at(start + self.rng.uniform(0.0, TROUBLE_S), self._send)
        for fault in plan.faults:
            world.schedule.at(start + fault.at, partial(self._strike, fault))
        world.run(TROUBLE_S)

    def _settle(self) -> None:
        self.world.fabric.rules.clear()
        self.world.fabric.cuts.clear()
        self.world.streams.cuts.clear()
        for process in self.world.alive():
            process.resume()
        if not self._wait(self.quiet, SETTLE_S):
            self.violations.append(f"did not settle in {SETTLE_S} s: {self._stand()}")
        self.world.run(DRAIN_S)

    def _wait(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until the condition holds, asked now and then."""
        end = self.world.now + seconds
        while not reached():
            if self.world.now >= end:
                return False
            self.world.run(ASK_S)
        return True

    def _check(self) -> None:
        histories = [History.of(p.records, running=p.alive) for p in self.world.processes]
        settled = not self.violations
        report = check_all(histories, quiescent=settled, total_order=self.plan.order == "total")
        found = list(report.violations)
        if settled and self.plan.agreement == "uniform":
            self._cover("agreement uniform")
            found += check_uniform_agreement(histories)
        self.violations += [f"{v.invariant} {v.where}: {v.what}" for v in found]

    # -- what happens ----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        senders = [p for p in self.world.alive() if p.view is not None and not p.left]
        if not senders:
            return
        sender = self.rng.choice(senders)
        payload = self.rng.randbytes(self.rng.randrange(self.plan.size_max + 1))
        kind = self.rng.random()
        if kind < self.plan.unicast_share:
            target = self._target(sender)
            if target is not None:
                sender.send(payload, Scope.UNICAST, target)
        elif kind < self.plan.unicast_share + self.plan.site_share:
            sender.send(payload, Scope.SITE)
        else:
            sender.send(payload)

    def _target(self, sender: Process) -> object:
        assert isinstance(sender, RelayProcess)
        if sender.global_view is None:
            return None
        target = self.rng.choice(sender.global_view.members)
        return target.original if target.site == sender.local.site else target

    def _strike(self, fault: Fault) -> None:
        world = self.world
        match fault:
            case Kill():
                victim = self._ranked(fault.site, fault.rank)
                if victim is not None:
                    self._cover("kill coordinator" if victim is world.coordinator(fault.site) else "kill member")
                    victim.dies_after = fault.datagrams
                    world.schedule.after(0.3, lambda: self._make_sure(victim))
                    if fault.restart_after is not None:
                        self.restarts += 1
                        world.schedule.after(0.5 + fault.restart_after, lambda: self._restart(victim))
            case Leave():
                leaver = self._ranked(fault.site, fault.rank)
                if leaver is not None and len(world.alive(fault.site)) > 1:
                    self._cover("leave")
                    leaver.leave()
            case CutStream():
                for stream in world.streams.connections():
                    self._cover("cut bridge")
                    stream.cut(self.rng)
            case Split():
                hosts = [host.host for host in self.hosts[fault.site]]
                if len(hosts) > 1:
                    self._cover("split one way" if fault.one_way else "split")
                    self._break(world.fabric.cuts, frozenset(hosts[: fault.hosts]), frozenset(hosts[fault.hosts :]), fault)
            case Pause():
                sleeper = self._ranked(fault.site, fault.rank)
                if sleeper is not None:
                    self._cover("pause")
                    sleeper.pause()
                    world.schedule.after(fault.length, sleeper.resume)
            case WanCut():
                self._cover("wan cut one way" if fault.one_way else "wan cut")
                hosts_of = [frozenset(host.host for host in hosts) for hosts in self.hosts.values()]
                one, other = hosts_of if len(hosts_of) == 2 else self.rng.sample(hosts_of, 2)
                self._break(world.streams.cuts, one, other, fault)
            case Burst():
                self._cover("burst")
                world.fabric.rules.append(rules.burst_loss(world.now, fault.length))

    def _break(
        self, cuts: list[tuple[frozenset[str], frozenset[str]]], a: frozenset[str], b: frozenset[str], fault: Split | WanCut
    ) -> None:
        """Break the route, one way or both, and mend it when it is time."""
        broken = [(a, b)] if fault.one_way else [(a, b), (b, a)]
        cuts += broken
        self.world.schedule.after(fault.length, partial(_mend, cuts, broken))

    def _restart(self, victim: Process) -> None:
        """A new process at the address of a dead one (LA-4), unless another has taken it already."""
        self.restarts -= 1
        if all(p.physical != victim.physical for p in self.world.alive()):
            self._cover("restart")
            self.world.spawn(victim.local.site, victim.local.name, victim.physical)

    def _make_sure(self, victim: Process) -> None:
        """A process that had nothing more to send dies all the same."""
        if victim.alive:
            victim.kill()

    def _ranked(self, site: str, rank: int) -> Process | None:
        coordinator = self.world.coordinator(site)
        if coordinator is None or coordinator.view is None:
            return None
        by_address = {p.local.address: p for p in self.world.alive(site)}
        living = [by_address[m] for m in coordinator.view.members if m in by_address]
        return living[min(rank, len(living) - 1)] if living else None

    # -- where it stands -------------------------------------------------------------------------------------------

    def converged(self) -> bool:
        """Whether every living process has the one global view of all living processes."""
        world = self.world
        if self.restarts or len(world.processes) < sum(len(hosts) for hosts in self.hosts.values()):
            return False
        living = world.alive()
        everybody = {ProxyUUID(p.local.address, p.local.site) for p in living}
        return all(
            isinstance(p, RelayProcess) and p.global_view is not None and set(p.global_view.members) == everybody
            for p in living
        )

    def quiet(self) -> bool:
        """Whether, besides, nobody waits for anything: sends, holds and unicasts are all done with."""
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

    def _cover(self, what: str, times: int = 1) -> None:
        self.covered[what] = self.covered.get(what, 0) + times


def _mend(cuts: list[tuple[frozenset[str], frozenset[str]]], broken: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    for cut in broken:
        if cut in cuts:
            cuts.remove(cut)


def _idle(process: Process) -> bool:
    """Whether nothing that this process sent or holds for others waits for anything."""
    numbers = process.batching.statistics()
    if numbers.open_bytes or numbers.outstanding_messages or numbers.waiting_bytes:
        return False
    return not isinstance(process, RelayProcess) or not process.expects_answers()


def _configs(plan: Plan, site: str, hosts: dict[str, list[Physical]]) -> tuple[SiteConfig, RelayConfig]:
    peers = {
        other: tuple([Physical(host.host, BRIDGE_PORT) for host in theirs]) for other, theirs in hosts.items() if other != site
    }
    base = SiteConfig(site=site)
    config = replace(
        base,
        order=plan.order,
        agreement=plan.agreement,
        transport=replace(base.transport, multicast=plan.multicast),
        discovery=base.discovery if plan.multicast else replace(base.discovery, seeds=tuple(hosts[site])),
    )
    return config, RelayConfig(gateway=GatewayConfig(peers=peers), buffer=BufferConfig())
