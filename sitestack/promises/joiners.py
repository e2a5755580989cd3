"""What a process has as history: the state that it joined with holds what its companions had delivered before its first view.

A message can be delivered there and again later, by its sender that stood still meanwhile and comes back with a merge view.
Who joined in between is not owed it a second time. Nor is who founded a site alone, and then met the others in a merge: of a
sender that was in none of its views it takes over what they had delivered without it, as a joiner does.
"""

from __future__ import annotations

from collections.abc import Iterable

from sitestack.journal import records
from sitestack.promises.history import History
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream


def find_inherited(joiner: History, stream: Stream, members: Iterable[History]) -> Ranges:
    """The numbers of a stream of its own site that others had delivered before they were in its first view with it, and those
    that they had delivered in views without it before they were in its first view with the sender.
    """
    inherited = Ranges()
    if stream.site != joiner.site:
        return inherited
    joined, met = joiner.first_view, _first_with(joiner, stream)
    for other in members:
        reception = other.receptions.get(stream)
        if other is joiner or reception is None:
            continue
        before_joining, before_meeting = _stay_in(other, joined), _stay_in(other, met)
        for run in reception.runs:
            view = other.stays[run.stay].view
            alone = view is None or joiner.uuid not in view.members
            if run.stay < before_joining or (run.stay < before_meeting and alone):
                inherited.add(run.first, run.last)
    return inherited


def _stay_in(history: History, view: records.View | None) -> int:
    return 0 if view is None else history.stay_in.get(view.vid, 0)


def _first_with(joiner: History, stream: Stream) -> records.View | None:
    return next((view for _, view in joiner.placed_stays() if stream.origin in view.members), None)
