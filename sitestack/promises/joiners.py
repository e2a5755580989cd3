"""What a process has as history: the state that it joined with holds what its companions had delivered before its first view.

A message can be delivered there and again later, by its sender that stood still meanwhile and comes back with a merge view.
Who joined in between is not owed it a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

from sitestack.promises.history import History
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream


def find_inherited(joiner: History, stream: Stream, members: Iterable[History]) -> Ranges:
    """The numbers of a stream of its own site that a member of its first view had delivered before that view."""
    inherited = Ranges()
    first = joiner.first_view
    if first is None or stream.site != joiner.site:
        return inherited
    for other in members:
        entered = other.stay_in.get(first.vid)
        reception = other.receptions.get(stream)
        if other is joiner or entered is None or reception is None:
            continue
        for run in reception.runs:
            if run.stay < entered:
                inherited.add(run.first, run.last)
    return inherited
