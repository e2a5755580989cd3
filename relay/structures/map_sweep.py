"""The sweep of tombstones: they are forgotten once every site has sent all older writes.

A tombstone must outlive every older write of its key that is still on its way. The first site begins
a sweep at its time T; from then on all clocks are above T. One step later, when writes under way are
in the streams, the leader of each site reports. The stream of a site is FIFO, so a member with the
reports of all sites has all writes up to T. A missing report, as of a dead or offline site, keeps the
tombstones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator


class Sweep:
    def __init__(self) -> None:
        #: The time of the sweep (ticks); 0 for none.
        self._upto = self._before = 0
        self._reported: set[str] = set()

    def begin(self, upto: int) -> None:
        if upto != self._upto:
            self._upto, self._reported = upto, set()

    def step(self, starts: int, is_first: bool) -> Iterator[tuple[int, bool]]:
        """Yield the times to send: with True as a report of this site, with False as a beginning.

        `starts`: the time of a new sweep, 0 for none. `is_first`: this member begins sweeps, and
        repeats the beginning for members that have come since.
        """
        if self._upto and self._upto == self._before:
            yield self._upto, True
        if is_first and (self._upto or starts):
            yield self._upto or starts, False
        self._before = self._upto

    def report(self, upto: int, site: str, sites: Collection[str]) -> bool:
        """Note the report of a site; return whether all sites have reported now."""
        if upto != self._upto or not upto:
            return False
        self._reported.add(site)
        if not self._reported.issuperset(sites):
            return False
        self._upto = 0
        return True
