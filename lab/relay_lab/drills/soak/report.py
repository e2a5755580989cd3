"""The report of a soak: its legs so far, from which it is also resumed. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from relay_lab.drills.result import DrillResult, Verdict
from relay_lab.drills.soak.memory import Slope, worst

#: Percent of its memory that a process may grow in an hour.
SLOPE_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg, as it stands in the report."""

    seed: int
    verdict: Verdict
    #: What was wrong, or could not be shown, in sentences.
    faults: tuple[str, ...]
    seconds: float
    sent: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    gaps: int
    actions: int
    #: How often the keys of a site were changed.
    rotations: int
    #: Queue -> what it held at the end, over all members; those that held nothing are left out.
    queues: dict[str, int]
    #: The growth of every process that lived long enough.
    slopes: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, result: DrillResult, rotations: int, slopes: list[Slope]) -> Leg:
        """A leg out of what its drill found."""
        plain = result.to_json()
        return cls(
            seed=result.seed,
            verdict=result.verdict,
            faults=(*result.faults(), *result.unexercised),
            seconds=round(result.seconds, 1),
            sent=plain["sent"],
            delivered=sum(plain["delivered"].values()),
            lost=result.lost,
            duplicated=result.duplicated,
            reordered=result.reordered,
            gaps=result.gaps,
            actions=len(result.drill.method),
            rotations=rotations,
            queues={name: count for name, count in result.queues.items() if count},
            slopes=tuple(
                {
                    **asdict(each),
                    "seat": f"{each.seat.site}.{each.seat.name}",
                    "percent_per_hour": round(each.percent_per_hour, 3),
                }
                for each in slopes
            ),
        )

    @classmethod
    def aborted(cls, seed: int, why: str) -> Leg:
        """A leg that came to no result."""
        return cls(seed, "fail", (why,), 0.0, 0, 0, 0, 0, 0, 0, 0, 0, {}, ())

    @property
    def is_aborted(self) -> bool:
        """Whether it came to no result."""
        return not self.seconds


@dataclass(slots=True)
class Soak:
    """A soak of so many seconds in legs, of which the last may be shorter, and those that have been run."""

    seed: int
    whole_s: float
    leg_s: float
    #: Messages a second of one member of each site.
    rate: float
    done: list[Leg] = field(default_factory=list)

    @property
    def settings(self) -> tuple[int, float, float, float]:
        """What a report must have been made with to be gone on with."""
        return self.seed, self.whole_s, self.leg_s, self.rate

    @property
    def legs(self) -> int:
        """How many legs there are in all."""
        return math.ceil(self.whole_s / self.leg_s)

    def next_leg(self) -> tuple[int, float] | None:
        """The seed of the next leg, and its seconds; None when all have been run."""
        run = {leg.seed for leg in self.done}
        for number in range(self.legs):
            if (seed := self.seed * 1_000 + number) not in run:
                return seed, min(self.leg_s, self.whole_s - number * self.leg_s)
        return None

    def resume(self) -> list[Leg]:
        """Take back what came to no result, to run it again. Returns those legs."""
        aborted = [leg for leg in self.done if leg.is_aborted]
        self.done = [leg for leg in self.done if not leg.is_aborted]
        return aborted

    @property
    def slope(self) -> float | None:
        """The steepest growth of a process in any leg, in percent an hour; None when nobody lived long enough."""
        return worst(slope for leg in self.done for slope in leg.slopes)

    def faults(self) -> list[str]:
        """Everything that was wrong, in sentences."""
        found = [f"leg {leg.seed}: {fault}" for leg in self.done for fault in leg.faults]
        if self.slope is not None and self.slope >= SLOPE_MAX:
            found.append(f"The memory of a process grew by {self.slope:.2f} % an hour; less than {SLOPE_MAX:g} % is expected.")
        return found

    @property
    def verdict(self) -> Verdict:
        """Not exercised while legs are missing, or when nobody's memory could be measured."""
        verdicts = {leg.verdict for leg in self.done}
        if "fail" in verdicts or (self.slope is not None and self.slope >= SLOPE_MAX):
            return "fail"
        is_whole = len(self.done) >= self.legs and self.slope is not None and verdicts == {"pass"}
        return "pass" if is_whole else "not exercised"

    def to_json(self) -> dict[str, Any]:
        """The report."""
        totals = {
            name: sum(getattr(leg, name) for leg in self.done)
            for name in ("sent", "delivered", "lost", "duplicated", "reordered", "gaps", "actions", "rotations")
        }
        return {
            "verdict": self.verdict,
            "seed": self.seed,
            "legs": self.legs,
            "whole_s": self.whole_s,
            "leg_s": self.leg_s,
            "rate": self.rate,
            **totals,
            "seconds": round(sum(leg.seconds for leg in self.done), 1),
            "memory_percent_per_hour": self.slope,
            "faults": self.faults(),
            "done": [asdict(leg) for leg in self.done],
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Soak:
        """A report that was written. Raises KeyError, TypeError or ValueError for what is none."""
        made = cls(int(plain["seed"]), float(plain["whole_s"]), float(plain["leg_s"]), float(plain["rate"]))
        made.done = [Leg(**{**leg, "faults": tuple(leg["faults"]), "slopes": tuple(leg["slopes"])}) for leg in plain["done"]]
        return made
