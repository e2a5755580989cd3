"""One leg of a soak: a drill, beside which the keys of the sites are changed and the memory of the members is measured."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from relay.keys.directory import new_secret, read_key_ring, write_key_ring
from relay_lab.drills.executor import Executor, MemberDied, Place, Venue
from relay_lab.drills.load import DrillPlan
from relay_lab.drills.plan import Seat, seat_members
from relay_lab.drills.run import Observe, run_drill
from relay_lab.drills.soak.memory import Weights
from relay_lab.drills.soak.report import Leg
from sitestack.seal.key_ring import SiteKey

#: Seconds between two looks at the members' memory.
WEIGH_S = 5.0
#: Seconds from one change of keys to the next, and between its steps: members read their keys every two seconds.
ROTATE_S, STEP_S = 120.0, 10.0
#: The directory of the keys that a drill makes, in its own.
KEYS = "keys"


class Rotation:
    """Changes the keys of one site after the other, in the steps of the operations page."""

    def __init__(self, keys: Path, sites: tuple[str, ...], rng: random.Random) -> None:
        self.done = 0
        self._keys = keys
        self._sites = sites
        self._rng = rng

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await trio.sleep(ROTATE_S - 2 * STEP_S)
            site = self._keys / self._rng.choice(self._sites)
            old = read_key_ring(site).in_use
            new = SiteKey(new_secret())
            write_key_ring(site, read_key_ring(site).add(new))
            await trio.sleep(STEP_S)
            write_key_ring(site, read_key_ring(site).use(new.id))
            await trio.sleep(STEP_S)
            write_key_ring(site, read_key_ring(site).remove(old))
            self.done += 1


async def run_leg(plan: DrillPlan, venue: Venue, directory: Path, journal: Path, observe: Observe) -> tuple[Leg, Weights]:
    """Run a leg. Raises what `run_drill` raises."""
    weights = Weights()
    rotation = Rotation(directory / KEYS, plan.drill.sites, random.Random(plan.seed))
    place = _watched(venue.open(plan.drill, plan.seed, directory, journal), plan, weights, rotation)
    result = await run_drill(plan, place, observe)
    return Leg.of(result, rotation.done, weights.slopes()), weights


@asynccontextmanager
async def _watched(place: Place, plan: DrillPlan, weights: Weights, rotation: Rotation) -> AsyncIterator[Executor]:
    """The place, with the two tasks beside the drill."""
    seats = seat_members(plan.drill.sites, plan.drill.members)
    async with place as executor, trio.open_nursery() as nursery:
        nursery.start_soon(_weigh, executor, seats, weights)
        nursery.start_soon(rotation.run)
        yield executor
        nursery.cancel_scope.cancel()


async def _weigh(executor: Executor, seats: list[Seat], weights: Weights) -> None:
    while True:
        for seat in seats:
            try:
                status = await executor.status(seat)
                size = executor.memory_bytes(seat)
            except (MemberDied, AssertionError):
                continue  # it is not running now, as the drill wanted
            if status is not None and size:
                weights.add(seat, status["pid"], trio.current_time(), size, status["role"] == "relay")
        await trio.sleep(WEIGH_S)
