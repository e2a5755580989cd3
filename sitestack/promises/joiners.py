"""Inherited history: a process joins with a state that includes its companions' deliveries before its
first view.

A message can be delivered there and again later, when its paused sender comes back with a merge
view. A process that joined in between is not owed it, nor one that founded a site alone and then
met the others. A companion passes its inherited history on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.promises.history import History
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream


def find_inherited(joiner: History, stream: Stream, members: Iterable[History]) -> Ranges:
    """Return the numbers of a stream of its own site that the joiner inherits."""
    if stream.site != joiner.site:
        return Ranges()
    others = {history.uuid: history for history in members}
    # Calls under way, against cycles.
    asked = set[tuple[Address, int]]()

    @cache
    def inherited(uuid: Address, until: int) -> Ranges:
        heir, found = others.get(uuid, joiner), Ranges()
        asked.add((uuid, until))
        for view in _meetings(heir, stream):
            if heir.stay_in[view.vid] < until:
                for other in others.values():
                    entered = other.stay_in.get(view.vid, 0)
                    if other is not heir and entered > 1 and (other.uuid, entered) not in asked:
                        found |= inherited(other.uuid, entered) | _delivered(other, stream, entered, heir, view)
        asked.remove((uuid, until))
        return found

    return inherited(joiner.uuid, len(joiner.stays))


def _meetings(history: History, stream: Stream) -> Iterator[records.View]:
    """Return its first view, and the first with the sender."""
    first = history.first_view
    met = next((view for _, view in history.placed_stays() if stream.origin in view.members), None)
    return iter(dict.fromkeys(view for view in (first, met) if view is not None))


def _delivered(other: History, stream: Stream, until: int, heir: History, view: records.View) -> Ranges:
    """Return the deliveries of `other` before its stay of this number, begun by `view`; for a view
    after the heir's first those without the heir.
    """
    found = Ranges()
    for run in other.reception(stream).runs:
        there = other.stays[run.stay].view
        if run.stay < until and (view is heir.first_view or there is None or heir.uuid not in there.members):
            found.add(run.first, run.last)
    return found
