"""A soak: a random drill over three sites for hours, and the memory of their members."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from relay.keys.directory import new_secret, read_key_ring, write_key_ring
from relay_lab.drills.executor import Executor, MemberDied, Place, Venue
from relay_lab.drills.load import DrillPlan
from relay_lab.drills.memory import Slope, Weights
from relay_lab.drills.plan import Action, Drill, DrillLoad, Expectation, Seat, seat_members
from relay_lab.drills.result import DrillResult, Verdict
from relay_lab.drills.run import Observe, run_drill
from sitestack.seal.key_ring import SiteKey

SITES = ("NYC", "SFO", "LON")
MEMBERS = 3
PAUSE_S = (30.0, 90.0)
CALM_S = 20.0
#: Shares of small, larger and largest messages, and their maximum bytes.
SIZES = ((0.90, 1 << 10), (0.095, 1 << 16), (0.005, 1 << 20))
HARM_S = (1.0, 12.0)
#: Seconds after a pause within which a member is in the view again; messages until then may be a
#: gap.
BACK_S = 15.0
#: Longest silences of another site and of the own site, for members that are never paused.
SILENCE_S_MAX, OWN_SILENCE_S_MAX = 30.0, 10.0


def plan_soak(seed: int, seconds: float, rate: float) -> DrillPlan:
    """Return a soak with this seed: the load lasts so many seconds, at `rate` messages a second of one member of each site."""
    method = tuple(_draw_harm(random.Random(seed), seconds))
    drill = Drill(
        name="soak",
        why="Harm of every kind at random, for long.",
        sites=SITES,
        members=MEMBERS,
        load=DrillLoad(rate=rate, message_bytes=SIZES[0][1] // 2, seconds=seconds),
        method=method,
        verdict=Expectation(gaps_max=_gaps_max(method, rate), silence_s_max=SILENCE_S_MAX, own_silence_s_max=OWN_SILENCE_S_MAX),
    )

    def line(number: int) -> bytes:
        rng = random.Random(f"{seed} {number}")
        draw, size_max = rng.random(), SIZES[0][1]
        for share, largest in SIZES:
            if draw < share:
                size_max = largest
                break
            draw -= share
        size = rng.randint(0, size_max)
        return (b"%d " % number)[:size].ljust(size, b".")

    return DrillPlan(drill, int(rate * seconds), line, seed=seed)


def _gaps_max(method: Sequence[Action], rate: float) -> dict[str, int]:
    """Return, by member, the messages that all sites send during its pauses and its returns."""
    missed = math.ceil(len(SITES) * rate * (HARM_S[1] + BACK_S))
    return {member: missed * pauses for member, pauses in Counter(a.target for a in method if a.do == "pause").items()}


def _draw_harm(rng: random.Random, seconds: float) -> list[Action]:
    """Draw faults that end before the next begins. The last in line of each site is never killed, so
    one member lives long.
    """
    mortal = [f"{seat.site}.{seat.name}" for place, seat in enumerate(seat_members(SITES, MEMBERS)) if (place + 1) % MEMBERS]
    unharmed = rng.sample(mortal, len(mortal))
    actions: list[Action] = []
    at_s = rng.uniform(5, PAUSE_S[0])
    while at_s < seconds - CALM_S:
        for_s = rng.uniform(*HARM_S)
        ends_s = at_s + for_s
        site, other = rng.sample(SITES, 2)
        is_first = bool(unharmed)
        target, link = unharmed.pop() if is_first else rng.choice(mortal), f"{site} - {other}"
        match "kill" if is_first else rng.choice(("kill", "restart", "pause", "cut", "half-open", "delay")):
            case "kill":
                actions += [Action("kill", at_s, target=target), Action("restart", ends_s, target=target)]
            case "restart":
                actions += [Action("restart", at_s, target=target)]
            case "pause":
                actions += [Action("pause", at_s, target=target), Action("resume", ends_s, target=target)]
            case "cut":
                actions += [Action("cut", at_s, link=link), Action("heal", ends_s, link=link)]
            case "half-open":
                actions += [Action("half-open", at_s, link=link), Action("heal", ends_s, link=link)]
            case _:
                amount = rng.uniform(0.02, 0.2)
                actions += [Action("delay", at_s, link=link, amount=amount), Action("heal", ends_s, link=link)]
        at_s = max(ends_s + 5, at_s + rng.uniform(*PAUSE_S))
    return actions


#: Percent of its memory that a process may grow in an hour.
SLOPE_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Soak:
    """The result of a soak."""

    result: DrillResult
    rotations: int
    #: The growth of every process that lived long enough.
    slopes: Sequence[Slope]

    @property
    def slope(self) -> float | None:
        """Return the steepest growth of a process in percent an hour; None if no process lived long enough."""
        return max([each.percent_per_hour for each in self.slopes], default=None)

    def faults(self) -> list[str]:
        found = [*self.result.faults(), *self.result.unexercised]
        if self.slope is not None and self.slope >= SLOPE_MAX:
            found.append(f"The memory of a process grew by {self.slope:.2f} % an hour; less than {SLOPE_MAX:g} % is expected.")
        return found

    @property
    def verdict(self) -> Verdict:
        if self.result.verdict == "fail" or (self.slope is not None and self.slope >= SLOPE_MAX):
            return "fail"
        return "not exercised" if self.slope is None else self.result.verdict

    def to_json(self) -> dict[str, Any]:
        return {
            **self.result.to_json(),
            "delivered": sum(each.delivered for each in self.result.members),
            "verdict": self.verdict,
            "faults": self.faults(),
            "actions": len(self.result.drill.method),
            "rotations": self.rotations,
            "memory_percent_per_hour": self.slope,
            "slopes": [{**asdict(each), "seat": f"{each.seat.site}.{each.seat.name}"} for each in self.slopes],
        }


WEIGH_S = 5.0
#: Seconds between two changes of keys, and between the steps of one.
ROTATE_S, STEP_S = 120.0, 10.0
#: The directory of the keys that a drill makes, in its own.
KEYS = "keys"


class Rotation:
    """Changes the keys of one site after the other."""

    def __init__(self, keys: Path, sites: tuple[str, ...], rng: random.Random) -> None:
        self.done = 0
        self._keys = keys
        self._sites = sites
        self._rng = rng

    async def run(self) -> None:
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


async def run_soak(plan: DrillPlan, venue: Venue, directory: Path, journal: Path, observe: Observe) -> tuple[Soak, Weights]:
    """Run a soak; return its result and the measured memory. Raises as `run_drill`."""
    weights = Weights()
    rotation = Rotation(directory / KEYS, plan.drill.sites, random.Random(plan.seed))
    place = _watched(venue.open(plan.drill, plan.seed, directory, journal), plan, weights, rotation)
    result = await run_drill(plan, place, observe)
    return Soak(result, rotation.done, weights.slopes()), weights


@asynccontextmanager
async def _watched(place: Place, plan: DrillPlan, weights: Weights, rotation: Rotation) -> AsyncIterator[Executor]:
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
