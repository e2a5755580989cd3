"""The nemesis: carries out each fault of a plan at its time, under the load of `load.py`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

from relay.gateway.connections import RouteId
from relay_lab.sim import network_faults
from relay_lab.sim.process import Process
from relay_lab.sim.routers import VirtualRouter
from relay_lab.sim.tcp_streams import Slowness, TcpStream
from relay_lab.sim.world import World
from relay_lab.simulation.faults import (
    Burst,
    CutStream,
    Fault,
    Flood,
    GreyFault,
    Kill,
    Leave,
    Move,
    Pause,
    PeerRemoved,
    Replace,
    Reset,
    RouterDies,
    SlowWan,
    Split,
    WanCut,
)
from relay_lab.simulation.grey_nemesis import GreyNemesis
from relay_lab.simulation.load import Load
from relay_lab.simulation.plan import Plan
from relay_lab.simulation.process import RelayProcess
from relay_lab.simulation.reloads import Configs, Reloads
from sitestack.model.address import Address, Physical
from sitestack.model.events import CloseConnection
from sitestack.model.message import Scope
from sitestack.stack.turn import Step

#: A pause is long when it outlasts detection, every view change, and the grace time of a site.
LONG_PAUSE_S = 13.0

Cut = tuple[frozenset[str], frozenset[str]]


class Nemesis:
    def __init__(
        self, plan: Plan, world: World, hosts: dict[str, list[Physical]], configs: Configs, rng: random.Random
    ) -> None:
        self.plan = plan
        self.world = world
        self.hosts = hosts
        #: Occurrences, by the names of `coverage.py`.
        self.covered: Counter[str] = Counter()
        #: Processes still to be started, or started again.
        self.restarts = 0
        #: Leaving process -> time of its order to leave.
        self.leaving: dict[Address, float] = {}
        self._routes = {site: plan.routes_of(site) for site in hosts}
        #: The gossip router of each pair of connected sites.
        self.routers: dict[frozenset[str], VirtualRouter] = {}
        for pair in plan.pairs() if plan.by_router else ():
            self.routers[frozenset(pair)] = VirtualRouter(world.streams, plan.router_between(*pair), pair)
        self._load = Load(plan, world, rng)
        self.reloads = Reloads(plan, world, configs, self.covered)
        self._rng = rng
        self.began = 0.0
        self.grey = GreyNemesis(plan, world, self.covered, self._ranked, self._leave)

    def begin(self) -> None:
        schedule, start = self.world.schedule, self.world.now
        self.began = start
        self._load.begin()
        self.reloads.begin()
        for fault in self.plan.faults:
            schedule.at(start + fault.at, partial(self.inject, fault))
        if self.plan.late is not None:
            site, at = self.plan.late
            self.restarts += len(self.hosts[site])
            for number, host in enumerate(self.hosts[site]):
                schedule.at(start + at + 0.1 * number, partial(self._arrive, site, f"{site[0]}{number}", host))

    def _arrive(self, site: str, name: str, host: Physical) -> None:
        self.restarts -= 1
        self.world.spawn(site, name, host)

    def _count(self, what: str, site: str) -> None:
        self.covered[what] += 1
        if self._routes[site].forward:
            self.covered[f"{what} in between"] += 1

    def inject(self, fault: Fault) -> None:
        if isinstance(fault, GreyFault):
            self.grey.inject(fault)
            return
        match fault:
            case Kill() | Replace() | Leave() | Move() | Pause():
                member = self._ranked(fault.site, fault.rank)
                if member is not None:
                    self._harm(fault, member)
            case Reset():
                self._reset(fault)
            case Flood():
                self.covered["flood"] += 1
                self._load.flood(fault)
            case PeerRemoved():
                self.reloads.remove_peer(fault)
            case _:
                self._break_routes(fault)

    def _harm(self, fault: Kill | Replace | Leave | Move | Pause, member: Process) -> None:
        match fault:
            case Kill():
                self._kill(fault, member)
            case Replace():
                self._count("replace", fault.site)
                self._look_at_dying(member)
                member.kill()
                self.world.spawn(member.local.site, member.local.name, member.physical)
            case Leave():
                self._leave(fault, member)
            case Move():
                self.covered["move"] += 1
                member.move(Physical(member.physical.host, member.physical.port + 1))
            case Pause():
                self._count("pause", fault.site)
                self.covered["long pause"] += fault.length > LONG_PAUSE_S
                member.pause()
                self.world.schedule.after(fault.length, member.resume)

    def _kill(self, fault: Kill, victim: Process) -> None:
        self._count("kill coordinator" if victim is self.world.coordinator(fault.site) else "kill member", fault.site)
        self._look_at_dying(victim)
        if fault.before is None:
            victim.dies_after = fault.datagrams
        else:
            victim.dies_before = partial(self._is_at, fault.before)
        self.world.schedule.after(0.3, lambda: _make_sure(victim))
        if fault.restart_after is not None:
            self.restarts += 1
            self.world.schedule.after(0.5 + fault.restart_after, lambda: self._restart(victim))

    def _is_at(self, border: Step, step: Step, what: Sequence[object]) -> bool:
        if step != border:
            return False
        self.covered[f"kill between steps, before {step}"] += 1
        return True

    def _look_at_dying(self, victim: Process) -> None:
        assert isinstance(victim, RelayProcess)
        sessions = [connection.session for connection in victim.relay.gateway.table.connections.values()]
        self.covered["relay died with entries on their way"] += any(session.in_flight_bytes for session in sessions)
        if victim.relay.gateway.active and self._routes[victim.local.site].forward:
            carried = any(self._carries(each, victim.local.site) for each in self.world.alive())
            self.covered["relay in between died with entries of others on their way"] += carried

    def _carries(self, end: Process, between: str) -> bool:
        """Return whether a route through that site carries entries of this member."""
        assert isinstance(end, RelayProcess)
        connections = end.relay.gateway.table.connections.items()
        routed = [each.session for connection, each in connections if isinstance(connection, RouteId)]
        via = self._routes[end.local.site].via
        return any(each.in_flight_bytes and each.peer is not None and via.get(each.peer.site) == between for each in routed)

    def _leave(self, fault: Leave, leaver: Process) -> bool:
        """Return False for a last member, which stays."""
        if len(self.world.alive(fault.site)) < 2:
            return False
        self._count("leave coordinator" if leaver is self.world.coordinator(fault.site) else "leave", fault.site)
        self.leaving.setdefault(leaver.local.address, self.world.now)
        leaver.leave()
        if fault.restart_after is not None:
            self.restarts += 1
            self.world.schedule.after(6.0 + fault.restart_after, lambda: self._restart(leaver))
        return True

    def _break_routes(self, fault: CutStream | Split | WanCut | RouterDies | SlowWan | Burst) -> None:
        world = self.world
        match fault:
            case CutStream():
                for stream in self._streams(fault.between):
                    self.covered["cut bridge"] += 1
                    stream.cut(self._rng)
            case Split():
                hosts = [host.host for host in self.hosts[fault.site]]
                if len(hosts) > 1:
                    self._count("split one way" if fault.one_way else "split", fault.site)
                    self._break(world.network.cuts, (frozenset(hosts[: fault.hosts]), frozenset(hosts[fault.hosts :])), fault)
            case WanCut():
                part = "" if fault.hosts is None else "part of a "
                self.covered[f"{part}wan cut one way" if fault.one_way else f"{part}wan cut"] += 1
                self._break(world.streams.cuts, self._two_sites(fault.between, fault.hosts), fault)
            case RouterDies():
                if (router := self.routers.get(frozenset(fault.between))) is not None:
                    self.covered["router died"] += 1
                    router.stop()
                    world.schedule.after(fault.length, router.start)
            case SlowWan():
                self.covered["slow wan" if fault.bytes_per_s is None else "narrow wan"] += 1
                everybody = frozenset(host.host for hosts in self.hosts.values() for host in hosts) | self._router_hosts()
                delay_s = fault.delay_s / (2 if self.plan.by_router else 1)  # to the router, and from there
                slow = (everybody, everybody, Slowness(delay_s, fault.bytes_per_s, fault.queue_s))
                world.have_for(fault.length, world.streams.slow, slow)
            case Burst():
                self.covered["burst"] += 1
                world.network.faults.append(network_faults.burst_loss(world.now, fault.length))

    def _hosts_of(self, site: str, number: int | None = None) -> frozenset[str]:
        return frozenset(host.host for host in self.hosts[site][:number])

    def _two_sites(self, between: tuple[str, str] | None, hosts: int | None = None) -> Cut:
        """Return the hosts of two sites, of the first one only so many."""
        if between is None:
            one, other = self.hosts if len(self.hosts) == 2 else self._rng.sample(list(self.hosts), 2)
        else:
            one, other = between
        return self._hosts_of(one, hosts), self._hosts_of(other) | self._router_hosts(one, other)

    def _router_hosts(self, *sites: str) -> frozenset[str]:
        """Return the hosts of the routers between these sites, or of all."""
        return frozenset(each.place.host for pair, each in self.routers.items() if not sites or pair == {*sites})

    def _streams(self, between: tuple[str, str] | None) -> list[TcpStream]:
        streams = self.world.streams.connections()
        if between is None:
            return streams
        one, other = self._two_sites(between)
        ends = [(stream, stream.local.host, stream.remote.host) for stream in streams]
        return [stream for stream, near, far in ends if (near in one and far in other) or (near in other and far in one)]

    def _break(self, cuts: list[Cut], cut: Cut, fault: Split | WanCut) -> None:
        """Break a route, one way or both ways, and schedule its healing."""
        self.world.have_for(fault.length, cuts, *([cut] if fault.one_way else [cut, (cut[1], cut[0])]))

    def _reset(self, fault: Reset) -> None:
        sender, receiver = self._ranked(fault.site, fault.rank), self._ranked(fault.site, fault.peer)
        if sender is None or receiver is None or sender is receiver:
            return
        self.covered[f"reset by {fault.closer}"] += 1
        schedule, one, other = self.world.schedule, sender.local.address, receiver.local.address
        wire = network_faults.between(
            sender.physical, receiver.physical, self.world.now, fault.length, fault.loss, fault.late_s
        )
        self.world.network.faults.append(wire)
        for number in range(fault.messages):
            words = f"{fault.at!r} {number}".encode()
            schedule.after(fault.length * number / fault.messages, partial(_whisper, sender, words, other))
        middle = fault.length / 2
        if fault.closer != "receiver":
            schedule.after(middle, lambda: sender.input(CloseConnection(other)))
        if fault.closer != "sender":
            schedule.after(middle, lambda: receiver.input(CloseConnection(one)))

    def _restart(self, victim: Process) -> None:
        """Start a new process at the address of a dead one (LA-4), unless another has taken it."""
        self.restarts -= 1
        if all(p.physical != victim.physical for p in self.world.alive()):
            self.covered["restart"] += 1
            self.world.spawn(victim.local.site, victim.local.name, victim.physical)

    def _ranked(self, site: str, rank: int) -> Process | None:
        coordinator = self.world.coordinator(site)
        if coordinator is None or coordinator.view is None:
            return None
        by_address = {p.local.address: p for p in self.world.alive(site)}
        living = [by_address[m] for m in coordinator.view.members if m in by_address]
        return living[min(rank, len(living) - 1)] if living else None


def _whisper(sender: Process, words: bytes, target: Address) -> None:
    sender.send(words, Scope.UNICAST, target)


def _make_sure(victim: Process) -> None:
    """Kill a process that should have died while sending, but had nothing to send."""
    if victim.alive:
        victim.kill()
