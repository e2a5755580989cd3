"""The nemesis of grey faults: lets a part of something not work for a while, and knows when and where it did."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

from relay_lab.sim import network_faults
from relay_lab.sim.network_faults import PacketFault
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.faults import (
    DeadInterface,
    FailingDisk,
    GreyFault,
    Hole,
    LateLetters,
    Leave,
    NarrowWire,
    SlowApplication,
    SmallOnly,
)
from relay_lab.simulation.plan import Plan
from relay_lab.simulation.process import RelayProcess
from sitestack.model.address import ProxyUUID
from sitestack.model.message import Scope


class GreyNemesis:
    def __init__(
        self,
        plan: Plan,
        world: World,
        covered: Counter[str],
        ranked: Callable[[str, int], Process | None],
        leave: Callable[[Leave, Process], bool],
    ) -> None:
        """`ranked` finds the member at a rank; `leave` lets a member leave."""
        self._plan = plan
        self._world = world
        self._covered = covered
        self._ranked = ranked
        self._leave = leave
        #: Sites with two members that did not hear each other, their hosts, and from when to when.
        self.holes: list[tuple[str, frozenset[str], tuple[float, float]]] = []
        #: Sites that waited for an application of theirs, and from when to when.
        self.waited: list[tuple[str, tuple[float, float]]] = []
        self.disks_failed: set[str] = set()

    def inject(self, fault: GreyFault) -> None:
        match fault:
            case Hole():
                self._cut(fault)
            case SmallOnly():
                self._lose_large(fault)
            case NarrowWire():
                self._narrow(fault)
            case DeadInterface():
                self._unplug(fault)
            case SlowApplication():
                self._slow_down(fault)
            case LateLetters():
                self._covered["unicasts to the gone"] += 1
                self._write(fault)
            case FailingDisk():
                self._fail_disk(fault)

    def heal(self) -> None:
        """Let all applications read and all disks work again; networks are healed by their owner."""
        for process in self._world.processes:
            _mend_disk(process)
            if isinstance(process, RelayProcess) and process.application is not None:
                process.application.hurry()

    def _cut(self, fault: Hole) -> None:
        one, other = self._ranked(fault.site, fault.rank), self._ranked(fault.site, fault.peer)
        if one is None or other is None or one is other:
            return
        self._covered["hole one way" if fault.one_way else "hole"] += 1
        here, there = one.physical.host, other.physical.host
        ways = [(here, there)] if fault.one_way else [(here, there), (there, here)]
        cuts = [(frozenset([source]), frozenset([target])) for source, target in ways]
        self.holes.append((fault.site, frozenset([here, there]), (self._world.now, self._world.now + fault.length)))
        self._world.have_for(fault.length, self._world.network.cuts, *cuts)

    def _lose_large(self, fault: SmallOnly) -> None:
        member = self._ranked(fault.site, fault.rank)
        peer = None if fault.peer is None else self._ranked(fault.site, fault.peer)
        if member is None or member is peer:
            return
        self._covered["small datagrams only"] += 1
        source = None if peer is None else peer.physical.host
        self._add(network_faults.small_only(source, member.physical.host, fault.bytes_max), fault.length)

    def _narrow(self, fault: NarrowWire) -> None:
        member = self._ranked(fault.site, fault.rank)
        if member is not None:
            self._covered["narrow wire"] += 1
            self._add(network_faults.Wire(member.physical.host, fault.bytes_per_s, fault.queue_bytes), fault.length)

    def _unplug(self, fault: DeadInterface) -> None:
        members = self._world.alive(fault.site)
        if fault.rank is not None:
            members = [each for each in [self._ranked(fault.site, fault.rank)] if each is not None]
        self._covered["dead network" if fault.rank is None else "dead interface"] += bool(members)
        hosts = frozenset([each.physical.host for each in members])
        self._add(network_faults.dead_interface(fault.network, hosts), fault.length)

    def _add(self, rule: PacketFault, length: float) -> None:
        self._world.have_for(length, self._world.network.faults, rule)

    def _fail_disk(self, fault: FailingDisk) -> None:
        member = self._ranked(fault.site, fault.rank)
        if isinstance(member, RelayProcess):
            self._covered["disk unreadable" if fault.is_unreadable else "disk full"] += 1
            self.disks_failed.add(fault.site)
            member.disk.room, member.disk.is_unreadable = 0, fault.is_unreadable
            self._world.schedule.after(fault.length, partial(_mend_disk, member))

    def _slow_down(self, fault: SlowApplication) -> None:
        member = self._ranked(fault.site, fault.rank)
        if member is None or len(self._world.alive(fault.site)) < 2:
            return
        self._covered["slow application" if fault.bytes_per_s else "application takes nothing"] += 1
        self.waited.append((fault.site, (self._world.now, self._world.now + fault.length)))
        assert isinstance(member, RelayProcess)
        assert member.application is not None
        exclude = partial(self._exclude, fault, member)
        member.application.slow_down(fault.bytes_per_s, self._world.now + fault.length, exclude)

    def _exclude(self, fault: SlowApplication, member: Process) -> bool:
        self._covered["slow application left out"] += 1
        return self._leave(Leave(fault.at, fault.site, fault.rank, fault.restart_after), member)

    def _write(self, fault: LateLetters) -> None:
        """Its random numbers are separate: a shrunk plan stays the same."""
        rng = random.Random(f"letters {self._plan.seed} {fault.site} {fault.at!r}")
        for _ in range(fault.messages):
            self._world.schedule.after(rng.uniform(0.0, fault.length), lambda: self._write_one(fault.site, rng))

    def _write_one(self, site: str, rng: random.Random) -> None:
        gone = [process for process in self._world.processes if not process.alive]
        senders = [process for process in self._world.alive(site) if process.view is not None]
        if gone and senders:
            sender, to = rng.choice(senders), rng.choice(gone).local
            target = to.address if to.site == site else ProxyUUID(to.address, to.site)
            self._covered["unicast to the gone"] += sender.send(rng.randbytes(20), Scope.UNICAST, target)


def _mend_disk(process: Process) -> None:
    assert isinstance(process, RelayProcess)
    process.disk.room, process.disk.is_unreadable = None, False
