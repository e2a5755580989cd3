"""Measurements of a drill while its sites are attacked, and their limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from relay_lab.drills.executor import Status
from relay_lab.drills.hostile.target import AttackReport
from relay_lab.drills.plan import DATAGRAM_ATTACKS, Action, Drill, Seat
from relay_lab.drills.verdict import MemberLog
from sitestack.promises.lag import percentile_ms

_MIB = 1 << 20
#: Share of the drill's rate that counts as a flood.
_FLOOD_SHARE = 0.75
_BASELINE = "flood-unheard"
#: Nanoseconds after an attack in which delayed messages may arrive, and the shortest calm time.
_AFTER_NS = 1_000_000_000
_CALM_NS_MIN = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Attack:
    action: Action
    report: AttackReport
    began_ns: int
    ended_ns: int
    #: Refusals by members, by reason.
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of other sites' messages that were sent during one attack; in ms."""

    attack: str
    p50: float
    p99: float
    messages: int


@dataclass(frozen=True, slots=True)
class Evidence:
    attacks: tuple[Attack, ...] = ()
    #: In each calm time under load, and during each attack.
    calm: tuple[Lag, ...] = ()
    lags: tuple[Lag, ...] = ()
    #: Member -> growth of its memory after the first attack had begun, in bytes.
    growth: Mapping[Seat, int] = field(default_factory=dict)
    #: Member -> installed views and suspected members, under load.
    views: Mapping[Seat, int] = field(default_factory=dict)
    suspicions: Mapping[Seat, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "attacks": [
                {
                    "attack": str(each.action),
                    **asdict(each.report),
                    "refused": dict(each.refused),
                    "lag": asdict(lag),
                }
                for each, lag in zip(self.attacks, self.lags, strict=True)
            ],
            "calm": [asdict(each) for each in self.calm],
            "growth_mib": {f"{seat.site}.{seat.name}": round(grown / _MIB, 1) for seat, grown in self.growth.items()},
            "views": sum(self.views.values()),
            "suspicions": sum(self.suspicions.values()),
        }


def gather(
    attacks: Sequence[Attack],
    logs: Sequence[MemberLog],
    load: tuple[int, int],
    growth: Mapping[Seat, int],
    statuses: tuple[Mapping[Seat, Status], Mapping[Seat, Status]],
) -> Evidence:
    """Return the evidence of a run; `load`: start and end, `statuses`: those of both times."""
    if not attacks:
        return Evidence()
    began, ended = statuses
    return Evidence(
        tuple(attacks),
        tuple([measure_lag(logs, since, until, "calm") for since, until in _calm(attacks, load)]),
        tuple([measure_lag(logs, each.report.began_ns, each.ended_ns, str(each.action)) for each in attacks]),
        growth,
        {seat: status["views"] - began[seat]["views"] for seat, status in ended.items() if seat in began},
        {seat: _suspicions(status) - _suspicions(began[seat]) for seat, status in ended.items() if seat in began},
    )


def _calm(attacks: Sequence[Attack], load: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the times under load without an attack and its after-effects."""
    ends = [load[0], *[each.ended_ns + _AFTER_NS for each in attacks]]
    begins = [*[each.began_ns for each in attacks], load[1]]
    return ((since, until) for since, until in zip(ends, begins, strict=True) if until - since >= _CALM_NS_MIN)


def _suspicions(status: Status) -> int:
    return int(status["statistics"]["stack"]["failure_detection"]["suspicions"])


def measure_lag(logs: Sequence[MemberLog], since_ns: int, until_ns: int, what: str) -> Lag:
    """Return the lag of messages of this time at members of other sites, on the clock of one machine."""
    sent = {(log.uuid, first): at for log in logs for first, at in log.sends.items() if since_ns <= at < until_ns}
    lags = [
        (when - sent[origin, first], count)
        for log in logs
        for origin, first, when, count in log.relayed
        if (origin, first) in sent
    ]
    return Lag(what, percentile_ms(lags, 50), percentile_ms(lags, 99), sum(count for _, count in lags))


def refusals(before: Mapping[Seat, Status], after: Mapping[Seat, Status]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for seat, status in after.items():
        earlier = before[seat]["drops"] if seat in before else {}
        for reason, count in status["drops"].items():
            if more := count - earlier.get(reason, 0):
                counted[reason] = counted.get(reason, 0) + more
    return counted


def hostile_faults(drill: Drill, found: Evidence) -> Iterator[str]:
    """Yield sentences on forbidden effects of the attacks."""
    expected = drill.verdict
    if not found.attacks:
        return
    for each in found.attacks:
        if each.report.answered_bytes:
            shown = "; ".join(each.report.answers[:1])
            yield f"{each.action}: {each.report.answered_bytes} bytes were answered to an attacker ({shown})."
    if expected.steady_views:
        for what, counted in (("installed {} views", found.views), ("suspected {} members", found.suspicions)):
            for seat, number in counted.items():
                if number:
                    yield f"{seat.name} of {seat.site} {what.format(number)} while no member joined or left."
    for seat, grown in found.growth.items():
        if 0 < expected.growth_mib_max * _MIB < grown:
            at_most = f"at most {expected.growth_mib_max:g} are expected"
            yield f"The memory of {seat.name} of {seat.site} grew by {grown / _MIB:.1f} MiB; {at_most}."
    yield from _late(drill, found)


def _late(drill: Drill, found: Evidence) -> Iterator[str]:
    """Attacks during which messages of other sites came too late."""
    times = drill.verdict.lag_times_max
    unheard = [lag for each, lag in zip(found.attacks, found.lags, strict=True) if each.action.do == _BASELINE]
    for each, lag in zip(found.attacks, found.lags, strict=True):
        without = unheard if each.action.do == "flood" and unheard else found.calm
        baseline = max(without, key=lambda calm: calm.p99, default=None)
        if times and baseline and each.action.do != _BASELINE and lag.p99 > times * baseline.p99:
            yield (
                f"{each.action}: messages of other sites were {lag.p99:.1f} ms late at the 99th percentile; "
                f"at most {times:g} times the {baseline.p99:.1f} ms of {baseline.attack} are expected."
            )


def not_attacked(found: Evidence) -> Iterator[str]:
    for each in found.attacks:
        count = sum(each.report.sent.values())
        if not count:
            yield f"{each.action}: nothing was sent ({' '.join(each.report.told) or 'no reason is known'})."
        elif "flood" in each.action.do and count < _FLOOD_SHARE * each.action.amount * each.action.for_s:
            yield f"{each.action}: no more than {count / each.action.for_s:.0f} packets a second were sent."
        elif each.action.do in DATAGRAM_ATTACKS and each.action.do != _BASELINE and not sum(each.refused.values()):
            yield f"{each.action}: no member refused anything, so perhaps nothing arrived."
