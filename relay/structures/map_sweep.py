"""The sweep of tombstones: they are forgotten once every site has all older writes.

A tombstone must outlive every older write of its key. The first site begins a sweep at its time T;
from then on all clocks are above T. One step later, when writes under way are in the streams, the
leader of each site reports. Streams are FIFO, so a leader with all reports has all writes up to T,
once its gaps are repaired; it reports that too. A missing report keeps the tombstones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator


class Sweep:
    def __init__(self) -> None:
        #: The time of the sweep (ticks); 0 for none.
        self._upto = self._before = self._done = 0
        #: Sites that have sent all, and those that have received all.
        self._sent: set[str] = set()
        self._complete: set[str] = set()

    def begin(self, upto: int) -> None:
        if upto not in (self._upto, self._done):
            self._upto, self._sent, self._complete = upto, set(), set()

    def is_sent(self, sites: Collection[str]) -> bool:
        return self._sent.issuperset(sites)

    def step(self, starts: int, is_first: bool) -> Iterator[tuple[int, bool]]:
        """Yield the times to send: with True as a report of this site, with False as a beginning.

        `starts`: the time of a new sweep, 0 for none. `is_first`: this member begins sweeps, and
        repeats the beginning for newer members.
        """
        if self._upto and self._upto == self._before:
            yield self._upto, True
        if is_first and (self._upto or starts):
            yield self._upto or starts, False
        self._before = self._upto

    def report(self, upto: int, site: str, has_all: bool, sites: Collection[str]) -> bool:
        """Note the report of a site; return whether all sites have all writes now."""
        if upto != self._upto or not upto:
            return False
        self._sent.add(site)
        if has_all:
            self._complete.add(site)
        if not self._complete.issuperset(sites):
            return False
        self._upto, self._done = 0, upto
        return True
