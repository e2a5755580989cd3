"""L2, L3 in a site and X1, X2 across sites: every origin's messages come once, in order, and without silent holes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sitestack.model.message import Scope
from sitestack.promises.history import History, by_site, unreached_unicasts
from sitestack.promises.joiners import find_inherited
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Hole, NumberRun, Reception, Stream
from sitestack.promises.violation import Damage, Findings, Violation


def check_no_duplication(histories: Sequence[History]) -> list[Violation]:
    """L2.

    Each id appears at most once in the deliveries of a process (X2 covers those of other sites).
    """
    return _duplicates("L2", histories, from_own_site=True)


def check_relayed_once(histories: Sequence[History]) -> list[Violation]:
    """X2. At most once across relay failover: L2 applied to messages of other sites."""
    return _duplicates("X2", histories, from_own_site=False)


def check_fifo(histories: Sequence[History]) -> list[Violation]:
    """L3. Per origin of the own site the delivered numbers strictly increase, and no number between
    them is missing.

    A number may be missing if an earlier gap covers it, if only views without this process or
    members that had parted delivered it, if it is in the state that it joined with, or, of a
    unicast, if its origin reports it unreached. Messages out of band have no order.
    """
    findings = Findings("L3")
    unreached = unreached_unicasts(histories, "not_delivered", "unknown")
    for members in by_site(histories).values():
        runs = _runs_by_stream(members)
        for history in members:
            for stream, reception in _receptions(history, from_own_site=True):
                if stream.scope is Scope.OOB:
                    continue
                _report_late(findings, history, stream, reception)
                for hole in reception.holes:
                    if stream.scope is Scope.UNICAST:
                        missing = hole.missing - unreached.get(stream, Ranges())
                    elif missing := _owed(history, hole, runs[stream]):
                        missing -= find_inherited(history, stream, members)
                    _report_hole(findings, history, stream, missing, hole)
    return findings.violations()


def check_remote_fifo(histories: Sequence[History]) -> list[Violation]:
    """X1. Per origin of another site the delivered numbers strictly increase, and a gap covers every
    hole.

    Counted from the baseline, or else from the first delivered number. Gaps stand between their
    neighbours, and their numbers are never delivered.
    """
    findings = Findings("X1")
    unreached = unreached_unicasts(histories, "not_delivered", "unknown")
    for history in histories:
        for stream, reception in _receptions(history, from_own_site=False):
            _report_late(findings, history, stream, reception)
            for hole in reception.holes:
                if stream.scope is Scope.UNICAST:
                    missing = hole.missing - unreached.get(stream, Ranges())
                else:
                    missing = Ranges() if hole.initial else hole.missing
                _report_hole(findings, history, stream, missing, hole)
            if broken := reception.gaps & reception.delivered:
                findings.add(history.label, f"gap {stream}", f"{stream} {broken} is a gap and was delivered")
            if misplaced := reception.misplaced_gaps:
                findings.add(
                    history.label,
                    f"order {stream}",
                    f"the gap {stream} {misplaced} stands before the delivery of a lower number",
                )
    return findings.violations()


def _duplicates(invariant: str, histories: Sequence[History], from_own_site: bool) -> list[Violation]:
    findings = Findings(invariant)
    for history in histories:
        for stream, reception in _receptions(history, from_own_site):
            for first, last in reception.duplicates:
                numbers = Ranges([(first, last)])
                damage = Damage("duplicated", history.uuid, stream, numbers)
                findings.add(history.label, str(stream), f"delivered {stream} {numbers} again", damage)
    return findings.violations()


def _receptions(history: History, from_own_site: bool) -> Iterable[tuple[Stream, Reception]]:
    return (each for each in history.receptions.items() if (each[0].site == history.site) is from_own_site)


def _report_late(findings: Findings, history: History, stream: Stream, reception: Reception) -> None:
    if late := reception.late:
        damage = Damage("reordered", history.uuid, stream, late)
        findings.add(
            history.label, f"late {stream}", f"delivered {stream} {late} after a higher number, or below its baseline", damage
        )


def _report_hole(findings: Findings, history: History, stream: Stream, missing: Ranges, hole: Hole) -> None:
    if missing:
        damage = Damage("lost", history.uuid, stream, history.reception(stream).wants_of(missing))
        what = f"delivered {stream} {hole.before} without {missing} before it"
        findings.add(history.label, f"hole {stream}", what, damage)


_Delivered = list[tuple[History, NumberRun]]


def _runs_by_stream(members: Sequence[History]) -> dict[Stream, _Delivered]:
    runs: dict[Stream, _Delivered] = {}
    for history in members:
        for stream, reception in history.receptions.items():
            runs.setdefault(stream, []).extend((history, run) for run in reception.runs)
    return runs


def _owed(history: History, hole: Hole, runs: _Delivered) -> Ranges:
    """Return the part of a hole that this process owed."""
    owed, elsewhere = Ranges(), Ranges()
    for other, run in runs:
        if other is history:
            continue
        for first, last in hole.missing.within(run.first, run.last):
            (owed if _shared(history, hole, other, run) else elsewhere).add(first, last)
    return owed | (hole.missing - elsewhere)


def _shared(history: History, hole: Hole, other: History, run: NumberRun) -> bool:
    """Return whether `history` had to deliver this run of `other` before it delivered the number after the hole."""
    view = other.stays[run.stay].view
    if view is None or history.uuid not in view.members:
        return False
    following = other.next_view(view.vid)
    if following is None:
        # The other process ended in this view, perhaps with a last message that no other process
        # has.
        stay = history.stays[hole.stay].view
        return stay is not None and stay.vid == view.vid
    return history.came_with(view.vid, following)
