"""X4: a message that reaches another site is not lost at home."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises.history import History, by_site
from sitestack.promises.joiners import find_inherited
from sitestack.promises.ranges import Ranges, unite_into
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Findings, Violation


def check_no_remote_only(histories: Sequence[History]) -> list[Violation]:
    """X4, quiescent runs. The survivors at home deliver every message that any process of another site
    delivers.

    Exempt are messages:

    * delivered in a view that two or more members did not leave together with the survivor;
    * delivered in a view that a member left with others for a view that it created;
    * of one part of a split site that was lost later;
    * in the state that the survivor joined with.
    """
    findings = Findings("X4")
    abroad: dict[Stream, Ranges] = {}
    for history in histories:
        for stream, reception in history.receptions.items():
            if stream.scope is Scope.ALL and stream.site != history.site:
                unite_into(abroad, stream, reception.delivered)
    for members in by_site(histories).values():
        by_uuid = {history.uuid: history for history in members}
        told = [each for history in members for each in _find_told(history, abroad)]
        wanting = _find_wanting(told, [history for history in members if history.survives])
        for history, view, both in told:
            for other in wanting[view.vid]:
                if other is not history and _stood_by(other, history, view, by_uuid):
                    _check_told(findings, history, other, both, members)
    return findings.violations()


#: Messages of its own site that a process delivered in a view, and that another site delivered too.
_Told = tuple[History, records.View, dict[Stream, Ranges]]


def _find_told(history: History, abroad: dict[Stream, Ranges]) -> Iterator[_Told]:
    for stay, view in history.placed_stays():
        told = {
            stream: both
            for stream, numbers in stay.received.items()
            if stream.site == history.site and (both := numbers & abroad.get(stream, Ranges()))
        }
        if told:
            yield history, view, told


def _find_wanting(told: Sequence[_Told], survivors: Sequence[History]) -> dict[ViewId, list[History]]:
    """Map each view to its survivors that lack some message of it."""
    together: dict[ViewId, dict[Stream, Ranges]] = {}
    for _, view, both in told:
        for stream, numbers in both.items():
            unite_into(together.setdefault(view.vid, {}), stream, numbers)
    return {
        vid: [
            other
            for other in survivors
            if vid in other.stay_in and any(other.reception(stream).wants_of(numbers) for stream, numbers in both.items())
        ]
        for vid, both in together.items()
    }


def _stood_by(survivor: History, history: History, view: records.View, by_uuid: dict[Address, History]) -> bool:
    """Return whether a survivor left this view together with all others, or all but one that died in it."""
    if view.vid not in survivor.stay_in:
        return False
    following = survivor.next_view(view.vid)
    if following is None:
        return True
    lost = [uuid for uuid in view.members if uuid not in by_uuid or not by_uuid[uuid].came_with(view.vid, following)]
    if history.uuid in lost and (history.next_view(view.vid) is not None or _left_to_others(history, view, survivor, by_uuid)):
        return False
    return len(lost) <= 1


def _left_to_others(leaver: History, view: records.View, survivor: History, by_uuid: dict[Address, History]) -> bool:
    """Return whether a member created the next view without the survivor; its members then hold the messages."""
    made = {vid for each in by_uuid.values() for vid in each.stay_in if vid.creator == leaver.uuid}
    return any(vid.counter > view.vid.counter and vid not in survivor.stay_in for vid in made)


def _check_told(
    findings: Findings, history: History, other: History, told: dict[Stream, Ranges], members: Sequence[History]
) -> None:
    for stream, numbers in told.items():
        if missing := other.reception(stream).wants_of(numbers):
            missing -= find_inherited(other, stream, members)
        if missing:
            what = f"never delivered {stream} {missing}, which {history.label} delivered and another site too"
            findings.add(other.label, str(stream), what)
