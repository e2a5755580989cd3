"""The result of one run of a drill, and the sum of several runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

from relay_lab.drills.hostile.evidence import Evidence
from relay_lab.drills.plan import Drill
from relay_lab.drills.verdict import MemberVerdict, Rates, Silence, order_agrees
from sitestack.promises import Report

#: Not exercised: no failure, but the fault did not happen, or not under load.
Verdict = Literal["pass", "fail", "not exercised"]


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a run, in seconds after the load began."""

    at_s: float
    what: str


@dataclass(frozen=True, slots=True)
class DrillResult:
    drill: Drill
    seed: int
    sites: dict[str, list[str]]
    #: A verdict for each process.
    members: tuple[MemberVerdict, ...]
    report: Report
    seconds: float
    #: Seconds from the end of load and faults until everything was at rest.
    quiet_s: float
    #: Queue -> its level at the end, summed over all members (B3).
    queues: dict[str, int]
    timeline: tuple[Moment, ...]
    #: Sentences on problems other than deliveries.
    problems: tuple[str, ...]
    #: The longest silence of another site after the first fault, and of the own site.
    silence: Silence | None = None
    own_silence: Silence | None = None
    rates: Rates = field(default_factory=Rates)
    #: Means of injecting faults, in sentences.
    means: tuple[str, ...] = ()
    #: Sentences on the parts of the drill that did not happen.
    unexercised: tuple[str, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)

    @property
    def failover_s(self) -> float | None:
        """The longest silence of another site after the first fault; None without one."""
        return None if self.silence is None else self.silence.seconds

    @property
    def lost(self) -> int:
        """Lost messages at each member: the higher one of the members' and the checkers' counts."""
        return max(self.report.lost, sum(each.lost for each in self.members))

    @property
    def duplicated(self) -> int:
        """Messages delivered again, counted at each member."""
        return max(self.report.duplicated, sum(each.duplicated for each in self.members))

    @property
    def reordered(self) -> int:
        """Messages delivered out of order, counted at each member."""
        return max(self.report.reordered, sum(each.reordered for each in self.members))

    @property
    def gaps(self) -> int:
        """Messages declared lost, counted at each member."""
        return sum(each.gaps for each in self.members)

    @property
    def verdict(self) -> Verdict:
        if any(self.faults()):
            return "fail"
        return "not exercised" if self.unexercised else "pass"

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    def faults(self) -> Iterator[str]:
        for name in ("lost", "duplicated", "reordered"):
            if number := getattr(self, name):
                yield f"{number} messages {name}."
        if not order_agrees(self.members):
            yield "The members of a site delivered in different orders."
        yield from self._unexpected()
        yield from self.problems
        yield from map(str, self.report.violations)

    def _unexpected(self) -> Iterator[str]:
        expected = self.drill.verdict
        for each in self.members:
            if each.gaps > (allowed := expected.gaps_allowed(each.site, each.name)):
                at_most = f"at most {allowed} are expected" if allowed else "none is expected"
                yield f"{each.gaps} messages declared lost at {each.title} of {each.site}; {at_most}."
        if expected.gaps == "exact" and not self.gaps:
            yield "Nothing was declared lost, so the budget was never exceeded."
        if overstated := sum(each.overstated for each in self.members):
            yield f"{overstated} messages declared lost that were delivered."
        if expected.silence_s_max and (self.failover_s is None or self.failover_s > expected.silence_s_max):
            heard = (
                "nothing was heard any more" if self.failover_s is None else f"there was silence for {self.failover_s:.1f} s"
            )
            yield f"After the fault {heard}; at most {expected.silence_s_max:g} s are expected."
        if self.own_silence is not None and 0 < expected.own_silence_s_max < self.own_silence.seconds:
            what = f"{self.own_silence.member} heard nothing of its own site for {self.own_silence.seconds:.1f} s"
            yield f"After the fault {what}; at most {expected.own_silence_s_max:g} s are expected."

    def to_json(self) -> dict[str, Any]:
        return {
            **_totals([self]),
            "failover_s": self.failover_s,
            "failover_worst_s": self.failover_s,
            "silence": None if self.silence is None else asdict(self.silence),
            "own_silence": None if self.own_silence is None else asdict(self.own_silence),
            "own_silence_s": None if self.own_silence is None else self.own_silence.seconds,
            "means": list(self.means),
            "quiet_s": self.quiet_s,
            "queues": self.queues,
            "processes": [
                {
                    "site": each.site,
                    "name": each.name,
                    "incarnation": each.incarnation,
                    "sent": each.sent,
                    "delivered": each.delivered,
                }
                for each in self.members
            ],
            "gaps_at": {f"{each.site}.{each.title}": each.gaps for each in self.members if each.gaps},
            "unexercised": list(self.unexercised),
            **({"hostile": self.evidence.to_json()} if self.evidence.attacks else {}),
            "timeline": [{"at_s": each.at_s, "what": each.what} for each in self.timeline],
            "seed": self.seed,
        }


def summary(drill: Drill, results: Sequence[DrillResult], aborted: Sequence[str]) -> dict[str, Any]:
    """Return one object for all runs of one drill: messages are added up, the hashes are those of the
    last run.

    `aborted`: a sentence for each run without a result.
    """
    silences = [result.failover_s for result in results if result.failover_s is not None]
    totals = _totals(results)
    if aborted:
        totals |= {"verdict": overall(results, aborted), "problems": [*totals["problems"], *aborted]}
    return {
        "drill": drill.name,
        **totals,
        "failover_s": round(median(silences), 3) if silences else None,
        "failover_worst_s": max(silences, default=None),
        "own_silence_worst_s": max(
            [each.own_silence.seconds for each in results if each.own_silence is not None], default=None
        ),
        "quiet_s": max((result.quiet_s for result in results), default=None),
        "runs": [result.to_json() for result in results],
    }


class NotBegun(str):
    """Sentence on a run whose members did not come up: no fault was injected."""

    __slots__ = ()


def overall(results: Sequence[DrillResult], aborted: Sequence[str] = ()) -> Verdict:
    """Return the worst verdict of all runs; one that began without a result failed."""
    verdicts = {result.verdict for result in results}
    verdicts |= {"not exercised" if isinstance(each, NotBegun) else "fail" for each in aborted}
    if "fail" in verdicts:
        return "fail"
    return "not exercised" if "not exercised" in verdicts else "pass"


def _totals(results: Sequence[DrillResult]) -> dict[str, Any]:
    sites = results[-1].sites if results else {}
    delivered: dict[str, int] = {name: 0 for names in sites.values() for name in names}
    for result in results:
        for each in result.members:
            delivered[each.name] += each.delivered
    hashes: dict[str, dict[str, str]] = {site: {} for site in sites}
    for each in results[-1].members if results else ():
        hashes[each.site][each.title] = each.order_hash
    return {
        "sites": sites,
        "sent": sum(each.sent for result in results for each in result.members),
        "delivered": delivered,
        "lost": sum(result.lost for result in results),
        "duplicated": sum(result.duplicated for result in results),
        "reordered": sum(result.reordered for result in results),
        "gaps": sum(result.gaps for result in results),
        "order_hash": hashes,
        "seconds": round(sum(result.seconds for result in results), 3),
        "verdict": overall(results),
        "problems": [fault for result in results for fault in result.faults()],
    }
