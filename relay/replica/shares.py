"""Shares: which members of a site relay which origins, when the site has several relays (`relay.masters`).

An origin belongs to the share that a hash of its uuid says, so everything of one origin takes one way and stays in order. The
masters are dealt by the coordinator in the stream (`Masters`), number k of them serves share k; who serves one keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from sitestack.model.address import Address

#: Masters of a site at most: beyond, the one stream that they all write into is the bottleneck long since.
MASTERS_MAX = 8


class Share(NamedTuple):
    """Share `number` of `of`."""

    number: int
    of: int

    def covers(self, origin: Address) -> bool:
        """Whether an origin belongs to this share: by a hash that is the same in every process and at both ends of a link."""
        return self.of == 1 or crc32(origin) % self.of == self.number

    def common(self, other: Share) -> Share:
        """This share on a link to the other site's master of the same number: the smaller number of shares counts for both."""
        return Share(self.number, min(self.of, other.of))


#: The share of a relay that is the only one of its site.
WHOLE = Share(0, 1)


def deal(masters: Sequence[Address], members: Sequence[Address], wanted: int) -> tuple[Address, ...]:
    """The masters of a view with these members, in order of rank: as many as wanted and there are members for; none for one.

    A master that is still a member keeps its number, as long as there are so many; free ones go to the first in rank who have
    none. So while the number of masters stays, a death moves the share of the dead one only, to the first that has none.
    """
    count = min(wanted, len(members))
    if count < 2:
        return ()
    kept = [master for master in masters[:count] if master in members]
    free = iter([member for member in members if member not in kept])
    return tuple([masters[k] if k < len(masters) and masters[k] in kept else next(free) for k in range(count)])
