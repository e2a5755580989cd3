"""Deliveries per second in each site over the time of a run, for the chart of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relay_lab.drills.verdict import MemberLog

#: The most steps of a chart, and the shortest step in seconds: short enough to show a failover.
_STEPS_MAX = 200
_STEP_S_MIN = 0.2


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second that one member of a site delivers, step by step."""

    #: The beginning of the first step, in seconds after the load began; negative when something was delivered before.
    begin_s: float = 0.0
    step_s: float = _STEP_S_MIN
    #: (receiving site, sending site) -> messages per second in each step.
    rows: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)


def delivery_rates(logs: Sequence[MemberLog], zero_ns: int) -> Rates:
    """For each pair of sites the mean over the running members of the receiving site.

    Members that were paused or cut off from their site do not count, unless that befell all of them.
    """
    ends = [arrivals[-1][0] for log in logs for arrivals in log.arrivals.values()]
    begins = [arrivals[0][0] for log in logs for arrivals in log.arrivals.values()]
    if not ends:
        return Rates()
    begin_s = min(min(begins) - zero_ns, 0) / 1e9
    length_s = (max(ends) - zero_ns) / 1e9 - begin_s
    step_s = max(_STEP_S_MIN, round(length_s / _STEPS_MAX + 0.05, 1))
    steps = int(length_s / step_s) + 1
    first_ns = zero_ns + int(begin_s * 1e9)
    senders = dict.fromkeys([*[log.site for log in logs], *[site for log in logs for site in log.arrivals]])
    rows = {}
    for receiver in dict.fromkeys(log.site for log in logs):
        listeners = _listeners(logs, receiver)
        for sender in senders:
            rows[receiver, sender] = _row(listeners, sender, first_ns, step_s, steps)
    return Rates(begin_s, step_s, rows)


def _listeners(logs: Sequence[MemberLog], site: str) -> list[MemberLog]:
    ours = [log for log in logs if log.site == site]
    return [log for log in ours if not log.apart] or ours


def _row(logs: Sequence[MemberLog], sender: str, first_ns: int, step_s: float, steps: int) -> tuple[float, ...]:
    totals = [0] * steps
    running = [0] * steps
    for log in logs:
        begin, end = [int((when - first_ns) / 1e9 / step_s) for when in (log.began_ns, log.ended_ns)]
        for step in range(max(begin, 0), min(end + 1, steps)):
            running[step] += 1
        for when_ns, count in log.arrivals.get(sender, ()):
            totals[min(int((when_ns - first_ns) / 1e9 / step_s), steps - 1)] += count
    return tuple([round(total / max(count, 1) / step_s, 1) for total, count in zip(totals, running, strict=True)])
