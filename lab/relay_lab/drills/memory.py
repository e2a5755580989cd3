"""Growth of the memory of processes: a line through the settled samples by least squares. Pure.

A relay needs some two megabytes more than another member, so the line of a process has one slope
and two heights, one for each role.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from relay_lab.drills.plan import Seat

#: Seconds of a process's life that do not count.
SETTLE_S = 20 * 60.0
_HOUR_S = 3_600.0
#: The shortest time, in seconds, for a slope.
SPAN_S_MIN = _HOUR_S


@dataclass(frozen=True, slots=True)
class Slope:
    """The growth of one process, in percent of its mean memory an hour."""

    seat: Seat
    percent_per_hour: float
    samples: int
    span_s: float


class Sample(NamedTuple):
    age_s: float
    size: int
    is_relay: bool


@dataclass(slots=True)
class Weights:
    samples: dict[tuple[Seat, int], list[Sample]] = field(default_factory=dict)
    _first: dict[tuple[Seat, int], float] = field(default_factory=dict)

    def add(self, seat: Seat, pid: int, now: float, size: int, is_relay: bool) -> None:
        began = self._first.setdefault((seat, pid), now)
        self.samples.setdefault((seat, pid), []).append(Sample(now - began, size, is_relay))

    def slopes(self, settle_s: float = SETTLE_S, span_s: float = SPAN_S_MIN) -> list[Slope]:
        """Return the slope of every process that lived long enough."""
        found = []
        for (seat, _), samples in self.samples.items():
            settled = [each for each in samples if each.age_s >= settle_s]
            if len(settled) > 2 and settled[-1].age_s - settled[0].age_s >= span_s:
                found.append(_fit(seat, settled))
        return found


def _fit(seat: Seat, samples: list[Sample]) -> Slope:
    roles = [[each for each in samples if each.is_relay is role] for role in (False, True)]
    # Subtracting each role's means leaves the common slope.
    centred = [offset for role in roles if role for offset in _centred(role)]
    per_s = sum(t * size for t, size in centred) / sum(t**2 for t, _ in centred)
    count, span = len(samples), samples[-1].age_s - samples[0].age_s
    mean_size = sum(each.size for each in samples) / count
    return Slope(seat, 100 * per_s * _HOUR_S / mean_size, count, span)


def _centred(samples: list[Sample]) -> Iterator[tuple[float, float]]:
    mean_t = sum(each.age_s for each in samples) / len(samples)
    mean_size = sum(each.size for each in samples) / len(samples)
    return ((each.age_s - mean_t, each.size - mean_size) for each in samples)
