"""The load of a plan: messages to all sites, to the own site, and to single members, during the faults."""

from __future__ import annotations

import random
from functools import partial

from relay_lab.sim.lies import LIAR
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.faults import Flood
from relay_lab.simulation.plan import LOAD_S, Plan
from relay_lab.simulation.process import RelayProcess
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.message import Scope

#: Bytes of a message of a flood at most: a plan's messages may be larger.
FLOOD_BYTES_MAX = 20_000
#: Decisions about locks, and writes to the map, in a plan.
STEPS = 60


class Load:
    def __init__(self, plan: Plan, world: World, rng: random.Random) -> None:
        self._plan = plan
        self._world = world
        self._rng = rng

    def begin(self) -> None:
        schedule, start = self._world.schedule, self._world.now
        for _ in range(self._plan.messages):
            schedule.at(start + self._rng.uniform(0.0, LOAD_S), self._send)
        plan = self._plan
        asks = plan.keys != "none" or plan.calls
        users = (("lock_user", plan.when_split == "majority"), ("map_user", plan.uses_map), ("application", asks))
        for name, is_used in users:
            rng = random.Random(f"{name} {self._plan.seed}")
            for number in range(STEPS if is_used else 0):
                schedule.at(start + LOAD_S * (number + rng.random()) / STEPS, partial(self._decide, name, rng))
        for second in range(int(self._plan.lasting_s)):
            schedule.at(start + LOAD_S + second, partial(self._trickle, second))

    def flood(self, flood: Flood) -> None:
        """Send the messages of a flood. Its randomness is its own, so that a shrunk plan floods in the same way."""
        rng = random.Random(f"flood {self._plan.seed} {flood.site} {flood.at!r}")
        schedule = self._world.schedule

        def send() -> None:
            size_max = min(flood.size_max or self._plan.size_max, FLOOD_BYTES_MAX)
            self._send_from(self._world.alive(flood.site), rng, flood.unicast_share, 0.1, size_max)

        for _ in range(flood.messages):
            schedule.after(rng.uniform(0.0, flood.length), send)

    def _decide(self, name: str, rng: random.Random) -> None:
        living = [p for p in self._world.alive() if not p.is_paused and not p.left and p.view is not None]
        users = [user for user in (getattr(p, name) for p in living) if user is not None]
        if users:
            rng.choice(users).decide(rng)

    def _trickle(self, second: int) -> None:
        """Send a message from each member while faults last, to its site and to all sites in turn, so that blocks
        are noticed.
        """
        for process in self._world.alive():
            if process.view is not None and not process.left:
                process.send(b"%d" % second, Scope.SITE if second % 2 else Scope.ALL)

    def _send(self) -> None:
        plan = self._plan
        self._send_from(self._world.alive(), self._rng, plan.unicast_share, plan.site_share)

    def _send_from(
        self, living: list[Process], rng: random.Random, unicasts: float, to_site: float, size_max: int | None = None
    ) -> None:
        senders = [p for p in living if p.view is not None and not p.left]
        if not senders:
            return
        sender = rng.choice(senders)
        payload = rng.randbytes(rng.randrange((size_max or self._plan.size_max) + 1))
        kind = rng.random()
        if kind < unicasts:
            target = _target(sender, rng)
            if target is not None:
                # Some of those to members of the own site go out of band.
                is_urgent = kind < unicasts / 3 and not isinstance(target, ProxyUUID)
                sender.send(payload, Scope.OOB if is_urgent else Scope.UNICAST, target)
        elif kind < unicasts + to_site:
            sender.send(payload, Scope.SITE)
        else:
            sender.send(payload)


def _target(sender: Process, rng: random.Random) -> Address | ProxyUUID | None:
    assert isinstance(sender, RelayProcess)
    if sender.global_view is None:
        return None
    # A lying site may name members of others as its own, which then have two streams under one name in the journal.
    target = rng.choice([each for each in sender.global_view.members if each.site != LIAR])
    return target.original if target.site == sender.local.site else target
