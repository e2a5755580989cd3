"""L6, L7, L9, L10: members of a site that stay together deliver the same messages in the same views.

Two members part at the end of a view when they go to different next views, or one has none. The
last messages that one of them delivered may be missing at the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS
from sitestack.model.view import ViewId
from sitestack.promises.history import History, Stay, by_site
from sitestack.promises.joiners import find_inherited
from sitestack.promises.ranges import Ranges, unite_into
from sitestack.promises.reception import NumberRun, Stream
from sitestack.promises.violation import Damage, Findings, Violation


def check_same_view(histories: Sequence[History]) -> list[Violation]:
    """L6. Two processes of a site that deliver the same multicast deliver it in the same view.

    Exempt is a message of a view that the first process left without the second one and without the
    origin.
    """
    findings = Findings("L6")
    by_uuid = {history.uuid: history for history in histories}
    for members in by_site(histories).values():
        runs: dict[Stream, list[tuple[NumberRun, ViewId, History]]] = {}
        for history in members:
            for stream, run, vid in _multicast_runs(history):
                runs.setdefault(stream, []).append((run, vid, history))
        for stream, delivered in runs.items():
            if not _is_disputed(delivered):
                continue
            origin = by_uuid.get(stream.origin) if stream.site == members[0].site else None
            for first, last, (vid, one), (other_vid, other) in _overlaps(delivered):
                numbers = Ranges([(first, last)]) - other.receptions[stream].superseded
                if numbers and _is_fixed(one, vid, other, origin):
                    what = f"{stream} {numbers} was delivered in {other_vid}, and at {one.label} in {vid}"
                    findings.add(other.label, str(stream), what)
    return findings.violations()


def check_virtual_synchrony(histories: Sequence[History]) -> list[Violation]:
    """L7. Members that go together from V to V' have delivered the same multicasts in V.

    Exempt is a message accounted for before V: delivered, declared lost, before the baseline, or in
    the state that the member joined with.
    """
    findings = Findings("L7")
    for members in by_site(histories).values():
        groups: dict[tuple[ViewId, ViewId], list[tuple[History, Stay]]] = {}
        for history in members:
            for (here, view), (_, following) in pairwise(history.placed_stays()):
                groups.setdefault((view.vid, following.vid), []).append((history, here))
        for (vid, next_vid), group in groups.items():
            if all(stay.received == group[0][1].received for _, stay in group):
                continue
            everything: dict[Stream, Ranges] = {}
            for stream, received in (each for _, stay in group for each in stay.received.items()):
                unite_into(everything, stream, received)
            for stream in sorted(everything, key=str):
                for history, stay in group:
                    missing = everything[stream] - stay.received.get(stream, Ranges())
                    if missing:
                        missing -= history.reception(stream).accounted_before(history.stay_in[vid])
                    if missing:
                        missing -= find_inherited(history, stream, members)
                    if missing:
                        what = f"did not deliver {stream} {missing} in {vid}; others did and also went to {next_vid}"
                        damage = Damage("lost", history.uuid, stream, history.reception(stream).wants_of(missing))
                        findings.add(history.label, f"{vid} {stream}", what, damage)
    return findings.violations()


def check_agreement(histories: Sequence[History]) -> list[Violation]:
    """L9, quiescent runs. A message that a survivor delivers in V is delivered by every survivor of
    its site in V.

    Exempt are messages of a member that then parted from the survivor, numbers in a gap or before a
    baseline, and those in the state that the survivor joined with.
    """
    return _check_agreement("L9", histories, by_survivors_only=True)


def check_uniform_agreement(histories: Sequence[History]) -> list[Violation]:
    """L11 with `agreement: uniform`, quiescent runs: as L9, but also for the deliveries of crashed processes."""
    return _check_agreement("L11", histories, by_survivors_only=False)


def check_validity(histories: Sequence[History]) -> list[Violation]:
    """L10, quiescent runs.

    A surviving origin delivers its own multicasts (to all sites or its own).
    """
    findings = Findings("L10")
    for history in histories:
        if not history.survives:
            continue
        for stream, sent in history.sent.items():
            if stream.scope in UNICASTS:
                continue
            if missing := sent - history.reception(stream).delivered:
                damage = Damage("lost", history.uuid, stream, missing)
                what = f"sent {stream} {missing} and did not deliver it itself"
                findings.add(history.label, str(stream), what, damage)
    return findings.violations()


def _multicast_runs(history: History) -> Iterator[tuple[Stream, NumberRun, ViewId]]:
    for stream, reception in history.receptions.items():
        if stream.scope not in UNICASTS:
            for run in reception.runs:
                view = history.stays[run.stay].view
                if view is not None:
                    yield stream, run, view.vid


def _overlaps(
    delivered: list[tuple[NumberRun, ViewId, History]],
) -> Iterator[tuple[int, int, tuple[ViewId, History], tuple[ViewId, History]]]:
    """Yield ranges delivered in different views: first, last, and both processes with their views."""
    if len({vid for _, vid, _ in delivered}) == 1:
        return
    active: list[tuple[NumberRun, ViewId, History]] = []
    for entry in sorted(delivered, key=lambda entry: entry[0]):
        run, vid, history = entry
        active = [each for each in active if each[0].last >= run.first]
        for other_run, other_vid, other in active:
            if vid != other_vid and history is not other:
                earlier, later = sorted([(vid, history), (other_vid, other)], key=lambda each: each[0])
                yield run.first, min(run.last, other_run.last), earlier, later
        active.append(entry)


def _is_fixed(one: History, vid: ViewId, other: History, origin: History | None) -> bool:
    """Return whether the deliveries of `one` in view `vid` were settled there for `other`."""
    following = one.next_view(vid)
    if following is None:
        return False
    return other.came_with(vid, following) or (origin is not None and origin.came_with(vid, following))


def _is_disputed(delivered: list[tuple[NumberRun, ViewId, History]]) -> bool:
    by_view: dict[ViewId, list[tuple[int, int]]] = {}
    for run, vid, _ in delivered:
        by_view.setdefault(vid, []).append((run.first, run.last))
    parts = [Ranges(sorted(ranges)) for ranges in by_view.values()]
    return len(parts) > 1 and sum(map(len, parts)) > len(Ranges(sorted(chain.from_iterable(parts))))


class _Step(NamedTuple):
    """A view and the next view of a process, which decide the members that are owed the view's messages."""

    vid: ViewId
    members: tuple[Address, ...]
    following: ViewId | None
    kind: str

    @classmethod
    def of(cls, history: History, view: records.View) -> _Step:
        following = history.next_view(view.vid)
        return cls(view.vid, view.members, *((None, "") if following is None else (following.vid, following.kind)))


def _check_agreement(invariant: str, histories: Sequence[History], by_survivors_only: bool) -> list[Violation]:
    findings = Findings(invariant)
    for members in by_site(histories).values():
        survivors = [history for history in members if history.survives]
        told = survivors if by_survivors_only else members
        wanting = _find_wanting(told, survivors)
        for history in told:
            for stay, view in history.placed_stays():
                for other in wanting[_Step.of(history, view)]:
                    if other is not history:
                        _check_stay(findings, history, stay, view, other, members)
    return findings.violations()


def _find_wanting(told: Sequence[History], survivors: Sequence[History]) -> dict[_Step, list[History]]:
    """Return the members that are owed some missing message of a view."""
    delivered: dict[_Step, dict[Stream, Ranges]] = {}
    following: dict[_Step, records.View | None] = {}
    for history in told:
        for stay, view in history.placed_stays():
            step = _Step.of(history, view)
            following[step] = history.next_view(step.vid)
            together = delivered.setdefault(step, {})
            for stream, received in stay.received.items():
                unite_into(together, stream, received)
    return {
        step: [
            other
            for other in survivors
            if other.uuid in step.members
            and ((after := following[step]) is None or other.came_with(step.vid, after))
            and any(_missing(other, stream, numbers) for stream, numbers in together.items())
        ]
        for step, together in delivered.items()
    }


def _missing(other: History, stream: Stream, received: Ranges) -> Ranges:
    reception = other.reception(stream)
    return reception.wants_of(received) if stream.site == other.site else received - reception.accounted


def _check_stay(
    findings: Findings, history: History, stay: Stay, view: records.View, other: History, members: Sequence[History]
) -> None:
    for stream, received in stay.received.items():
        if missing := _missing(other, stream, received):
            missing -= find_inherited(other, stream, members)
        if missing:
            what = f"never delivered {stream} {missing}, which {history.label} delivered in {view.vid}"
            damage = Damage("lost", other.uuid, stream, missing)
            findings.add(other.label, str(stream), what, damage)
