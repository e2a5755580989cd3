"""A world of simulated processes on one virtual clock: start them, disturb them, let time pass, collect their journals."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from relay_lab.sim.network import Network
from relay_lab.sim.process import Process
from relay_lab.sim.schedule import Schedule
from relay_lab.sim.tasks import Tasks
from relay_lab.sim.tcp_streams import TcpStreams
from sitestack.model.address import Physical

T = TypeVar("T")
#: Makes a process: `(world, site name, process name, rng, physical address) -> Process`.
Maker = Callable[["World", str, str, random.Random, Physical], Process]


class World:
    """All processes, the networks between them, and the one source of randomness."""

    def __init__(self, seed: int, make: Maker) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.schedule = Schedule()
        self.network = Network(self.schedule, random.Random(self.rng.getrandbits(64)))
        self.streams = TcpStreams(self.schedule, random.Random(self.rng.getrandbits(64)))
        #: The tasks of channels and structures, in a world that has any.
        self.tasks: Tasks | None = None
        self.processes: list[Process] = []
        self._make = make
        self._hosts: dict[str, int] = {}

    @property
    def now(self) -> float:
        return self.schedule.now

    def spawn(self, site: str, name: str, physical: Physical | None = None) -> Process:
        """Start one process. Without a physical address it gets a new host."""
        if physical is None:
            number = self._hosts[name] = len(self._hosts) + 1
            physical = Physical(f"10.0.{number // 250}.{number % 250 + 1}", 7800)
        process = self._make(self, site, name, random.Random(self.rng.getrandbits(64)), physical)
        self.processes.append(process)
        process.start()
        return process

    def alive(self, site: str | None = None) -> list[Process]:
        return [p for p in self.processes if p.alive and (site is None or p.local.site == site)]

    def coordinator(self, site: str) -> Process | None:
        """Return the living process that coordinates the newest view of the site."""
        placed = [p for p in self.alive(site) if p.view is not None]
        if not placed:
            return None
        view = max((p.view for p in placed if p.view is not None), key=lambda view: view.id)
        return next((p for p in placed if p.local.address == view.coordinator), None)

    def run(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def run_until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until the condition holds, checked at every tick; False when it still does not after `seconds`."""
        end = self.now + seconds
        while not reached():
            if not self.schedule.run_tick(end):
                return reached()
        return True

    def have_for(self, seconds: float, these: list[T], *more: T) -> None:
        """Let a list, such as the cuts, have more entries for so long."""

        def take_out() -> None:
            for each in more:
                if each in these:
                    these.remove(each)

        these += more
        self.schedule.after(seconds, take_out)

    def settled(self, site: str, members: Sequence[Process]) -> bool:
        wanted = {p.local.address for p in members}
        views = {p.view.id for p in members if p.view is not None}
        return len(views) == 1 and all(p.view is not None and set(p.view.members) == wanted for p in members)

    def trace_hash(self) -> str:
        """Return a digest of every journal: equal seeds give equal hashes, in any process, under any hash seed."""
        digest = hashlib.sha256()
        for process in self.processes:
            for record in process.records:
                digest.update(repr(record).encode())
        return digest.hexdigest()
