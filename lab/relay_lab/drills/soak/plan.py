"""One leg of a soak as a drill: harm every 30 to 90 s, messages from nothing to a mebibyte. Pure: the seed decides it all."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import overload

from relay_lab.drills.load import DrillPlan
from relay_lab.drills.plan import Action, Drill, DrillLoad, Expectation, seat_members

SITES = ("NYC", "SFO", "LON")
MEMBERS = 3
#: Seconds from one harm to the next.
PAUSE_S = (30.0, 90.0)
#: Seconds at the end of a leg in which nobody is harmed any more.
CALM_S = 20.0
#: The shares of small, of larger and of the largest messages, and the bytes that they have at most.
SIZES = ((0.90, 1 << 10), (0.095, 1 << 16), (0.005, 1 << 20))
#: Seconds that harm lasts.
HARM_S = (1.0, 12.0)
#: Seconds after a pause within which a member is in the view again. What is sent until then may be a gap there, not elsewhere.
BACK_S = 15.0
#: The longest silences of another site and of their own that members may see who are never paused.
SILENCE_S_MAX, OWN_SILENCE_S_MAX = 30.0, 10.0


class Lines(Sequence[bytes]):
    """The lines of a load, each made when it is asked for: a leg has too many to keep."""

    def __init__(self, length: int, make: Callable[[int], bytes]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        """How many there are."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        """A line, or some."""
        return [*map(self._make, range(self._length)[index])] if isinstance(index, slice) else self._make(index)


def plan_leg(seed: int, seconds: float, rate: float) -> DrillPlan:
    """A leg with this seed: the load lasts so many seconds, at `rate` messages a second of one member of each site."""
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

    return DrillPlan(drill, Lines(int(rate * seconds), line), line, seed)


def _gaps_max(method: Sequence[Action], rate: float) -> dict[str, int]:
    """Member -> what all sites send while it stands still, and until it is back, each time that it is paused."""
    missed = math.ceil(len(SITES) * rate * (HARM_S[1] + BACK_S))
    return {member: missed * pauses for member, pauses in Counter(a.target for a in method if a.do == "pause").items()}


def _draw_harm(rng: random.Random, seconds: float) -> list[Action]:
    """Harm that ends before the next begins. The last in line of each site is spared death, so that somebody lives long.

    The others are killed first, one after the other: whoever lives long relays from then on, and a line through its memory is
    not bent by a role that it takes in the middle.
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
