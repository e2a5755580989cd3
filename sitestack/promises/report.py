"""All promises, checked over the histories of one run, and the result in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from sitestack.model.address import Address
from sitestack.promises.across import check_no_remote_only
from sitestack.promises.agreement import (
    check_agreement,
    check_same_view,
    check_validity,
    check_virtual_synchrony,
)
from sitestack.promises.global_view import (
    check_convergence,
    check_equal_vectors,
    check_monotonic,
    check_union,
)
from sitestack.promises.history import History
from sitestack.promises.integrity import check_integrity
from sitestack.promises.lag import measure_lag
from sitestack.promises.membership import check_membership, check_merges, check_views
from sitestack.promises.order import (
    check_fifo,
    check_no_duplication,
    check_relayed_once,
    check_remote_fifo,
)
from sitestack.promises.ranges import Ranges, unite_into
from sitestack.promises.reception import Stream
from sitestack.promises.sites import check_conservation, check_loop_freedom, check_single_relay
from sitestack.promises.total_order import check_total_order
from sitestack.promises.unicast import check_unicast_outcomes, check_unicasts
from sitestack.promises.violation import Harm, Violation

Checker = Callable[[Sequence[History]], list[Violation]]

#: Checkers of promises that hold at every moment of every run.
SAFETY: tuple[Checker, ...] = (
    check_integrity,
    check_no_duplication,
    check_fifo,
    check_views,
    check_membership,
    check_same_view,
    check_virtual_synchrony,
    check_remote_fifo,
    check_relayed_once,
    check_loop_freedom,
    check_single_relay,
    check_unicasts,
    check_union,
    check_equal_vectors,
    check_monotonic,
    check_merges,
)
#: Checkers of promises at the end of a quiescent run.
LIVENESS: tuple[Checker, ...] = (
    check_agreement,
    check_validity,
    check_conservation,
    check_unicast_outcomes,
    check_convergence,
    check_no_remote_only,
)


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of the checkers, counted at each process."""

    deliveries: int
    lost: int
    duplicated: int
    reordered: int
    #: Messages that were declared lost, as promised when a budget is exceeded.
    gaps: int
    violations: tuple[Violation, ...]
    #: "NYC>SFO" -> {"p50": ms, "p99": ms}.
    lag_ms: Mapping[str, Mapping[str, float]]
    #: Whether the run was judged at its end too.
    quiescent: bool
    total_order: bool
    processes: int
    #: Legal but noteworthy observations.
    notes: tuple[str, ...] = ()
    #: Why only duplicates were judged: missing records look like losses. Empty if all was judged.
    not_judged: str = ""

    @property
    def verdict(self) -> Literal["pass", "fail", "not judged"]:
        if self.not_judged and not self.duplicated:
            return "not judged"
        return "fail" if self.violations else "pass"

    @property
    def counts(self) -> str:
        if self.not_judged:
            return (
                f"{self.deliveries} deliveries at {self.processes} processes, {self.duplicated} duplicated; {self.not_judged}"
            )
        return (
            f"{self.deliveries} deliveries at {self.processes} processes, {self.lost} lost, {self.duplicated} duplicated, "
            f"{self.reordered} reordered, {self.gaps} in gaps"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that `relay check --json` prints: all fields, and the verdict first."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        violations = [{"invariant": each.invariant, "where": each.where, "what": each.what} for each in self.violations]
        lag_ms = {pair: dict(lags) for pair, lags in self.lag_ms.items()}
        return {"verdict": self.verdict, **plain, "violations": violations, "lag_ms": lag_ms, "notes": list(self.notes)}


def check_all(histories: Sequence[History], quiescent: bool, total_order: bool) -> Report:
    """Check every invariant that journals can show.

    `quiescent`: faults were healed, sends had stopped and all messages had time to arrive; only
    then are losses at the end, agreement and convergence judged. `total_order` False leaves out L8.
    """
    checkers = [*SAFETY]
    if total_order:
        checkers.append(check_total_order)
    if quiescent:
        checkers.extend(LIVENESS)
    violations = tuple(violation for checker in checkers for violation in checker(histories))
    harmed = _count_harm(violations)
    return Report(
        deliveries=sum(history.delivered_messages for history in histories),
        lost=harmed["lost"],
        duplicated=sum(
            last - first + 1
            for history in histories
            for reception in history.receptions.values()
            for first, last in reception.duplicates
        ),
        reordered=harmed["reordered"],
        gaps=sum(len(reception.gaps) for history in histories for reception in history.receptions.values()),
        violations=violations,
        lag_ms=measure_lag(histories),
        quiescent=quiescent,
        total_order=total_order,
        processes=len(histories),
    )


def _count_harm(violations: Iterable[Violation]) -> dict[Harm, int]:
    """Count lost and reordered messages; one that several checkers miss at a process counts once."""
    harmed: dict[tuple[Harm, Address, Stream], Ranges] = {}
    for violation in violations:
        for harm, process, stream, numbers in violation.damage:
            unite_into(harmed, (harm, process, stream), numbers)
    counts: dict[Harm, int] = {"lost": 0, "reordered": 0, "duplicated": 0}
    for (harm, _, _), numbers in harmed.items():
        counts[harm] += len(numbers)
    return counts
