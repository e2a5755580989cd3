"""How the memory of processes grows: a line through what was measured, by least squares, once they have settled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from relay.instruments.drills.plan import Seat

#: Seconds of a process's life that do not count: caches and tables fill.
SETTLE_S = 20 * 60.0
_HOUR_S = 3_600.0
#: The shortest time, in seconds, that a slope is drawn from: what is held for a site that is cut off goes up and down by
#: several percent within minutes.
SPAN_S_MIN = _HOUR_S
#: Seconds of each part that the report shows the mean of.
PART_S = 10 * 60.0


@dataclass(frozen=True, slots=True)
class Slope:
    """The growth of one process, in percent of its mean memory an hour."""

    seat: Seat
    percent_per_hour: float
    mean_bytes: float
    samples: int
    span_s: float
    #: The mean of each `PART_S`, in MiB: whether it grows all the time, or once.
    parts_mib: tuple[float, ...] = ()


@dataclass(slots=True)
class Weights:
    """Samples of memory, by member and process."""

    #: (member, process id) -> seconds since the process was first seen, and bytes.
    samples: dict[tuple[Seat, int], list[tuple[float, int]]] = field(default_factory=dict)
    _first: dict[tuple[Seat, int], float] = field(default_factory=dict)

    def add(self, seat: Seat, pid: int, now: float, size: int) -> None:
        """A process had so many bytes at a time (s)."""
        began = self._first.setdefault((seat, pid), now)
        self.samples.setdefault((seat, pid), []).append((now - began, size))

    def slopes(self, settle_s: float = SETTLE_S, span_s: float = SPAN_S_MIN) -> list[Slope]:
        """The slope of every process that lived long enough after it had settled."""
        found = []
        for (seat, _), samples in self.samples.items():
            settled = [each for each in samples if each[0] >= settle_s]
            if len(settled) > 2 and settled[-1][0] - settled[0][0] >= span_s:
                found.append(_fit(seat, settled))
        return found


def _fit(seat: Seat, samples: list[tuple[float, int]]) -> Slope:
    count = len(samples)
    mean_t, mean_size = sum(t for t, _ in samples) / count, sum(size for _, size in samples) / count
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    per_s = sum((t - mean_t) * (size - mean_size) for t, size in samples) / spread
    span = samples[-1][0] - samples[0][0]
    return Slope(seat, 100 * per_s * _HOUR_S / mean_size, mean_size, count, span, _means_mib(samples))


def _means_mib(samples: list[tuple[float, int]]) -> tuple[float, ...]:
    parts: dict[int, list[int]] = {}
    for t, size in samples:
        parts.setdefault(int((t - samples[0][0]) // PART_S), []).append(size)
    return tuple(round(sum(sizes) / len(sizes) / (1 << 20), 1) for sizes in parts.values())


def worst(slopes: Iterable[Slope | Mapping[str, float]]) -> float | None:
    """The steepest growth (percent an hour); None when nothing was measured."""
    grown = [each.percent_per_hour if isinstance(each, Slope) else each["percent_per_hour"] for each in slopes]
    return max(grown, default=None)
